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
	free(r->platform);
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
	int r = db_prepare(c, &s, "SELECT ref FROM image_ref WHERE digest = ?1 ORDER BY ref",
		ARGS(TEXT(digest)), e);

	return r < 0 ? r : db_strings(c, s, ret, e);
}

static int read_row(struct catalog *c, sqlite3_stmt *s, struct image_row *ret, struct err *e)
{
	struct image_row row = {0};
	int r = db_strdup(s, 1, &row.config, e);

	db_text(s, 0, row.digest, sizeof(row.digest));
	row.size_bytes = (uint64_t)sqlite3_column_int64(s, 2);
	row.created_ns = sqlite3_column_int64(s, 3);
	row.blobs_bytes = (uint64_t)sqlite3_column_double(s, 5);
	if (r < 0 || (r = db_strdup(s, 4, &row.platform, e)) < 0 ||
		(r = read_refs(c, row.digest, &row.refs, e)) < 0) {
		image_row_release(&row);
		return r;
	}
	*ret = row;
	return 0;
}

/* Whether the catalog says all this already: then a second pull costs no write. */
static int same_blobs(struct catalog *c, const struct image_new *n, struct err *e)
{
	cleanup_stmt sqlite3_stmt *s = NULL;
	int r = db_prepare(c, &s, "SELECT COUNT(*) FROM image_blob WHERE digest = ?1",
		ARGS(TEXT(n->digest)), e);

	if (r < 0 || (r = db_step(c, s, e)) <= 0)
		return r;
	if ((uint64_t)sqlite3_column_int64(s, 0) != n->blobs_len)
		return 0;
	for (size_t i = 0; i < n->blobs_len; i++) {
		r = db_exists(c,
			"SELECT 1 FROM image_blob WHERE digest = ?1 AND blob = ?2 AND size_bytes = "
			"?3",
			ARGS(TEXT(n->digest), TEXT(n->blobs[i].digest),
				INT(n->blobs[i].size_bytes)),
			e);
		if (r <= 0)
			return r;
	}
	return 1;
}

static int is_so(struct catalog *c, const struct image_new *n, struct err *e)
{
	int r = db_exists(c,
		"SELECT 1 FROM image WHERE digest = ?1 AND config = ?2 AND size_bytes = ?3"
		" AND platform = ?4",
		ARGS(TEXT(n->digest), TEXT(n->config), INT(n->size_bytes), TEXT(n->platform)), e);

	if (r > 0 && n->ref)
		r = db_exists(c, "SELECT 1 FROM image_ref WHERE ref = ?1 AND digest = ?2",
			ARGS(TEXT(n->ref), TEXT(n->digest)), e);
	return r <= 0 ? r : same_blobs(c, n, e);
}

static int put_ref(struct catalog *c, const char *ref, const char *digest, struct err *e)
{
	return db_run(c,
		"INSERT INTO image_ref (ref, digest) VALUES (?1, ?2)"
		" ON CONFLICT (ref) DO UPDATE SET digest = ?2",
		ARGS(TEXT(ref), TEXT(digest)), e);
}

static int put_rows(struct catalog *c, const struct image_new *n, struct err *e)
{
	int r = db_run(c,
		"INSERT INTO image (digest, config, size_bytes, created_ns, platform)"
		" VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (digest)"
		" DO UPDATE SET config = ?2, size_bytes = ?3, platform = ?5",
		ARGS(TEXT(n->digest), TEXT(n->config), INT(n->size_bytes), INT(clock_wall_ns()),
			TEXT(n->platform)),
		e);

	if (r >= 0)
		r = db_run(c, "DELETE FROM image_blob WHERE digest = ?1", ARGS(TEXT(n->digest)), e);
	for (size_t i = 0; r >= 0 && i < n->blobs_len; i++)
		r = db_run(c,
			"INSERT INTO image_blob (digest, blob, size_bytes) VALUES (?1, ?2, ?3)",
			ARGS(TEXT(n->digest), TEXT(n->blobs[i].digest),
				INT(n->blobs[i].size_bytes)),
			e);
	if (r >= 0 && n->ref)
		r = put_ref(c, n->ref, n->digest, e);
	return r;
}

int catalog_image_put(struct catalog *c, const struct image_new *n, struct err *e)
{
	cleanup_txn struct txn t = {0};
	int r = txn_begin(&t, c, e);

	if (r < 0 || (r = is_so(c, n, e)) < 0)
		return r;
	if (r == 0 && (r = put_rows(c, n, e)) < 0)
		return r;
	return txn_commit(&t, e);
}

bool image_is_digest(const char *s)
{
	return text_starts_with(s, "sha256:");
}

int image_unknown(struct catalog *c, const char *ref_or_digest, struct err *e)
{
	char safe[160];

	text_escape(ref_or_digest, safe, sizeof(safe));
	(void)err_set(e, ERR_NOT_FOUND, 0, "the image %s is not here", safe);
	return hint_nearest(c, "SELECT ref FROM image_ref ORDER BY ref", NULL, 0, ref_or_digest,
		"kosa8 image ls", e);
}

/* The statement stays open while the references are read, so both are of one moment. */
int image_row_find(
	struct catalog *c, const char *ref_or_digest, struct image_row *ret, struct err *e)
{
	cleanup_stmt sqlite3_stmt *s = NULL;
	int r = db_prepare(c, &s,
		image_is_digest(ref_or_digest) ? SELECT_IMAGE "WHERE i.digest = ?1"
					       : SELECT_IMAGE
			"JOIN image_ref f ON f.digest = i.digest WHERE f.ref = ?1",
		ARGS(TEXT(ref_or_digest)), e);

	if (r < 0 || (r = db_step(c, s, e)) < 0)
		return r;
	return r == 0 ? image_unknown(c, ref_or_digest, e) : read_row(c, s, ret, e);
}

int catalog_image_find(
	struct catalog *c, const char *ref_or_digest, struct image_row *ret, struct err *e)
{
	return image_row_find(c, ref_or_digest, ret, e);
}

int catalog_image_prefix(
	struct catalog *c, const char *hex, char ret_digest[static 72], struct err *e)
{
	cleanup_stmt sqlite3_stmt *s = NULL;
	char from[72], to[80], found[72];
	int r;

	(void)snprintf(from, sizeof(from), "sha256:%.64s", hex);
	(void)snprintf(to, sizeof(to), "%sg", from); /* after all hex digits */
	r = db_prepare(c, &s, "SELECT digest FROM image WHERE digest >= ?1 AND digest < ?2 LIMIT 2",
		ARGS(TEXT(from), TEXT(to)), e);
	if (r < 0 || (r = db_step(c, s, e)) < 0)
		return r;
	if (r == 0)
		return image_unknown(c, from, e);
	db_text(s, 0, found, sizeof(found));
	if ((r = db_step(c, s, e)) < 0)
		return r;
	if (r > 0) {
		(void)err_set(
			e, ERR_INVALID, 0, "%s is the beginning of several images' digests", from);
		return err_hint(e, "more digits of it (kosa8 image ls --json)");
	}
	memcpy(ret_digest, found, sizeof(found));
	return 0;
}

int image_rows_read(struct catalog *c, sqlite3_stmt *s, struct image_rows *ret, struct err *e)
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

	return r < 0 ? r : image_rows_read(c, s, ret, e);
}

int catalog_sandbox_images(
	struct catalog *c, const char *sandbox, struct image_rows *ret, struct err *e)
{
	cleanup_stmt sqlite3_stmt *s = NULL;
	int r = db_prepare(c, &s,
		SELECT_IMAGE "JOIN sandbox_image u ON u.digest = i.digest WHERE u.sandbox = ?1"
			     " ORDER BY u.seq",
		ARGS(TEXT(sandbox)), e);

	return r < 0 ? r : image_rows_read(c, s, ret, e);
}

int catalog_image_tag(struct catalog *c, const char *digest, const char *ref, struct err *e)
{
	cleanup_txn struct txn t = {0};
	int r = txn_begin(&t, c, e);

	if (r < 0 || (r = db_exists(c, "SELECT 1 FROM image WHERE digest = ?1", ARGS(TEXT(digest)),
			      e)) < 0)
		return r;
	if (r == 0)
		return image_unknown(c, digest, e);
	return (r = put_ref(c, ref, digest, e)) < 0 ? r : txn_commit(&t, e);
}
