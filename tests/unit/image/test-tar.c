/* SPDX-License-Identifier: Apache-2.0 */
/* What a tar can say about an entry, and tars that say what they may not. */
#include "layers.h"

#include "tap.h"

#include <stdlib.h>

#define LAYER_MAX (64u << 20)

static struct image im;
static struct buf layer, records;

static void start(void)
{
	image_start(&im, NULL);
	buf_reset(&layer);
	buf_reset(&records);
}

static void ends_as(const char *text, const char *what)
{
	EQ_STR(image_text(&im), text, what);
	image_end(&im);
}

static void refused(int r, enum err_kind kind, const char *text, const char *what)
{
	OK(r < 0 && im.err.kind == kind && strstr(im.err.what, text), what);
	if (r >= 0 || im.err.kind != kind || !strstr(im.err.what, text))
		printf("# got %d %s: %s\n", r, err_kind_name(im.err.kind), im.err.what);
	image_end(&im);
}

static void record(const char *key, const char *value)
{
	put_record(&records, key, value, strlen(value));
}

/* The records collected so far before a file of this name, and the end. */
static int apply_with_records(const char *name, const char *text)
{
	put_pax(&layer, 'x', &records);
	put_item(&layer, &(struct item){.type = '0', .name = name, .text = text});
	put_end(&layer);
	return image_raw(&im, &layer);
}

static char *repeat(const char *s, size_t n)
{
	struct buf b;

	buf_init(&b, 1 << 20);
	while (n-- > 0)
		buf_put(&b, s, strlen(s));
	return buf_take_cstr(&b);
}

static void test_attributes(void)
{
	start();
	OK(LAYER(&im, FILE_("suid", "", .mode = 06755), DIR_("tmp", .mode = 01777),
		   {.type = '3', .name = "null", .major = 1, .minor = 3, .mode = 0666},
		   {.type = '4', .name = "blk", .major = 4095, .minor = 1048575},
		   {.type = '6', .name = "fifo"},
		   FILE_("big", "", .uid = 70000, .gid = 4294967294)) == 0,
		"set-id and sticky bits, devices, a fifo, ids over 16 bits");
	ends_as("f 644 70000:4294967294 big=\nb 644 blk 4095:1048575\np 644 fifo\n"
		"c 666 null 1:3\nf 6755 suid=\nd 1777 tmp\n",
		"are kept");

	start();
	refused(LAYER(&im, FILE_("x", "", .uid = 4294967295)), ERR_INVALID, "user id 4294967295",
		"the id that is no id");
	start();
	refused(LAYER(&im, {.type = '3', .name = "c", .major = 4096}), ERR_INVALID, "device number",
		"a device number over 12 bits");

	start();
	OK(LAYER(&im, FILE_("t", "", .mtime = 1234567890), FILE_("o", "", .mtime = -5),
		   FILE_("n", "", .mtime = 1l << 40)) == 0,
		"times");
	tree_seal(&im.tree);
	const struct tree_node *n = im.tree.root->inode->children;
	EQ_INT(n->inode->attr.mtime, UINT32_MAX, "too late is the last second");
	EQ_INT(n->right->inode->attr.mtime, 0, "before 1970 is 0");
	EQ_INT(n->right->right->inode->attr.mtime, 1234567890, "others are kept");
	image_end(&im);
}

static void test_long_names(void)
{
	char *name = repeat("n", 150), *dir = repeat("d", 150), path[512], text[2048];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	start();
	record("path", path);
	EQ_INT(apply_with_records("short", "1"), 0, "a pax path of 300 bytes");
	(void)snprintf(text, sizeof(text), "d 755 %s\nf 644 %s=1\n", dir, path);
	ends_as(text, "is the name");

	start();
	put_gnu_long(&layer, 'L', path);
	put_item(&layer, &(struct item)FILE_("short", "1"));
	put_gnu_long(&layer, 'K', path);
	put_item(&layer, &(struct item)SYM("s", "short"));
	put_end(&layer);
	EQ_INT(image_raw(&im, &layer), 0, "GNU long name and target");
	(void)snprintf(text, sizeof(text), "d 755 %s\nf 644 %s=1\nl s -> %s\n", dir, path, path);
	ends_as(text, "are the name and the target");

	start();
	put_record(&records, "path", "caf\x65\xcc\x81", 6);
	EQ_INT(apply_with_records("x", "1"), 0, "a decomposed character in a pax path");
	buf_reset(&layer);
	buf_reset(&records);
	put_record(&records, "path", "caf\xc3\xa9", 5);
	EQ_INT(apply_with_records("x", "2"), 0, "the composed one");
	buf_reset(&layer);
	buf_reset(&records);
	put_record(&records, "path", "\xff\xfe", 2);
	EQ_INT(apply_with_records("x", "3"), 0, "no UTF-8");
	ends_as("f 644 cafe\xcc\x81=1\nf 644 caf\xc3\xa9=2\nf 644 \xff\xfe=3\n",
		"stay the bytes they are");
	free(name);
	free(dir);
}

static bool has_xattr(const struct tree_inode *i, const char *name, const void *value, size_t len)
{
	cleanup_buf struct buf want = {0};

	buf_init(&want, 4096);
	buf_put_u16(&want, (uint16_t)(strlen(name) + 1));
	buf_put_u32(&want, (uint32_t)len);
	buf_put(&want, name, strlen(name) + 1);
	buf_put(&want, value, len);
	return i->xattrs && memmem(i->xattrs, i->xattrs_len, want.data, want.len);
}

static void test_xattrs(void)
{
	static const unsigned char caps[] = {
		1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};

	start();
	put_record(&records, "SCHILY.xattr.security.capability", caps, sizeof(caps));
	record("SCHILY.xattr.user.empty", "");
	record("LIBARCHIVE.xattr.user.b64", "aGVsbG8");
	record("SCHILY.xattr.system.posix_acl_access", "x");
	record("SCHILY.xattr.trusted.overlay.opaque", "y");
	EQ_INT(apply_with_records("f", "1"), 0, "extended attributes");
	const struct tree_inode *i = im.tree.root->inode->children->inode;
	OK(has_xattr(i, "security.capability", caps, sizeof(caps)), "a capability");
	OK(has_xattr(i, "user.empty", "", 0), "an empty value");
	OK(has_xattr(i, "user.b64", "hello", 5), "libarchive's own form");
	OK(!memmem(i->xattrs, i->xattrs_len, "system.", 7), "no name space squashfs has not");
	OK(!memmem(i->xattrs, i->xattrs_len, "overlay", 7), "nothing for overlayfs");
	OK(LAYER(&im, FILE_("f", "2")) == 0, "the file replaced");
	OK(im.tree.root->inode->children->inode->xattrs == NULL, "has none");
	image_end(&im);

	start();
	OK(LAYER(&im, DIR_("f")) == 0, "a folder");
	record("SCHILY.xattr.user.x", "1");
	put_pax(&layer, 'x', &records);
	put_item(&layer, &(struct item)DIR_("f"));
	put_end(&layer);
	EQ_INT(image_raw(&im, &layer), 0, "that gets an attribute");
	OK(has_xattr(im.tree.root->inode->children->inode, "user.x", "1", 1), "has it");
	OK(LAYER(&im, DIR_("f")) == 0, "and an entry without");
	OK(im.tree.root->inode->children->inode->xattrs == NULL, "takes it away");
	image_end(&im);
}

static void test_xattr_limits(void)
{
	char key[512], *value = repeat("v", UNPACK_XATTR_VALUE_MAX + 1);

	start();
	for (int i = 0; i < UNPACK_XATTRS_MAX; i++) {
		(void)snprintf(key, sizeof(key), "SCHILY.xattr.user.%d", i);
		record(key, "1");
	}
	EQ_INT(apply_with_records("f", ""), 0, "as many attributes as allowed");
	buf_reset(&layer);
	record("SCHILY.xattr.user.more", "1");
	refused(apply_with_records("f", ""), ERR_LIMIT,
		"layer 2: entry \"f\": more than 128 extended attributes", "one more");
	start();
	put_record(&records, "SCHILY.xattr.user.v", value, UNPACK_XATTR_VALUE_MAX);
	EQ_INT(apply_with_records("f", ""), 0, "a value as long as allowed");
	buf_reset(&layer);
	buf_reset(&records);
	put_record(&records, "SCHILY.xattr.user.v", value, UNPACK_XATTR_VALUE_MAX + 1);
	refused(apply_with_records("f", ""), ERR_LIMIT, "attribute of more than 65536 bytes",
		"a longer value");
	start();
	(void)snprintf(key, sizeof(key), "SCHILY.xattr.user.%.251s", value);
	record(key, "1");
	refused(apply_with_records("f", ""), ERR_LIMIT, "name of more than 255 bytes",
		"a name too long");
	free(value);
}

static void put_sparse_map(struct buf *b)
{
	static const char map[] = "2\n4\n3\n10\n2\n";
	char block[512] = {0};

	memcpy(block, map, sizeof(map) - 1);
	buf_put(b, block, sizeof(block));
	memset(block, 0, sizeof(block));
	memcpy(block, "abcde", 5);
	buf_put(b, block, sizeof(block));
}

static void test_sparse(void)
{
	start();
	record("GNU.sparse.major", "1");
	record("GNU.sparse.minor", "0");
	record("GNU.sparse.name", "sparse");
	record("GNU.sparse.realsize", "15");
	put_pax(&layer, 'x', &records);
	put_header(&layer, &(struct item){.type = '0', .name = "GNUSparseFile.0/sparse"}, 512 + 5);
	put_sparse_map(&layer);
	put_end(&layer);
	EQ_INT(image_raw(&im, &layer), 0, "a sparse file");
	ends_as("f 644 sparse=____abc___de___\n", "has its holes");
}

static void test_damage(void)
{
	char *deep = repeat("d/", 50000);

	start();
	put_header(&layer, &(struct item){.type = '0', .name = "half"}, 5000);
	buf_put(&layer, deep, 1000);
	refused(image_raw(&im, &layer), ERR_CORRUPT, "layer 1: entry \"half\": damaged tar",
		"a tar that ends in a file");
	start();
	put_item(&layer, &(struct item)FILE_("ok", "1"));
	put_header(&layer, &(struct item){.type = '0', .name = "bad"}, 0);
	layer.data[1024] = 'B';
	put_end(&layer);
	refused(image_raw(&im, &layer), ERR_CORRUPT, "layer 1: after entry \"ok\": damaged tar",
		"a header with a wrong checksum");
	start();
	buf_put(&layer, deep, 20000);
	refused(image_raw(&im, &layer), ERR_CORRUPT, "not a tar", "no tar at all");
	start();
	put_items(&layer, &(struct item)FILE_("a", "1"), 1);
	buf_put(&layer, (char[8192]){0}, 8192);
	EQ_INT(image_raw(&im, &layer), 0, "padding after the end");
	buf_put(&layer, "x", 1);
	put_items(&layer, &(struct item)FILE_("b", "2"), 1);
	EQ_INT(image_raw(&im, &layer), 0, "anything after the end");
	ends_as("f 644 a=1\n", "is no part of it");
	start();
	buf_put(&records, "9999 path=a\n", 12);
	refused(apply_with_records("x", ""), ERR_CORRUPT, "pax", "a pax header that lies");
	start();
	put_header(&layer, &(struct item){.type = '0', .name = "huge"}, 1ull << 63);
	put_end(&layer);
	refused(image_raw(&im, &layer), ERR_CORRUPT,
		"layer 1: entry \"huge\": damaged tar: Tar entry size overflow", "2^63 bytes");
	start();
	put_header(&layer, &(struct item){.type = '0', .name = "huge"}, 1ull << 40);
	put_end(&layer);
	refused(image_raw(&im, &layer), ERR_LIMIT, "entry \"huge\": the file's size", "2^40 bytes");
	start();
	record("path", deep);
	refused(apply_with_records("x", ""), ERR_LIMIT, "d/...\": a name of more than 4096 bytes",
		"100 KB of folders");
	start();
	put_item(&layer, &(struct item)FILE_("a\x1b[1m", ""));
	put_item(&layer, &(struct item)FILE_("a\x1b[1m/x", ""));
	put_end(&layer);
	refused(image_raw(&im, &layer), ERR_INVALID, "entry \"a\\x1b[1m/x\"",
		"control characters in an error");
	free(deep);
}

static void put_zeros(size_t len)
{
	memset(buf_extend(&layer, len), 0, len);
}

static void test_nothing(void)
{
	static const size_t zeros[] = {0, 512, 1024, 1536, 10240, 1 << 20, (1 << 20) + 1};
	char what[64];

	for (size_t i = 0; i < sizeof(zeros) / sizeof(zeros[0]); i++) {
		start();
		OK(LAYER(&im, FILE_("a", "1")) == 0, "a layer");
		put_zeros(zeros[i]);
		(void)snprintf(what, sizeof(what), "one of %zu zeros over it", zeros[i]);
		EQ_INT(image_raw(&im, &layer), 0, what);
		OK(LAYER(&im, FILE_("b", "2")) == 0, "and a third");
		ends_as("f 644 a=1\nf 644 b=2\n", "changes nothing");
	}
	start();
	put_zeros(511);
	refused(image_raw(&im, &layer), ERR_CORRUPT, "not a tar", "less than a block of zeros");
	start();
	put_zeros(512);
	buf_put(&layer, "x", 1);
	refused(image_raw(&im, &layer), ERR_CORRUPT, "the tar goes on after a zero block",
		"something after a zero block");
}

/* Bytes of a layer that has a file of 9 bytes last, cut to len. */
static int apply_cut(size_t len)
{
	start();
	put_item(&layer, &(struct item)FILE_("a", "1"));
	put_item(&layer, &(struct item)FILE_("b", "content.b"));
	put_end(&layer);
	layer.len = len;
	return image_raw(&im, &layer);
}

/* Where a tar may end: after an entry, with or without end blocks and padding. */
static void test_ends(void)
{
	static const size_t whole[] = {
		512 * 4 + 1024, 512 * 4 + 512, 512 * 4, 512 * 4 - 1, 512 * 3 + 100, 512 * 3 + 9};
	char what[64];

	for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
		(void)snprintf(what, sizeof(what), "a tar of %zu bytes", whole[i]);
		EQ_INT(apply_cut(whole[i]), 0, what);
		ends_as("f 644 a=1\nf 644 b=content.b\n", "has both files");
	}
	EQ_INT(apply_cut(512 * 2), 0, "a tar without its last entry");
	ends_as("f 644 a=1\n", "has the other");
	refused(apply_cut(512 * 3 + 8), ERR_CORRUPT, "entry \"b\": damaged tar",
		"cut in the content");
	refused(apply_cut(512 * 3), ERR_CORRUPT, "entry \"b\": damaged tar", "without content");
	refused(apply_cut(512 * 2 + 300), ERR_CORRUPT, "after entry \"a\": damaged tar",
		"cut in a header");
	refused(apply_cut(512 * 4 + 100), ERR_CORRUPT, "after entry \"b\": damaged tar",
		"cut in an end block");
	start();
	record("path", "a");
	put_pax(&layer, 'x', &records);
	refused(image_raw(&im, &layer), ERR_CORRUPT, "damaged tar", "a pax header without entry");
}

/* A pax path: the header's own is too short. */
static int apply_path(const char *path)
{
	buf_reset(&layer);
	buf_reset(&records);
	record("path", path);
	return apply_with_records("x", "");
}

static void test_limits(void)
{
	char *name = repeat("n", UNPACK_NAME_MAX + 1), *dirs = repeat("d/", UNPACK_DEPTH_MAX);
	char *path = repeat("p/", UNPACK_PATH_MAX / 2 + 1), target[UNPACK_PATH_MAX + 1];

	start();
	EQ_INT(apply_path(name + 1), 0, "the longest name");
	refused(apply_path(name), ERR_LIMIT, "more than 255 bytes", "a longer one");
	start();
	dirs[strlen(dirs) - 1] = '\0';
	EQ_INT(apply_path(dirs), 0, "the deepest name");
	(void)snprintf(target, sizeof(target), "%s/x", dirs);
	refused(apply_path(target), ERR_LIMIT, "more than 256 components", "a deeper one");
	start();
	path[UNPACK_PATH_MAX] = '\0';
	memset(path, '/', UNPACK_PATH_MAX - 1);
	path[UNPACK_PATH_MAX - 1] = 'p';
	EQ_INT(apply_path(path), 0, "the longest path");
	image_end(&im);

	start();
	dirs[strlen(dirs) - 2] = '\0';
	put_gnu_long(&layer, 'K', dirs);
	put_item(&layer, &(struct item)SYM("s", "x"));
	put_item(&layer, &(struct item)FILE_("s/ok", ""));
	put_end(&layer);
	EQ_INT(image_raw(&im, &layer), 0, "as deep through a symbolic link");
	refused(LAYER(&im, FILE_("s/a/b", "")), ERR_LIMIT, "more than 256 folders deep",
		"deeper through a symbolic link");
	start();
	memset(target, 't', sizeof(target));
	target[UNPACK_TARGET_MAX + 1] = '\0';
	put_gnu_long(&layer, 'K', target);
	put_items(&layer, &(struct item)SYM("s", "x"), 1);
	refused(image_raw(&im, &layer), ERR_LIMIT, "target of more than 4095", "a long target");
	free(name);
	free(dirs);
	free(path);
}

static void test_counts(void)
{
	struct unpack_limits limits = UNPACK_LIMITS;
	char name[16];

	limits.entries = 4;
	image_start(&im, &limits);
	OK(LAYER(&im, FILE_("a", ""), FILE_("d/b", ""), FILE_("a", "")) == 0, "four entries");
	refused(LAYER(&im, WH(".wh.a")), ERR_LIMIT,
		"layer 2: entry \".wh.a\": the image has more than 4 entries", "the fifth");

	limits = (struct unpack_limits)UNPACK_LIMITS;
	limits.total_bytes = 4096;
	image_start(&im, &limits);
	OK(LAYER(&im, FILE_("a", "")) == 0, "a small layer");
	refused(LAYER(&im, FILE_("a", ""), FILE_("b", ""), FILE_("c", ""), FILE_("d", "")),
		ERR_LIMIT, "layer 2: the layers have more than 4096 bytes", "over the size of all");

	start();
	put_item(&layer, &(struct item)FILE_("f", ""));
	for (unsigned i = 1; i < UNPACK_LINKS_MAX; i++) {
		(void)snprintf(name, sizeof(name), "l%u", i);
		put_item(&layer, &(struct item)HARD(name, "f"));
	}
	put_end(&layer);
	EQ_INT(image_raw(&im, &layer), 0, "65000 names of a file");
	refused(LAYER(&im, HARD("more", "f")), ERR_LIMIT, "more than 65000 names", "one more");
}

int main(void)
{
	buf_init(&layer, LAYER_MAX);
	buf_init(&records, LAYER_MAX);
	test_attributes();
	test_long_names();
	test_xattrs();
	test_xattr_limits();
	test_sparse();
	test_damage();
	test_nothing();
	test_ends();
	test_limits();
	test_counts();
	buf_release(&layer);
	buf_release(&records);
	return tap_done();
}
