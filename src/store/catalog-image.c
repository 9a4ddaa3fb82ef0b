/* SPDX-License-Identifier: Apache-2.0 */
#include "catalog-internal.h"

#include "../base/clock.h"
#include "../base/strv.h"
#include "../base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void image_row_release(struct image_row *r)
{
	free(r->config);
	strv_free(r->refs);
	*r = (struct image_row){0};
}

void image_rows_release(struct image_rows *r)
{
	for (size_t i = 0; i < r->len; i++)
		image_row_release(&r->rows[i]);
	free(r->rows);
	*r = (struct image_rows){0};
}

static int read_refs(struct catalog *c, const char *digest, char ***ret, struct err *e)
{
	cleanup_stmt sqlite3_stmt *s = NULL;
	cleanup_strv char **refs = strv_new();
	int r = db_prepare(c, &s, "SELECT ref FROM image_ref WHERE digest = ?1 ORDER BY ref",
		ARGS(TEXT(digest)), e);

	if (!refs)
		return db_out_of_memory(e);
	while (r >= 0 && (r = db_step(c, s, e)) > 0) {
		const char *ref = (const char *)sqlite3_column_text(s, 0);
		if (!ref || strv_add(&refs, ref) < 0)
			return db_out_of_memory(e);
	}
	if (r < 0)
		return r;
	*ret = strv_take(&refs);
	return 0;
}

#define SELECT_IMAGE "SELECT i.digest, i.config, i.size_bytes, i.created_ns FROM image i "

static int read_row(struct catalog *c, sqlite3_stmt *s, struct image_row *ret, struct err *e)
{
	struct image_row row = {0};
	int r = db_strdup(s, 1, &row.config, e);

	if (r < 0)
		return r;
	db_text(s, 0, row.digest, sizeof(row.digest));
	row.size_bytes = (uint64_t)sqlite3_column_int64(s, 2);
	row.created_ns = sqlite3_column_int64(s, 3);
	if ((r = read_refs(c, row.digest, &row.refs, e)) < 0) {
		image_row_release(&row);
		return r;
	}
	*ret = row;
	return 0;
}

int catalog_image_put(struct catalog *c, const char *digest, const char *config,
	uint64_t size_bytes, const char *ref, struct err *e)
{
	cleanup_txn struct txn t = {0};
	int r = txn_begin(&t, c, e);

	if (r < 0)
		return r;
	r = db_run(c,
		"INSERT INTO image (digest, config, size_bytes, created_ns) VALUES (?1, ?2, ?3, ?4)"
		" ON CONFLICT (digest) DO UPDATE SET config = ?2, size_bytes = ?3",
		ARGS(TEXT(digest), TEXT(config), INT(size_bytes), INT(clock_wall_ns())), e);
	if (r >= 0 && ref)
		r = db_run(c,
			"INSERT INTO image_ref (ref, digest) VALUES (?1, ?2)"
			" ON CONFLICT (ref) DO UPDATE SET digest = ?2",
			ARGS(TEXT(ref), TEXT(digest)), e);
	return r < 0 ? r : txn_commit(&t, e);
}

static bool is_digest(const char *s)
{
	return text_starts_with(s, "sha256:");
}

static int unknown(struct catalog *c, const char *ref_or_digest, struct err *e)
{
	char safe[160];

	text_escape(ref_or_digest, safe, sizeof(safe));
	(void)err_set(e, ERR_NOT_FOUND, 0, "the image %s is not here", safe);
	return hint_nearest(c, "SELECT ref FROM image_ref ORDER BY ref", NULL, 0, ref_or_digest,
		"kosa8 image ls", e);
}

/* The statement stays open while the references are read, so both are of one moment. */
static int find(struct catalog *c, const char *ref_or_digest, struct image_row *ret, struct err *e)
{
	cleanup_stmt sqlite3_stmt *s = NULL;
	int r = db_prepare(c, &s,
		is_digest(ref_or_digest) ? SELECT_IMAGE "WHERE i.digest = ?1"
					 : SELECT_IMAGE
			"JOIN image_ref f ON f.digest = i.digest WHERE f.ref = ?1",
		ARGS(TEXT(ref_or_digest)), e);

	if (r < 0 || (r = db_step(c, s, e)) < 0)
		return r;
	return r == 0 ? unknown(c, ref_or_digest, e) : read_row(c, s, ret, e);
}

int catalog_image_find(
	struct catalog *c, const char *ref_or_digest, struct image_row *ret, struct err *e)
{
	return find(c, ref_or_digest, ret, e);
}

static int list(struct catalog *c, sqlite3_stmt *s, struct image_rows *ret, struct err *e)
{
	struct image_rows all = {0};
	int r;

	while ((r = db_step(c, s, e)) > 0) {
		struct image_row *grown = reallocarray(all.rows, all.len + 1, sizeof(all.rows[0]));
		if (!grown) {
			r = db_out_of_memory(e);
			break;
		}
		all.rows = grown;
		if ((r = read_row(c, s, &all.rows[all.len], e)) < 0)
			break;
		all.len++;
	}
	if (r < 0) {
		image_rows_release(&all);
		return r;
	}
	*ret = all;
	return 0;
}

int catalog_image_list(struct catalog *c, struct image_rows *ret, struct err *e)
{
	cleanup_stmt sqlite3_stmt *s = NULL;
	int r = db_prepare(c, &s, SELECT_IMAGE "ORDER BY i.seq", NULL, 0, e);

	return r < 0 ? r : list(c, s, ret, e);
}

int catalog_sandbox_images(
	struct catalog *c, const char *sandbox, struct image_rows *ret, struct err *e)
{
	cleanup_stmt sqlite3_stmt *s = NULL;
	int r = db_prepare(c, &s,
		SELECT_IMAGE "JOIN sandbox_image u ON u.digest = i.digest WHERE u.sandbox = ?1"
			     " ORDER BY u.seq",
		ARGS(TEXT(sandbox)), e);

	return r < 0 ? r : list(c, s, ret, e);
}

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
		return r < 0 ? r : unknown(c, digest, e);
	r = db_run(c, "INSERT OR IGNORE INTO sandbox_image (sandbox, digest) VALUES (?1, ?2)",
		ARGS(TEXT(sandbox), TEXT(digest)), e);
	return r < 0 ? r : txn_commit(&t, e);
}

/* ERR_WRONG_STATE naming the sandboxes that use the image. */
static int check_unused(struct catalog *c, const char *digest, struct err *e)
{
	cleanup_stmt sqlite3_stmt *s = NULL;
	char names[200] = "";
	size_t len = 0, more = 0;
	int r = db_prepare(c, &s,
		"SELECT s.name FROM sandbox s JOIN sandbox_image u ON u.sandbox = s.id"
		" WHERE u.digest = ?1 ORDER BY s.name",
		ARGS(TEXT(digest)), e);

	while (r >= 0 && (r = db_step(c, s, e)) > 0) {
		const char *name = (const char *)sqlite3_column_text(s, 0);
		if (!name || len + strlen(name) + 3 > sizeof(names)) {
			more++;
			continue;
		}
		len += (size_t)snprintf(
			names + len, sizeof(names) - len, "%s%s", len ? ", " : "", name);
	}
	if (r < 0)
		return r;
	if (len == 0)
		return 0;
	if (more)
		(void)err_set(e, ERR_WRONG_STATE, 0,
			"the image is used by the sandboxes %s and %zu more", names, more);
	else
		(void)err_set(e, ERR_WRONG_STATE, 0, "the image is used by %s %s",
			strchr(names, ',') ? "the sandboxes" : "sandbox", names);
	return err_hint(e, "kosa8 sandbox rm the sandbox first");
}

static int delete_image(struct catalog *c, const char *digest, struct err *e)
{
	int r = check_unused(c, digest, e);

	if (r < 0)
		return r;
	r = db_run(c, "DELETE FROM image_ref WHERE digest = ?1", ARGS(TEXT(digest)), e);
	if (r < 0)
		return r;
	return db_run(c, "DELETE FROM image WHERE digest = ?1", ARGS(TEXT(digest)), e);
}

int catalog_image_delete(struct catalog *c, const char *ref_or_digest, bool *ret_deleted,
	char ret_digest[static 72], struct err *e)
{
	struct image_row row = {0};
	cleanup_txn struct txn t = {0};
	char digest[72];
	int r = txn_begin(&t, c, e);

	if (r < 0 || (r = find(c, ref_or_digest, &row, e)) < 0)
		return r;
	bool whole = is_digest(ref_or_digest) || strv_len(row.refs) <= 1;
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
