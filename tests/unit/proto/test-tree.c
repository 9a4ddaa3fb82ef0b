/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/tree.h"

#include "tap.h"

#include <errno.h>

static struct tree_entry entry, got;

static struct tree_entry *fresh(enum tree_type type, const char *path, const char *target)
{
	entry = (struct tree_entry){.type = type, .mode = 0644};
	(void)snprintf(entry.path, sizeof(entry.path), "%s", path);
	(void)snprintf(entry.target, sizeof(entry.target), "%s", target);
	return &entry;
}

static int encode_and_parse(const struct tree_entry *m)
{
	cleanup_buf struct buf b = {0};

	buf_init(&b, 1 << 16);
	tree_entry_encode(&b, m);
	if (buf_failed(&b))
		return -ENOMEM;
	int n = tree_entry_parse(b.data, b.len, &got);
	return n > 0 && (size_t)n != b.len ? -EIO : n;
}

static void test_round_trip(void)
{
	cleanup_buf struct buf b = {0};
	struct tree_entry *m = fresh(TREE_FILE, "a\n/\xff\x01", "");

	m->mode = 07751;
	m->uid = UINT32_MAX;
	m->gid = 5;
	m->mtime_ns = -1700000000123456789;
	m->size = 1ull << 62;
	buf_init(&b, 1 << 16);
	buf_put(&b, "before", 6);
	tree_entry_encode(&b, m);
	buf_put(&b, "content", 7);
	OK(!buf_failed(&b), "an entry is encoded after what was there");
	EQ_INT(tree_entry_parse(b.data + 6, b.len - 6, &got), b.len - 13,
		"its size is the header's, without the content");
	OK(got.type == TREE_FILE && got.mode == 07751 && got.uid == UINT32_MAX && got.gid == 5 &&
			got.mtime_ns == m->mtime_ns && got.size == m->size,
		"its numbers");
	struct timespec t = tree_timespec(-1500000000);
	OK(t.tv_sec == -2 && t.tv_nsec == 500000000 && tree_time_ns(t) == -1500000000,
		"a time before 1970");
	t = (struct timespec){.tv_sec = (time_t)1 << 60};
	EQ_INT(tree_time_ns(t), INT64_MAX, "one that does not fit");
	EQ_STR(got.path, "a\n/\xff\x01", "any byte in its path");
	EQ_STR(got.target, "", "no target");
	bool more = true;
	for (size_t cut = 0; cut < b.len - 13; cut++)
		more = more && tree_entry_parse(b.data + 6, cut, &got) == 0;
	OK(more, "every cut of it needs more bytes");
}

static void test_types(void)
{
	static const struct {
		enum tree_type type;
		const char *path, *target;
		bool good;
	} cases[] = {
		{TREE_FILE, "", "", true},
		{TREE_FILE, "a", "b", false},
		{TREE_DIR, "", "", true},
		{TREE_DIR, "a/b", "", true},
		{TREE_SYMLINK, "a", "../../etc/passwd", true},
		{TREE_SYMLINK, "", "/etc", true},
		{TREE_SYMLINK, "a", "", false},
		{TREE_HARDLINK, "a", "b/c", true},
		{TREE_HARDLINK, "a", "../c", false},
		{TREE_HARDLINK, "a", "/c", false},
		{TREE_HARDLINK, "a", "", false},
		{TREE_HARDLINK, "", "c", false},
		{TREE_SKIPPED, "", "", true},
		{TREE_SKIPPED, "dev/null", "", true},
		{TREE_WHITEOUT, "a", "", true},
		{TREE_WHITEOUT, "", "", false},
		{TREE_OPAQUE, "a", "", true},
		{TREE_OPAQUE, "a", "b", false},
		{TREE_END, "", "", true},
		{TREE_END, "a", "", false},
		{(enum tree_type)0, "a", "", false},
		{TREE_TYPE_END, "a", "", false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int n = encode_and_parse(fresh(cases[i].type, cases[i].path, cases[i].target));
		char what[64];

		(void)snprintf(what, sizeof(what), "type %d, \"%s\" to \"%s\": %s",
			(int)cases[i].type, cases[i].path, cases[i].target,
			cases[i].good ? "taken" : "refused");
		OK(cases[i].good ? n > 0 : n == -EPROTO, what);
	}
}

static void test_numbers(void)
{
	struct tree_entry *m = fresh(TREE_DIR, "d", "");

	m->size = 1;
	EQ_INT(encode_and_parse(m), -EPROTO, "only a file has content");
	m->size = 0;
	m->type = TREE_DIR;
	m->mode = TREE_MODE_IMPLIED | 0755;
	OK(encode_and_parse(m) > 0 && got.mode == (TREE_MODE_IMPLIED | 0755),
		"of a folder also that nobody said what it is to be");
	m->mode = 020000;
	EQ_INT(encode_and_parse(m), -EPROTO, "and nothing else");
	m->type = TREE_FILE;
	m->mode = TREE_MODE_IMPLIED;
	EQ_INT(encode_and_parse(m), -EPROTO, "a mode is permission bits");
	m->mode = 07777;
	OK(encode_and_parse(m) > 0, "all of them");
}

static void test_paths(void)
{
	static const char *const good[] = {"", "a", "...", ".a", "a/b/c", "a..", " ", "-", "\n"};
	static const char *const bad[] = {"/", "/a", "a/", "a//b", ".", "..", "a/.", "a/..", "../a",
		"./a", "a/../b", "a/./b"};
	static char longest[TREE_PATH_MAX + 1];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		OK(tree_path_is_safe(good[i]), good[i][0] == '\n' ? "a newline" : good[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		OK(!tree_path_is_safe(bad[i]), bad[i]);
	memset(longest, 'n', 256);
	OK(!tree_path_is_safe(longest), "a name of 256 bytes");
	longest[255] = '\0';
	OK(tree_path_is_safe(longest), "a name of 255 bytes");
	for (size_t i = 0; i < TREE_PATH_MAX; i++)
		longest[i] = i % 2 ? '/' : 'd';
	OK(!tree_path_is_safe(longest), "a path of 4096 bytes");
	longest[TREE_PATH_MAX - 1] = '\0';
	OK(tree_path_is_safe(longest), "a path of 4095 bytes");
	(void)fresh(TREE_SYMLINK, "", "");
	memcpy(entry.path, longest, TREE_PATH_MAX);
	memset(entry.target, 't', TREE_PATH_MAX - 1);
	OK(encode_and_parse(&entry) > 0, "an entry with the longest path and target");
	EQ_STR(got.path, longest, "its path");
}

static void test_headers(void)
{
	static const unsigned char huge[] = {0xff, 0xff, 0xff, 0xff}, none[] = {0, 0, 0, 0};
	cleanup_buf struct buf b = {0};

	EQ_INT(tree_entry_parse(huge, sizeof(huge), &got), -EPROTO,
		"a header of 4 GiB is refused before it is there");
	EQ_INT(tree_entry_parse(none, sizeof(none), &got), -EPROTO, "an empty header");
	buf_init(&b, 1 << 16);
	tree_entry_encode(&b, fresh(TREE_SYMLINK, "abc", "xyz"));
	buf_put_u8(&b, 0);
	b.data[0]++;
	EQ_INT(tree_entry_parse(b.data, b.len, &got), -EPROTO, "bytes after the last member");
	buf_reset(&b);
	tree_entry_encode(&b, fresh(TREE_SYMLINK, "abc", "xyz"));
	b.data[b.len - 1] = '\0';
	EQ_INT(tree_entry_parse(b.data, b.len, &got), -EPROTO, "a NUL in a string");
}

int main(void)
{
	test_round_trip();
	test_types();
	test_numbers();
	test_paths();
	test_headers();
	return tap_done();
}
