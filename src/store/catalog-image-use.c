/* SPDX-License-Identifier: Apache-2.0 */
/* Which sandboxes use an image, and the deletion of what none uses. */
#include "catalog-internal.h"

#include "../base/strv.h"

#include <stdio.h>
#include <string.h>

int catalog_sandbox_image_add(
	struct catalog *c, const char *sandbox, const char *digest, struct err *e)
{
	cleanup_txn struct txn t = {0};
	int r = txn_begin(&t, c, e);

	if (r < 0 || (r = db_exists(c, "SELECT 1 FROM sandbox WHERE id = ?1", ARGS(TEXT(sandbox)),
			      e)) < 0)
		return r;
	if (r == 0)
		return sandbox_gone(sandbox, e);
	r = db_exists(c, "SELECT 1 FROM image WHERE digest = ?1", ARGS(TEXT(digest)), e);
	if (r <= 0)
		return r < 0 ? r : image_unknown(c, digest, e);
	r = db_run(c, "INSERT OR IGNORE INTO sandbox_image (sandbox, digest) VALUES (?1, ?2)",
		ARGS(TEXT(sandbox), TEXT(digest)), e);
	return r < 0 ? r : txn_commit(&t, e);
}

int catalog_image_users(struct catalog *c, const char *digest, char ***ret, struct err *e)
{
	cleanup_stmt sqlite3_stmt *s = NULL;
	int r = db_prepare(c, &s,
		"SELECT s.name FROM sandbox s JOIN sandbox_image u ON u.sandbox = s.id"
		" WHERE u.digest = ?1 ORDER BY s.name",
		ARGS(TEXT(digest)), e);

	return r < 0 ? r : db_strings(c, s, ret, e);
}

/* ERR_WRONG_STATE naming the sandboxes that use the image. */
static int check_unused(struct catalog *c, const char *digest, struct err *e)
{
	cleanup_strv char **users = NULL;
	char names[200] = "";
	size_t len = 0, more = 0;
	int r = catalog_image_users(c, digest, &users, e);

	if (r < 0 || !*users)
		return r;
	for (char **name = users; *name; name++) {
		if (len + strlen(*name) + 3 > sizeof(names)) {
			more++;
			continue;
		}
		len += (size_t)snprintf(
			names + len, sizeof(names) - len, "%s%s", len ? ", " : "", *name);
	}
	if (more)
		(void)err_set(e, ERR_WRONG_STATE, 0,
			"the image is used by the sandboxes %s and %zu more", names, more);
	else
		(void)err_set(e, ERR_WRONG_STATE, 0, "the image is used by %s %s",
			strchr(names, ',') ? "the sandboxes" : "sandbox", names);
	return err_hint(e, "kosa8 sandbox rm the sandbox first");
}

/* Without its row first: references are checked at the commit. */
static int delete_rows(struct catalog *c, const char *digest, struct err *e)
{
	static const char *const statements[] = {"DELETE FROM image_ref WHERE digest = ?1",
		"DELETE FROM image_blob WHERE digest = ?1", "DELETE FROM image WHERE digest = ?1"};
	int r = 0;

	for (size_t i = 0; r >= 0 && i < sizeof(statements) / sizeof(statements[0]); i++)
		r = db_run(c, statements[i], ARGS(TEXT(digest)), e);
	return r;
}

static int delete_image(struct catalog *c, const char *digest, struct err *e)
{
	int r = check_unused(c, digest, e);

	return r < 0 ? r : delete_rows(c, digest, e);
}

int catalog_image_delete(struct catalog *c, const char *ref_or_digest, bool *ret_deleted,
	char ret_digest[static 72], struct err *e)
{
	struct image_row row = {0};
	cleanup_txn struct txn t = {0};
	char digest[72];
	int r = txn_begin(&t, c, e);

	if (r < 0 || (r = image_row_find(c, ref_or_digest, &row, e)) < 0)
		return r;
	bool whole = image_is_digest(ref_or_digest) || strv_len(row.refs) <= 1;
	memcpy(digest, row.digest, sizeof(digest));
	image_row_release(&row);
	r = whole ? delete_image(c, digest, e)
		  : db_run(c, "DELETE FROM image_ref WHERE ref = ?1", ARGS(TEXT(ref_or_digest)), e);
	if (r < 0 || (r = txn_commit(&t, e)) < 0)
		return r;
	memcpy(ret_digest, digest, sizeof(digest));
	*ret_deleted = whole;
	return 0;
}

int catalog_image_prune(struct catalog *c, struct image_rows *ret, struct err *e)
{
	struct image_rows rows = {0};
	cleanup_txn struct txn t = {0};
	int r = txn_begin(&t, c, e);

	if (r >= 0) {
		cleanup_stmt sqlite3_stmt *s = NULL;
		r = db_prepare(c, &s,
			SELECT_IMAGE "WHERE NOT EXISTS (SELECT 1 FROM sandbox_image u"
				     " WHERE u.digest = i.digest) ORDER BY i.seq",
			NULL, 0, e);
		if (r >= 0)
			r = image_rows_read(c, s, &rows, e);
	}
	for (size_t i = 0; r >= 0 && i < rows.len; i++)
		r = delete_rows(c, rows.rows[i].digest, e);
	if (r < 0 || (r = txn_commit(&t, e)) < 0) {
		image_rows_release(&rows);
		return r;
	}
	*ret = rows;
	return 0;
}
