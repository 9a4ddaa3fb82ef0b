/* SPDX-License-Identifier: Apache-2.0 */
#include "store-test.h"

#include "store/image-sweep.h"

#define HEX_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define HEX_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define HEX_SHARED "5555555555555555555555555555555555555555555555555555555555555555"
#define A "sha256:" HEX_A
#define B "sha256:" HEX_B
#define NEAR_A "sha256:aaaaaaaaaaaaaaaaaaaaffffffffffffffffffffffffffffffffffffffffffff"
#define SHARED "sha256:" HEX_SHARED
#define PYTHON "docker.io/library/python:3.12-slim"

static struct home home;
static struct catalog *catalog;
static char box[CATALOG_ID_SIZE];

static int put(const char *digest, const char *config, uint64_t size, const char *ref)
{
	struct image_blob blobs[] = {{.size_bytes = 10}, {.size_bytes = 20}};
	struct image_new n = {.digest = digest,
		.config = config,
		.platform = "linux/amd64",
		.ref = ref,
		.size_bytes = size,
		.blobs = blobs,
		.blobs_len = 2};

	memcpy(blobs[0].digest, digest, strlen(digest) + 1);
	memcpy(blobs[1].digest, SHARED, sizeof(SHARED));
	return catalog_image_put(catalog, &n, &test_err);
}

static void test_put(void)
{
	struct image_row row = {0};
	struct image_rows rows = {0};

	EQ_INT(put(A, "{\"a\":1}", 100, PYTHON), 0, "added");
	EQ_INT(catalog_image_find(catalog, PYTHON, &row, &test_err), 0, "found by reference");
	OK(strcmp(row.digest, A) == 0 && row.size_bytes == 100 && row.created_ns > 0 &&
			strv_len(row.refs) == 1,
		"its members");
	EQ_STR(row.config, "{\"a\":1}", "its configuration");
	EQ_STR(row.platform, "linux/amd64", "its platform");
	EQ_INT(row.blobs_bytes, 30, "the size of what was downloaded");
	image_row_release(&row);
	EQ_INT(put(A, "{\"a\":2}", 200, "example.com/x:1"), 0, "put again under another reference");
	EQ_INT(catalog_image_find(catalog, A, &row, &test_err), 0, "found by digest");
	OK(row.size_bytes == 200 && strv_len(row.refs) == 2, "replaced, with both references");
	image_row_release(&row);
	EQ_INT(put(B, "{}", 1, NULL), 0, "without a reference");
	EQ_INT(catalog_image_list(catalog, &rows, &test_err), 0, "listed");
	OK(rows.len == 2 && strv_len(rows.rows[1].refs) == 0, "both");
	image_rows_release(&rows);
	EQ_INT(put(B, "{}", 1, "example.com/x:1"), 0, "a reference moves");
	EQ_INT(catalog_image_find(catalog, "example.com/x:1", &row, &test_err), 0, "found");
	EQ_STR(row.digest, B, "to the other image");
	image_row_release(&row);
	OK(catalog_image_find(catalog, "docker.io/library/python:3.12-slin", &row, &test_err) < 0 &&
			test_err.kind == ERR_NOT_FOUND,
		"no such image");
	EQ_STR(test_err.hint, PYTHON, "the nearest one");
}

static void test_delete(void)
{
	struct image_rows rows = {0};
	char digest[72];
	bool deleted = true;

	EQ_INT(catalog_sandbox_image_add(catalog, box, A, &test_err), 0, "used by a sandbox");
	EQ_INT(catalog_sandbox_image_add(catalog, box, A, &test_err), 0, "twice is no error");
	OK(catalog_sandbox_image_add(catalog, "0123456789abcdef", A, &test_err) < 0 &&
			test_err.kind == ERR_NOT_FOUND,
		"not by one that is missing");
	OK(catalog_sandbox_image_add(catalog, box, "sha256:cc", &test_err) < 0 &&
			test_err.kind == ERR_NOT_FOUND,
		"nor an image that is missing");
	EQ_INT(catalog_sandbox_images(catalog, box, &rows, &test_err), 0, "its images");
	OK(rows.len == 1 && strcmp(rows.rows[0].digest, A) == 0, "one");
	image_rows_release(&rows);
	OK(catalog_image_delete(catalog, PYTHON, &deleted, digest, &test_err) < 0 &&
			test_err.kind == ERR_WRONG_STATE && strstr(test_err.what, "box"),
		"not deleted while in use; the error names the sandbox");
	EQ_INT(put(A, "{}", 1, "example.com/y:1"), 0, "another reference to it");
	EQ_INT(catalog_image_delete(catalog, "example.com/y:1", &deleted, digest, &test_err), 0,
		"one of two references goes, though it is in use");
	OK(!deleted && strcmp(digest, A) == 0, "and the image stays");
	EQ_INT(catalog_sandbox_delete(catalog, box, &test_err), 0, "the sandbox goes");
	EQ_INT(catalog_image_delete(catalog, PYTHON, &deleted, digest, &test_err), 0, "deleted");
	OK(deleted && strcmp(digest, A) == 0, "with the image");
	EQ_INT(catalog_image_delete(catalog, B, &deleted, digest, &test_err), 0, "by digest");
	OK(deleted, "with its references");
	EQ_INT(catalog_image_list(catalog, &rows, &test_err), 0, "listed");
	EQ_INT(rows.len, 0, "none is left");
	image_rows_release(&rows);
	OK(catalog_image_delete(catalog, B, &deleted, digest, &test_err) < 0 &&
			test_err.kind == ERR_NOT_FOUND,
		"nothing to delete");
}

/* The blobs that the catalog names, in order. */
static size_t blob_rows(void)
{
	struct image_files *files;
	size_t n = 0;

	if (image_files_read(catalog, &files, &test_err) < 0)
		test_bail("image_files_read");
	n += image_files_has(files, "blobs/sha256/" HEX_A);
	n += image_files_has(files, "blobs/sha256/" HEX_B);
	n += image_files_has(files, "blobs/sha256/" HEX_SHARED);
	image_files_free(files);
	return n;
}

static void test_blobs(void)
{
	bool deleted;
	char digest[72];

	EQ_INT(put(A, "{}", 1, PYTHON), 0, "one image");
	EQ_INT(put(B, "{}", 1, "example.com/b:1"), 0, "another that shares a blob");
	EQ_INT(blob_rows(), 3, "three blobs");
	EQ_INT(catalog_image_delete(catalog, A, &deleted, digest, &test_err), 0, "one goes");
	EQ_INT(blob_rows(), 2, "with the blob that only it has");
	EQ_INT(put(B, "{}", 1, "example.com/b:1"), 0, "put again as it is");
	EQ_INT(blob_rows(), 2, "changes nothing");
	EQ_INT(catalog_image_delete(catalog, B, &deleted, digest, &test_err), 0, "the other goes");
	EQ_INT(blob_rows(), 0, "with both");
}

static void test_prefix(void)
{
	char digest[72];
	bool deleted;

	if (put(A, "{}", 1, NULL) < 0 || put(NEAR_A, "{}", 1, NULL) < 0)
		test_bail("put");
	OK(catalog_image_prefix(catalog, "aaaaaaaa", digest, &test_err) < 0 &&
			test_err.kind == ERR_INVALID && strstr(test_err.what, "several"),
		"a beginning that two have");
	EQ_INT(catalog_image_prefix(catalog, HEX_A, digest, &test_err), 0, "all of it");
	EQ_STR(digest, A, "is the one");
	EQ_INT(catalog_image_prefix(catalog, "aaaaaaaaaaaaaaaaaaaaf", digest, &test_err), 0,
		"one digit more than they share");
	EQ_STR(digest, NEAR_A, "is the other");
	OK(catalog_image_prefix(catalog, "abcdef", digest, &test_err) < 0 &&
			test_err.kind == ERR_NOT_FOUND,
		"one that none has");
	if (catalog_image_delete(catalog, A, &deleted, digest, &test_err) < 0 ||
		catalog_image_delete(catalog, NEAR_A, &deleted, digest, &test_err) < 0)
		test_bail("delete");
}

static void test_tag_and_prune(void)
{
	struct image_rows rows = {0};
	struct image_row row = {0};
	struct sandbox_row user;
	char **users;
	int lock = -1;

	if (put(A, "{}", 1, PYTHON) < 0 || put(B, "{}", 1, NULL) < 0 ||
		catalog_sandbox_add(catalog, "user", "{}", &user, &lock, &test_err) < 0)
		test_bail("put");
	EQ_INT(catalog_image_tag(catalog, A, "example.com/t:1", &test_err), 0, "tagged");
	EQ_INT(catalog_image_find(catalog, "example.com/t:1", &row, &test_err), 0, "found by it");
	EQ_STR(row.digest, A, "the same image");
	image_row_release(&row);
	OK(catalog_image_tag(catalog, NEAR_A, "example.com/t:2", &test_err) < 0 &&
			test_err.kind == ERR_NOT_FOUND,
		"not one that is missing");
	if (catalog_sandbox_image_add(catalog, user.id, A, &test_err) < 0)
		test_bail("use");
	EQ_INT(catalog_image_users(catalog, A, &users, &test_err), 0, "who uses it");
	OK(strv_len(users) == 1 && strcmp(users[0], "user") == 0, "one sandbox");
	strv_free(users);
	EQ_INT(catalog_image_prune(catalog, &rows, &test_err), 0, "pruned");
	OK(rows.len == 1 && strcmp(rows.rows[0].digest, B) == 0, "what none uses");
	image_rows_release(&rows);
	EQ_INT(catalog_sandbox_delete(catalog, user.id, &test_err), 0, "without its sandbox");
	EQ_INT(catalog_image_prune(catalog, &rows, &test_err), 0, "pruned");
	OK(rows.len == 1 && strv_len(rows.rows[0].refs) == 2, "the other, with both names");
	image_rows_release(&rows);
	EQ_INT(catalog_image_prune(catalog, &rows, &test_err), 0, "once more");
	EQ_INT(rows.len, 0, "nothing is left");
	(void)fd_close(lock);
	sandbox_row_release(&user);
}

static void test_many_users(void)
{
	char digest[72];
	bool deleted;

	if (put(A, "{}", 1, PYTHON) < 0)
		test_bail("put");
	for (int i = 0; i < 20; i++) {
		struct sandbox_row row;
		char name[40];
		int lock;
		(void)snprintf(name, sizeof(name), "a-rather-long-name-of-a-sandbox-%d", i);
		if (catalog_sandbox_add(catalog, name, "{}", &row, &lock, &test_err) < 0 ||
			catalog_sandbox_image_add(catalog, row.id, A, &test_err) < 0)
			test_bail("add");
		(void)fd_close(lock);
		sandbox_row_release(&row);
	}
	OK(catalog_image_delete(catalog, A, &deleted, digest, &test_err) < 0 &&
			strstr(test_err.what, "-0") && strstr(test_err.what, "more"),
		"twenty users: some named, the rest counted");
}

int main(void)
{
	struct sandbox_row row;
	int lock;

	test_setup();
	test_home(&home, &catalog);
	if (catalog_sandbox_add(catalog, "box", "{}", &row, &lock, &test_err) < 0)
		test_bail("add");
	memcpy(box, row.id, sizeof(box));
	sandbox_row_release(&row);
	test_put();
	test_delete();
	test_blobs();
	test_prefix();
	test_tag_and_prune();
	test_many_users();
	(void)fd_close(lock);
	catalog_close(catalog);
	home_release(&home);
	return tap_done();
}
