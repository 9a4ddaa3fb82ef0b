/* SPDX-License-Identifier: Apache-2.0 */
/* Files to a tree and back, in pieces of any size; and what a process that receives cannot do. */
#include "cli/tree-receive.h"
#include "cli/tree-send.h"

#include "base/fd.h"
#include "base/file.h"

#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char top[] = "/tmp/kosa8-tree-XXXXXX";

static void put(const char *name, const char *text, mode_t mode)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0 || fd_write_all(fd, text, strlen(text)) < 0 || fchmod(fd, mode) < 0)
		OK(false, name);
	(void)fd_close(fd);
}

static void make_source(void)
{
	const struct timespec times[2] = {{1, 2}, {-1000000000, 123456789}};

	(void)!mkdir("src", 0755);
	(void)!mkdir("src/d", 0700);
	put("src/d/f", "content", 04750);
	put("src/empty", "", 0400);
	(void)!link("src/d/f", "src/hard");
	(void)!symlink("/nowhere", "src/link");
	(void)!mkfifo("src/pipe", 0600);
	(void)!utimensat(AT_FDCWD, "src/d/f", times, 0);
	(void)!chmod("src/d", 0500);
	(void)!utimensat(AT_FDCWD, "src/d", times, 0);
}

static int send_all(const char *path, struct buf *b, struct err *e)
{
	cleanup_tree_send struct tree_send s = {.dirfd = -1, .file = -1};
	int r = tree_send_open(&s, path, e);

	if (r == 0)
		do
			r = tree_send_more(&s, b, e);
		while (r > 0);
	return r;
}

static int receive_all(const char *path, const char *name, bool contents, const struct buf *b,
	size_t piece, struct err *e)
{
	static struct tree_stream s;
	cleanup_tree_receive struct tree_receive t = {.base = -1};
	struct tree_sink sink = tree_receive_sink;
	int r = tree_receive_open(&t, path, name, contents, e);

	sink.ctx = &t;
	tree_stream_init(&s, &sink);
	for (size_t at = 0; r == 0 && at < b->len; at += piece)
		r = tree_stream_put(&s, b->data + at, b->len - at < piece ? b->len - at : piece, e);
	if (r < 0)
		r = tree_receive_failed(&t, e);
	else if (!s.ended)
		r = -EPIPE;
	tree_stream_release(&s);
	return r;
}

static void same(const char *a, const char *b, mode_t mask)
{
	struct stat one = {0}, other = {0};
	char what[160];

	(void)snprintf(what, sizeof(what), "%s and %s", a, b);
	OK(lstat(a, &one) == 0 && lstat(b, &other) == 0 && (one.st_mode & mask) == other.st_mode &&
			one.st_size == other.st_size &&
			one.st_mtim.tv_sec == other.st_mtim.tv_sec &&
			one.st_mtim.tv_nsec == other.st_mtim.tv_nsec,
		what);
}

static void test_round_trip(void)
{
	static const size_t pieces[] = {1, 7, 4096, 1 << 20};
	cleanup_buf struct buf b = {0};
	struct stat one, other;
	struct err e = {0};

	buf_init(&b, 1 << 20);
	make_source();
	EQ_INT(send_all("src", &b, &e), 0, "a folder is sent");
	for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
		char out[16], path[64];
		(void)snprintf(out, sizeof(out), "out%zu", i);
		EQ_INT(receive_all(out, "src", false, &b, pieces[i], &e), 0, "and received");
		static const char *const names[] = {"", "/d", "/d/f", "/empty", "/hard", "/link"};
		for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
			char from[64];
			(void)snprintf(from, sizeof(from), "src%s", names[n]);
			(void)snprintf(path, sizeof(path), "%s%s", out, names[n]);
			same(from, path, ~(mode_t)07000);
		}
		(void)snprintf(path, sizeof(path), "%s/pipe", out);
		OK(lstat(path, &one) < 0, "a pipe is not");
		(void)snprintf(path, sizeof(path), "%s/hard", out);
		(void)!lstat(path, &one);
		(void)snprintf(path, sizeof(path), "%s/d/f", out);
		OK(lstat(path, &other) == 0 && one.st_ino == other.st_ino, "a hard link is one");
	}
}

static void test_changing_file(void)
{
	cleanup_tree_send struct tree_send s = {.dirfd = -1, .file = -1};
	cleanup_buf struct buf b = {0};
	struct err e = {0};

	buf_init(&b, 1 << 20);
	put("shrinks", "0123456789", 0600);
	EQ_INT(tree_send_open(&s, "shrinks", &e), 0, "a file");
	EQ_INT(tree_send_more(&s, &b, &e), 1, "whose size was said");
	EQ_INT(truncate("shrinks", 4), 0, "gets shorter");
	while (tree_send_more(&s, &b, &e) > 0)
		;
	EQ_INT(receive_all("shrunk", "x", false, &b, 100, &e), 0, "and arrives");
	char text[16] = "";
	cleanup_fd int fd = open("shrunk", O_RDONLY | O_CLOEXEC);
	OK(fd >= 0 && read(fd, text, sizeof(text)) == 10 &&
			memcmp(text, "0123\0\0\0\0\0\0", 10) == 0,
		"filled up with zeros");
}

/* A folder that goes elsewhere while it is read must not lead the walk there. */
static void test_moved_folder(void)
{
	cleanup_tree_send struct tree_send s = {.dirfd = -1, .file = -1};
	cleanup_buf struct buf b = {0};
	struct err e = {0};
	int r = 1;

	buf_init(&b, 1 << 20);
	(void)!mkdir("walk", 0700);
	(void)!mkdir("walk/in", 0700);
	(void)!mkdir("other", 0700);
	put("other/secret", "secret", 0600);
	EQ_INT(tree_send_open(&s, "walk", &e), 0, "a folder");
	while (r > 0 && strcmp(s.entry.path, "in") != 0)
		r = tree_send_more(&s, &b, &e);
	EQ_INT(rename("walk/in", "other/in"), 0, "whose inner one is moved");
	while (r > 0)
		r = tree_send_more(&s, &b, &e);
	OK(r < 0 && strstr(e.what, "was moved"), "ends the copy");
	OK(!memmem(b.data, b.len, "secret", 6), "and nothing from there is sent");
}

static int confined_outcome(void (*attempt)(void))
{
	cleanup_tree_receive struct tree_receive t = {.base = -1};
	struct err e = {0};
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		if (tree_receive_open(&t, "dst", "x", true, &e) < 0 ||
			tree_receive_confine(&t, &e) != 1)
			_exit(99);
		attempt();
		_exit(0);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status)
									       : -1;
}

static void write_outside(void)
{
	_exit(open("outside", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) < 0 ? 1 : 0);
}

static void read_outside(void)
{
	_exit(open("src/empty", O_RDONLY | O_CLOEXEC) < 0 ? 1 : 0);
}

static void make_pipe(void)
{
	_exit(mkfifo("dst/pipe", 0600) < 0 ? 1 : 0);
}

static void write_inside(void)
{
	int fd = open("dst/new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	_exit(fd < 0 || mkdir("dst/d", 0700) < 0 || rename("dst/new", "dst/d/new") < 0 ? 1 : 0);
}

static void test_confinement(void)
{
	(void)!mkdir("dst", 0700);
	EQ_INT(confined_outcome(write_outside), 1, "no file can be made beside the destination");
	OK(access("outside", F_OK) < 0, "nor was one");
	EQ_INT(confined_outcome(read_outside), 1, "none can be read there");
	EQ_INT(confined_outcome(make_pipe), 1, "no pipe can be made in it");
	EQ_INT(confined_outcome(write_inside), 0, "files and folders can");
}

int main(void)
{
	if (!mkdtemp(top) || chdir(top) < 0)
		return 1;
	test_round_trip();
	test_changing_file();
	test_moved_folder();
	test_confinement();
	(void)!chmod("src/d", 0700);
	for (char out[] = "out0/d"; out[3] < '4'; out[3]++)
		(void)!chmod(out, 0700);
	if (chdir("/") < 0 || file_remove_tree(AT_FDCWD, top) < 0)
		return 1;
	return tap_done();
}
