/* SPDX-License-Identifier: Apache-2.0 */
/* The squashfs image, read back with unsquashfs. */
#include "base/fd.h"
#include "base/spawn.h"
#include "image/unpack/squash.h"
#include "layers.h"

#include "tap.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LAYER_MAX (64u << 20)

static char path[64];
static struct buf layer;

struct output {
	int fd;
	struct tree tree;
	struct squash *squash;
	struct tar_totals totals;
	uint64_t inodes, size;
	struct err err;
};

/* libsquashfs loses a few blocks when a block processor is destroyed. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libsquashfs.so";
}

static void output_on(struct output *o, int fd)
{
	static const struct unpack_limits limits = UNPACK_LIMITS;

	memset(o, 0, sizeof(*o));
	o->fd = fd;
	if (tree_init(&o->tree, &limits, &o->err) < 0 || squash_new(o->fd, &o->squash, &o->err) < 0)
		abort();
}

static void output_start(struct output *o)
{
	output_on(o, open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
}

static int output_layer(struct output *o)
{
	const struct tar_options options = {.sink = squash_sink(o->squash)};
	char digest[SHA256_HEX_SIZE];
	cleanup_fd int fd = memory_file(&layer);

	buf_reset(&layer);
	return tar_apply(fd, &o->tree, &options, &o->totals, digest, &o->err);
}

static int output_finish(struct output *o)
{
	return squash_finish(o->squash, &o->tree, &o->inodes, &o->size, &o->err);
}

static void output_end(struct output *o)
{
	squash_free(o->squash);
	tree_release(&o->tree);
	(void)fd_close(o->fd);
}

static void put(const struct item *i)
{
	put_item(&layer, i);
}
#define PUT(...) put(&(struct item)__VA_ARGS__)

static void put_bytes(const char *name, const void *data, size_t len)
{
	put_header(&layer, &(struct item){.type = '0', .name = name}, len);
	buf_put(&layer, data, len);
	buf_put(&layer, (char[512]){0}, (512 - len % 512) % 512);
}

/* Bytes that do not compress, the same for the same seed. */
static void fill(unsigned char *p, size_t len, uint64_t seed)
{
	for (uint64_t x = seed * 2 + 1; len-- > 0; p++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		*p = (unsigned char)(x >> 32);
	}
}

static const char *unsquashfs(const char *flag, const char *name)
{
	static char text[1 << 20];
	char *argv[] = {"unsquashfs", (char *)flag, path, (char *)name, NULL};
	cleanup_buf struct buf out = {0};
	struct err e;

	buf_init(&out, sizeof(text) - 1);
	int code = spawn_run(argv, &out, -1, &e);
	const char *s = out.len ? buf_cstr(&out) : "";
	(void)snprintf(text, sizeof(text), "%s%s", code == 0 ? "" : "failed: ", s ? s : "");
	return text;
}

static void test_all_types(void)
{
	struct output o;

	output_start(&o);
	PUT(DIR_("d", .mode = 01777, .uid = 7, .gid = 70000, .mtime = 1234567890));
	PUT(FILE_("d/f", "hello", .mode = 04755));
	PUT(HARD("g", "d/f"));
	PUT(SYM("s", "d/f"));
	PUT({.type = '4', .name = "blk", .major = 259, .minor = 9});
	PUT({.type = '6', .name = "p"});
	PUT(FILE_("empty", NULL));
	put_end(&layer);
	EQ_INT(output_layer(&o), 0, "a layer of all types");
	EQ_INT(output_finish(&o), 0, "becomes an image");
	EQ_INT(o.inodes, 7, "of seven inodes");
	EQ_INT(o.size % 4096, 0, "padded");
	const char *list = unsquashfs("-llnumeric", NULL);
	OK(strstr(list, "drwxrwxrwt 7/70000 "), "a folder's mode and owner");
	OK(strstr(list, "2009-02-13"), "a time");
	OK(strstr(list, "brw-r--r-- 0/0 ") && strstr(list, "259,  9"), "a block device");
	OK(strstr(list, "-rwsr-xr-x 0/0 "), "a set-id file");
	OK(strstr(list, "/s -> d/f\n"), "a symbolic link");
	OK(strstr(list, "prw-r--r-- 0/0 "), "a fifo");
	if (!strstr(list, "/s -> d/f"))
		printf("# %s\n", list);
	EQ_STR(unsquashfs("-cat", "d/f"), "hello", "content");
	EQ_STR(unsquashfs("-cat", "g"), "hello", "content by the other name");
	EQ_STR(unsquashfs("-cat", "empty"), "", "no content");
	output_end(&o);
}

static bool zeros_at(int fd, uint64_t at, size_t len)
{
	unsigned char *p = malloc(len);
	bool zero = fd_pread_full(fd, p, len, (off_t)at) == (ssize_t)len;

	for (size_t i = 0; zero && i < len; i++)
		zero = p[i] == 0;
	free(p);
	return zero;
}

/* What a lower layer had is given back, what it shares with a file above stays. */
static void test_unused(void)
{
	static unsigned char big[1 << 20];
	struct output o;
	struct stat st;

	fill(big, sizeof(big), 1);
	output_start(&o);
	put_bytes("gone", big, sizeof(big));
	fill(big, sizeof(big), 2);
	put_bytes("shared", big, sizeof(big));
	put_end(&layer);
	EQ_INT(output_layer(&o), 0, "two files of 1 MiB");
	uint64_t start = sizeof(big) / 2, end = o.totals.file_bytes;
	PUT(WH(".wh.gone"));
	PUT(WH(".wh.shared"));
	put_bytes("same", big, sizeof(big));
	put_end(&layer);
	EQ_INT(output_layer(&o), 0, "both hidden, one is there again");
	OK(!zeros_at(o.fd, start, 4096), "the hidden one is stored");
	EQ_INT(output_finish(&o), 0, "the image");
	OK(zeros_at(o.fd, start, 4096), "the hidden one is no longer there");
	OK(o.size < end + 65536, "equal content is stored once");
	OK(fstat(o.fd, &st) == 0 && st.st_blocks * 512 < (1 << 20) + 131072, "space is free again");
	const char *list = unsquashfs("-ll", NULL);
	OK(strstr(list, " 1048576 ") && !strstr(list, "gone"), "the rest is there");
	char hex[SHA256_HEX_SIZE], got[SHA256_HEX_SIZE];
	char *argv[] = {"unsquashfs", "-cat", path, "same", NULL};
	cleanup_buf struct buf out = {0};
	struct err e;
	buf_init(&out, 4u << 20);
	OK(spawn_run(argv, &out, -1, &e) == 0, "is readable");
	sha256_hex_of(big, sizeof(big), hex);
	sha256_hex_of(out.data, out.len, got);
	EQ_STR(got, hex, "and the same");
	output_end(&o);
}

/* Pieces that do not compress and fill fragment blocks to the last byte, each twice: reading back
 * for comparison meets stored, not compressed blocks. */
static void test_fragments(void)
{
	static unsigned char piece[65536];
	struct output o;
	char name[16];

	output_start(&o);
	for (unsigned i = 0; i < 40; i++) {
		fill(piece, sizeof(piece), 100 + i % 20);
		(void)snprintf(name, sizeof(name), "f%02u", i);
		put_bytes(name, piece, sizeof(piece));
	}
	put_end(&layer);
	EQ_INT(output_layer(&o), 0, "forty pieces, twenty different");
	EQ_INT(output_finish(&o), 0, "the image");
	OK(o.size > 20 * sizeof(piece) && o.size < 22 * sizeof(piece), "each is stored once");
	output_end(&o);
}

static void put_many(void)
{
	static unsigned char data[300000];
	char name[64];

	PUT(DIR_("many"));
	for (unsigned i = 0; i < 20000; i++) {
		(void)snprintf(name, sizeof(name), "many/a-rather-long-name-%05u", i);
		put(&(struct item)FILE_(name, i % 3 ? name : ""));
	}
	for (unsigned i = 0; i < 30; i++) {
		(void)snprintf(name, sizeof(name), "data%u", i);
		fill(data, sizeof(data), i);
		memset(data, 0, 100000);
		put_bytes(name, data, sizeof(data) - i * 5000);
	}
	put_end(&layer);
}

static void test_deterministic(void)
{
	char first[SHA256_HEX_SIZE], second[SHA256_HEX_SIZE];
	struct output o;

	output_start(&o);
	put_many();
	EQ_INT(output_layer(&o), 0, "many files");
	EQ_INT(output_finish(&o), 0, "the image");
	OK(sha256_hex_of_fd(o.fd, first) == 0, "its digest");
	EQ_STR(unsquashfs("-cat", "many/a-rather-long-name-19999"), "many/a-rather-long-name-19999",
		"a name at the end of a large folder");
	EQ_STR(unsquashfs("-cat", "many/a-rather-long-name-01024"), "many/a-rather-long-name-01024",
		"the content of a file at the end of a lot");
	EQ_STR(unsquashfs("-cat", "many/a-rather-long-name-07777"), "many/a-rather-long-name-07777",
		"the content of one inside");
	EQ_STR(unsquashfs("-cat", "many/a-rather-long-name-00003"), "", "an empty one");
	output_end(&o);
	output_start(&o);
	put_many();
	EQ_INT(output_layer(&o), 0, "the same again");
	EQ_INT(output_finish(&o), 0, "the image");
	OK(sha256_hex_of_fd(o.fd, second) == 0, "its digest");
	EQ_STR(second, first, "the same bytes");
	output_end(&o);
}

static void test_sparse(void)
{
	struct output o;
	struct tree_inode *i;
	struct tree_attr attr = {.mode = S_IFREG | 0644};
	struct tree_path p;

	output_start(&o);
	struct tar_sink sink = squash_sink(o.squash);
	tree_next_layer(&o.tree);
	OK(tree_path_parse("big", &p, &o.err) == 0 &&
			tree_put(&o.tree, &p, &attr, NULL, &i, &o.err) == 0 &&
			sink.begin(sink.ctx, i, &o.err) == 0 &&
			sink.hole(sink.ctx, 5ull << 30, &o.err) == 0 &&
			sink.data(sink.ctx, "end", 3, &o.err) == 0 &&
			sink.end(sink.ctx, &o.err) == 0,
		"a file of 5 GiB of nothing");
	EQ_INT(output_finish(&o), 0, "the image");
	OK(o.size <= 16384, "takes no space");
	OK(strstr(unsquashfs("-ll", NULL), " 5368709123 "), "its size");
	output_end(&o);
}

static void test_failures(void)
{
	static unsigned char big[1 << 20];
	struct output o;
	char name[16];
	int fd = memfd_create("out", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	output_on(&o, fd);
	fill(big, sizeof(big), 3);
	put_bytes("f", big, sizeof(big));
	put_end(&layer);
	EQ_INT(output_layer(&o), 0, "a file that can grow");
	OK(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW) == 0, "may grow no more");
	OK(output_finish(&o) < 0 && strstr(o.err.what, "output file"), "an error that says so");
	output_end(&o);

	output_start(&o);
	for (unsigned i = 0; i < 65537; i++) {
		(void)snprintf(name, sizeof(name), "%u", i);
		put(&(struct item){.type = '6', .name = name, .uid = i});
	}
	put_end(&layer);
	EQ_INT(output_layer(&o), 0, "65537 owners");
	OK(output_finish(&o) < 0 && o.err.kind == ERR_LIMIT, "are more than squashfs can hold");
	OK(strstr(o.err.what, "more than 65536 different user and group ids"), "is said");
	output_end(&o);
}

int main(void)
{
	(void)snprintf(path, sizeof(path), "/tmp/test-squash-XXXXXX");
	int fd = mkstemp(path);
	if (fd < 0)
		return 1;
	(void)fd_close(fd);
	buf_init(&layer, LAYER_MAX);
	test_all_types();
	test_unused();
	test_fragments();
	test_deterministic();
	test_sparse();
	test_failures();
	buf_release(&layer);
	(void)unlink(path);
	return tap_done();
}
