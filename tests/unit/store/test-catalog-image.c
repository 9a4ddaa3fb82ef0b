/* SPDX-License-Identifier: Apache-2.0 */
#include "store-test.h"

#define A "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define PYTHON "docker.io/library/python:3.12-slim"

static struct home home;
static struct catalog *catalog;
static char box[CATALOG_ID_SIZE];

static void test_put(void)
{
	struct image_row row = {0};
	struct image_rows rows = {0};

	EQ_INT(catalog_image_put(catalog, A, "{\"a\":1}", 100, PYTHON, &test_err), 0, "added");
	EQ_INT(catalog_image_find(catalog, PYTHON, &row, &test_err), 0, "found by reference");
	OK(strcmp(row.digest, A) == 0 && row.size_bytes == 100 && row.created_ns > 0 &&
			strv_len(row.refs) == 1,
		"its members");
	EQ_STR(row.config, "{\"a\":1}", "its configuration");
	image_row_release(&row);
	EQ_INT(catalog_image_put(catalog, A, "{\"a\":2}", 200, "example.com/x:1", &test_err), 0,
		"put again under another reference");
	EQ_INT(catalog_image_find(catalog, A, &row, &test_err), 0, "found by digest");
	OK(row.size_bytes == 200 && strv_len(row.refs) == 2, "replaced, with both references");
	image_row_release(&row);
	EQ_INT(catalog_image_put(catalog, B, "{}", 1, NULL, &test_err), 0, "without a reference");
	EQ_INT(catalog_image_list(catalog, &rows, &test_err), 0, "listed");
	OK(rows.len == 2 && strv_len(rows.rows[1].refs) == 0, "both");
	image_rows_release(&rows);
	EQ_INT(catalog_image_put(catalog, B, "{}", 1, "example.com/x:1", &test_err), 0,
		"a reference moves");
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
	EQ_INT(catalog_image_put(catalog, A, "{}", 1, "example.com/y:1", &test_err), 0,
		"another reference to it");
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

static void test_many_users(void)
{
	char digest[72];
	bool deleted;

	if (catalog_image_put(catalog, A, "{}", 1, PYTHON, &test_err) < 0)
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
	test_many_users();
	(void)fd_close(lock);
	catalog_close(catalog);
	home_release(&home);
	return tap_done();
}
