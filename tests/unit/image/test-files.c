/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/file.h"
#include "image/archive/files.h"
#include "layers.h"

#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static char top[] = "/tmp/kosa8-test.XXXXXX";
static struct output output = {.fd = -1};
static struct images images = IMAGES_NONE;
static struct workdir work = WORKDIR_NONE;

static void fresh_work(void)
{
	struct err e;

	workdir_remove(&work);
	work = (struct workdir)WORKDIR_NONE;
	if (workdir_open(&images, NULL, &work, &e) < 0)
		abort();
}

static enum err_kind read_bytes(const struct buf *b, uint64_t max_bytes, struct files *ret)
{
	struct err e = {0};
	cleanup_fd int fd = memory_file(b);

	fresh_work();
	if (lseek(fd, 0, SEEK_SET) != 0)
		abort();
	if (files_read_tar(fd, &work, max_bytes, ret, &e) == 0)
		return ERR_NONE;
	printf("# %s\n", e.what);
	return e.kind;
}

static enum err_kind read_items(const struct item *items, size_t n, struct files *ret)
{
	cleanup_buf struct buf b = {0};

	buf_init(&b, 1 << 20);
	put_items(&b, items, n);
	put_end(&b);
	return read_bytes(&b, 1 << 16, ret);
}
#define READ(ret, ...)                                 \
	read_items((const struct item[]){__VA_ARGS__}, \
		sizeof((const struct item[]){__VA_ARGS__}) / sizeof(struct item), ret)

/* The content, or the kind of the error. */
static const char *content(struct files *f, const char *name)
{
	static struct buf b;
	struct member m;
	struct err e = {0};
	char hex[SHA256_HEX_SIZE];

	buf_release(&b);
	if (files_read(f, name, 100, &b, &m, &e) < 0)
		return err_kind_name(e.kind);
	sha256_hex_of(b.data, b.len, hex);
	if (m.content.size != b.len || strcmp(m.content.digest + strlen("sha256:"), hex) != 0)
		return "(not what was hashed)";
	return buf_cstr(&b);
}

static void test_names(void)
{
	cleanup_files struct files f = FILES_NONE;

	EQ_INT(READ(&f, FILE_("a", "1"), FILE_("./d//e/../b", "2"), FILE_("/abs", "3"),
		       FILE_("a", "last"), SYM("d/up", "../a"), SYM("d/abs", "/d/b"),
		       HARD("hard", "d/b"), SYM("again", "d/up"), SYM("x", "y"), SYM("y", "x"),
		       SYM("self", "self"), SYM("gone", "nothing"), DIR_("folder"),
		       {.type = '6', .name = "fifo"}, {.type = '3', .name = "device"}),
		ERR_NONE, "a tar");
	EQ_STR(content(&f, "a"), "last", "the last of a name counts");
	EQ_STR(content(&f, "d/b"), "2", "a name is normalised");
	EQ_STR(content(&f, "abs"), "3", "an absolute name is one from the top");
	EQ_STR(content(&f, "d/up"), "last", "a symbolic link");
	EQ_STR(content(&f, "d/abs"), "2", "an absolute link is one from the top");
	EQ_STR(content(&f, "hard"), "2", "a hard link");
	EQ_STR(content(&f, "again"), "last", "a link to a link");
	EQ_STR(content(&f, "x"), "not_found", "links in a circle");
	EQ_STR(content(&f, "self"), "not_found", "a link to itself");
	EQ_STR(content(&f, "gone"), "not_found", "a link to nothing");
	EQ_STR(content(&f, "folder"), "not_found", "a folder");
	EQ_STR(content(&f, "fifo"), "not_found", "a fifo");
	EQ_STR(content(&f, "device"), "not_found", "a device");
	EQ_STR(content(&f, "/etc/passwd"), "not_found", "a file of the host");
	OK(files_has(&f, "a") && !files_has(&f, "b"), "what is there");
}

static void test_refused(void)
{
	cleanup_files struct files f = FILES_NONE;
	char longest[1000];

	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	EQ_INT(READ(&f, FILE_("..", "")), ERR_INVALID, "..");
	EQ_INT(READ(&f, FILE_("a/../../b", "")), ERR_INVALID, "a/../../b");
	EQ_INT(READ(&f, SYM("a", "../b")), ERR_INVALID, "a symbolic link that leads out");
	EQ_INT(READ(&f, HARD("a", "../b")), ERR_INVALID, "a hard link that leads out");
	EQ_INT(READ(&f, SYM("d/a", "../../b")), ERR_INVALID, "and from a folder");
	EQ_INT(READ(&f, SYM("d/a", "../b")), ERR_NONE, "control: not so far");
	files_release(&f);

	cleanup_buf struct buf b = {0};
	buf_init(&b, 1 << 20);
	put_gnu_long(&b, 'L', longest);
	put_items(&b, (const struct item[]){FILE_("x", "")}, 1);
	put_end(&b);
	EQ_INT(read_bytes(&b, 1 << 16, &f), ERR_INVALID, "a name of 999 bytes");
}

static void test_limits(void)
{
	cleanup_files struct files f = FILES_NONE;
	cleanup_buf struct buf b = {0};
	static const struct item big = FILE_("big", "");

	EQ_INT(READ(&f, FILE_("a", "12345")), ERR_NONE, "a small one");
	EQ_STR(content(&f, "a"), "12345", "is read");
	files_release(&f);
	buf_init(&b, 1 << 20);
	put_header(&b, &big, 1 << 17);
	EQ_INT(read_bytes(&b, 1 << 16, &f), ERR_LIMIT, "more bytes than the limit");
	EQ_INT(read_bytes(&b, 1 << 18, &f), ERR_CORRUPT, "control: within it, but cut");
	buf_reset(&b);
	put_header(&b, &big, UINT64_C(1) << 62);
	EQ_INT(read_bytes(&b, 1 << 16, &f), ERR_LIMIT, "a size of 2^62");
}

static void write_file(int dirfd, const char *name, const char *text)
{
	if (file_write_atomic(dirfd, name, text, strlen(text), 0600, false) < 0)
		abort();
}

static void test_folder(void)
{
	cleanup_files struct files f = FILES_NONE;
	char path[64];
	struct err e = {0};

	(void)snprintf(path, sizeof(path), "%s/folder", top);
	cleanup_fd int dir = dir_open(AT_FDCWD, path, true, 0700);
	if (dir < 0 || symlinkat("a", dir, "in") < 0 || symlinkat("../images", dir, "out") < 0 ||
		symlinkat("/etc/passwd", dir, "abs") < 0 || symlinkat("loop", dir, "loop") < 0 ||
		mkfifoat(dir, "fifo", 0600) < 0 || mkdirat(dir, "d", 0700) < 0)
		abort();
	write_file(dir, "a", "1");
	fresh_work();
	EQ_INT(files_open(path, &work, &f, &e), 0, "a folder");
	EQ_STR(content(&f, "in"), "1", "a link inside");
	EQ_STR(content(&f, "out"), "invalid", "a link that leads out");
	EQ_STR(content(&f, "abs"), "invalid", "an absolute link");
	EQ_STR(content(&f, "loop"), "invalid", "a link to itself");
	EQ_STR(content(&f, "../images"), "invalid", "a name that leads out");
	EQ_STR(content(&f, "/etc/passwd"), "invalid", "an absolute name");
	EQ_STR(content(&f, "fifo"), "invalid", "a fifo is not waited for");
	EQ_STR(content(&f, "d"), "invalid", "a folder");
	EQ_STR(content(&f, "nothing"), "not_found", "nothing");
	EQ_STR(content(&f, "a"), "1", "a file");
	write_file(dir, "a", "2");
	EQ_STR(content(&f, "a"), "1", "does not change any more");
	EQ_STR(content(&f, "./a"), "2", "control: by another name it is read anew");
	write_file(dir, "large",
		"0123456789012345678901234567890123456789012345678901234567890123456789"
		"0123456789012345678901234567890123456789");
	EQ_STR(content(&f, "large"), "limit", "too large for its reader");
}

static void test_copy(void)
{
	struct copied one = {0}, two = {0};
	struct err e = {0};
	char hex[SHA256_HEX_SIZE];
	int ends[2];
	cleanup_fd int file = memfd_create("x", MFD_CLOEXEC);

	if (file < 0 || fd_write_all(file, "content", 7) < 0 || lseek(file, 0, SEEK_SET) != 0 ||
		pipe2(ends, O_CLOEXEC) < 0 || fd_write_all(ends[1], "content", 7) < 0)
		abort();
	(void)fd_close(ends[1]);
	sha256_hex_of("content", 7, hex);
	EQ_INT(copy_all(&work, file, "copy-1", "it", 7, &one, &e), 0, "of a file");
	EQ_INT(copy_all(&work, ends[0], "copy-2", "it", 7, &two, &e), 0, "of a pipe");
	EQ_STR(one.digest + strlen("sha256:"), hex, "the digest");
	EQ_STR(two.digest, one.digest, "is the same");
	EQ_INT(one.size + two.size, 14, "sizes");
	(void)fd_close(ends[0]);
	OK(lseek(file, 0, SEEK_SET) == 0 &&
			copy_all(&work, file, "copy-3", "it", 6, &one, &e) < 0 &&
			e.kind == ERR_LIMIT,
		"more than the limit");
	OK(copy_all(&work, file, "copy-1", "it", 7, &one, &e) < 0 && e.errnum == EEXIST,
		"nothing is written over");
}

int main(void)
{
	char path[64];
	struct err e = {0};

	if (!mkdtemp(top))
		return 1;
	(void)snprintf(path, sizeof(path), "%s/images", top);
	if (mkdir(path, 0700) < 0 || images_open(path, &output, &images, &e) < 0)
		return 1;
	test_names();
	test_refused();
	test_limits();
	test_folder();
	test_copy();
	workdir_remove(&work);
	images_release(&images);
	OK(file_remove_tree(AT_FDCWD, top) == 0, "removed");
	return tap_done();
}
