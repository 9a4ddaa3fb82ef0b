/* SPDX-License-Identifier: Apache-2.0 */
#include "catalog-internal.h"

#include "../base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void checkpoint_row_release(struct checkpoint_row *r)
{
	free(r->label);
	*r = (struct checkpoint_row){0};
}

void checkpoint_rows_release(struct checkpoint_rows *r)
{
	for (size_t i = 0; i < r->len; i++)
		checkpoint_row_release(&r->rows[i]);
	free(r->rows);
	*r = (struct checkpoint_rows){0};
}

#define SELECT_CHECKPOINT                                                                  \
	"SELECT id, label, parent, layer, created_ns, size_bytes, pause_us, hash, durable" \
	" FROM checkpoint "

static int read_row(sqlite3_stmt *s, struct checkpoint_row *ret, struct err *e)
{
	struct checkpoint_row row = {0};
	int r = db_strdup(s, 1, &row.label, e);

	if (r < 0)
		return r;
	db_text(s, 0, row.id, sizeof(row.id));
	db_text(s, 2, row.parent, sizeof(row.parent));
	db_text(s, 3, row.layer, sizeof(row.layer));
	db_text(s, 7, row.hash, sizeof(row.hash));
	row.created_ns = sqlite3_column_int64(s, 4);
	row.size_bytes = (uint64_t)sqlite3_column_int64(s, 5);
	row.pause_us = (uint64_t)sqlite3_column_int64(s, 6);
	row.durable = sqlite3_column_int(s, 8) != 0;
	*ret = row;
	return 0;
}

int catalog_label_check(struct catalog *c, const char *sandbox, const char *label, struct err *e)
{
	char safe[160];
	int r = db_exists(c,
		"SELECT 1 FROM checkpoint WHERE sandbox = ?1 AND (label = ?2 OR id = ?2)",
		ARGS(TEXT(sandbox), TEXT(label)), e);

	if (r <= 0)
		return r;
	text_escape(label, safe, sizeof(safe));
	(void)err_set(
		e, ERR_EXISTS, 0, "the sandbox already has a checkpoint labelled \"%s\"", safe);
	return err_hint(e, "another label, or: kosa8 checkpoint rm NAME LABEL");
}

static int insert(
	struct catalog *c, const char *sandbox, const struct checkpoint_row *r, struct err *e)
{
	return db_run(c,
		"INSERT INTO checkpoint (id, sandbox, label, parent, layer, created_ns, size_bytes,"
		" pause_us, hash, durable) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
		ARGS(TEXT(r->id), TEXT(sandbox), TEXT(r->label), TEXT(r->parent), TEXT(r->layer),
			INT(r->created_ns), INT(r->size_bytes), INT(r->pause_us), TEXT(r->hash),
			INT(r->durable)),
		e);
}

int catalog_checkpoint_add(
	struct catalog *c, const char *sandbox, const struct checkpoint_row *r, struct err *e)
{
	cleanup_txn struct txn t = {0};
	int n = txn_begin(&t, c, e);

	if (n < 0)
		return n;
	if (r->label && (n = catalog_label_check(c, sandbox, r->label, e)) < 0)
		return n;
	if ((n = insert(c, sandbox, r, e)) < 0)
		return n;
	n = db_run(c, "UPDATE sandbox SET checkpoint = ?2 WHERE id = ?1",
		ARGS(TEXT(sandbox), TEXT(r->id)), e);
	return n < 0 ? n : txn_commit(&t, e);
}

static int unknown(struct catalog *c, const char *sandbox, const char *id_or_label, struct err *e)
{
	char safe[160];

	text_escape(id_or_label, safe, sizeof(safe));
	(void)err_set(e, ERR_NOT_FOUND, 0, "the sandbox has no checkpoint \"%s\"", safe);
	return hint_nearest(c,
		"SELECT label FROM checkpoint WHERE sandbox = ?1 AND label IS NOT NULL"
		" ORDER BY seq DESC",
		ARGS(TEXT(sandbox)), id_or_label, "kosa8 checkpoint ls NAME", e);
}

int catalog_checkpoint_find(struct catalog *c, const char *sandbox, const char *id_or_label,
	struct checkpoint_row *ret, struct err *e)
{
	cleanup_stmt sqlite3_stmt *s = NULL;
	int r;

	if (id_or_label)
		r = db_prepare(c, &s,
			SELECT_CHECKPOINT "WHERE sandbox = ?1 AND (id = ?2 OR label = ?2)"
					  " ORDER BY id = ?2 DESC",
			ARGS(TEXT(sandbox), TEXT(id_or_label)), e);
	else
		r = db_prepare(c, &s,
			SELECT_CHECKPOINT "WHERE sandbox = ?1 ORDER BY seq DESC LIMIT 1",
			ARGS(TEXT(sandbox)), e);
	if (r < 0 || (r = db_step(c, s, e)) < 0)
		return r;
	if (r > 0)
		return read_row(s, ret, e);
	if (id_or_label)
		return unknown(c, sandbox, id_or_label, e);
	(void)err_set(e, ERR_NOT_FOUND, 0, "the sandbox has no checkpoint");
	return err_hint(e, "kosa8 checkpoint NAME makes one");
}

int catalog_checkpoint_list(
	struct catalog *c, const char *sandbox, struct checkpoint_rows *ret, struct err *e)
{
	cleanup_stmt sqlite3_stmt *s = NULL;
	struct checkpoint_rows all = {0};
	int r = db_prepare(
		c, &s, SELECT_CHECKPOINT "WHERE sandbox = ?1 ORDER BY seq", ARGS(TEXT(sandbox)), e);

	while (r >= 0 && (r = db_step(c, s, e)) > 0) {
		struct checkpoint_row *grown =
			reallocarray(all.rows, all.len + 1, sizeof(all.rows[0]));
		if (!grown) {
			r = db_out_of_memory(e);
			break;
		}
		all.rows = grown;
		if ((r = read_row(s, &all.rows[all.len], e)) == 0)
			all.len++;
	}
	if (r < 0) {
		checkpoint_rows_release(&all);
		return r;
	}
	*ret = all;
	return 0;
}

int catalog_checkpoint_set_durable(struct catalog *c, const char *checkpoint, struct err *e)
{
	cleanup_txn struct txn t = {0};
	int r = txn_begin(&t, c, e);

	if (r < 0)
		return r;
	r = db_run(c, "UPDATE checkpoint SET durable = 1 WHERE id = ?1", ARGS(TEXT(checkpoint)), e);
	if (r == 0)
		return err_set(
			e, ERR_NOT_FOUND, 0, "checkpoint %.16s has been removed", checkpoint);
	return r < 0 ? r : txn_commit(&t, e);
}

/* By id only: the caller found it before. */
static int get(struct catalog *c, const char *sandbox, const char *id, struct checkpoint_row *ret,
	struct err *e)
{
	cleanup_stmt sqlite3_stmt *s = NULL;
	int r = db_prepare(c, &s, SELECT_CHECKPOINT "WHERE sandbox = ?1 AND id = ?2",
		ARGS(TEXT(sandbox), TEXT(id)), e);

	if (r < 0 || (r = db_step(c, s, e)) < 0)
		return r;
	if (r == 0)
		return err_set(e, ERR_NOT_FOUND, 0, "the sandbox has no checkpoint %.16s", id);
	return read_row(s, ret, e);
}

int catalog_checkpoint_delete(
	struct catalog *c, const char *sandbox, const char *checkpoint, struct err *e)
{
	static const char *const statements[] = {
		"UPDATE checkpoint SET parent = ?2 WHERE parent = ?1",
		"UPDATE sandbox SET checkpoint = ?2 WHERE checkpoint = ?1",
	};
	struct checkpoint_row row = {0};
	cleanup_txn struct txn t = {0};
	int r = txn_begin(&t, c, e);

	if (r < 0 || (r = get(c, sandbox, checkpoint, &row, e)) < 0)
		return r;
	for (size_t i = 0; r >= 0 && i < sizeof(statements) / sizeof(statements[0]); i++)
		r = db_run(c, statements[i], ARGS(TEXT(checkpoint), TEXT(row.parent)), e);
	checkpoint_row_release(&row);
	if (r >= 0)
		r = db_run(c, "DELETE FROM checkpoint WHERE id = ?1", ARGS(TEXT(checkpoint)), e);
	return r < 0 ? r : txn_commit(&t, e);
}

/* Deletes the layer's row when nothing stands on it. */
static int drop_layer(struct catalog *c, const char *layer, bool *ret_dropped, struct err *e)
{
	int r = layer[0] ? layer_is_used(c, layer, e) : 1;

	if (r == 0) {
		r = db_run(c, "DELETE FROM layer WHERE id = ?1", ARGS(TEXT(layer)), e);
		if (r < 0)
			return r;
		*ret_dropped = true;
		return 0;
	}
	*ret_dropped = false;
	return r < 0 ? r : 0;
}

int catalog_rewound(struct catalog *c, const char *sandbox, const char *checkpoint,
	const char *new_layer, char ret_dropped[static CATALOG_ID_SIZE], struct err *e)
{
	struct checkpoint_row row = {0};
	char old[CATALOG_ID_SIZE];
	cleanup_txn struct txn t = {0};
	bool dropped;
	int r = txn_begin(&t, c, e);

	if (r < 0 || (r = layer_current(c, sandbox, old, e)) < 0 ||
		(r = get(c, sandbox, checkpoint, &row, e)) < 0)
		return r;
	r = layer_add_current(c, sandbox, new_layer, row.layer, e);
	checkpoint_row_release(&row);
	if (r < 0)
		return r;
	r = db_run(c, "UPDATE sandbox SET checkpoint = ?2, state = ?3, crash = NULL WHERE id = ?1",
		ARGS(TEXT(sandbox), TEXT(checkpoint), INT(SANDBOX_RUNNING)), e);
	if (r < 0 || (r = drop_layer(c, old, &dropped, e)) < 0 || (r = txn_commit(&t, e)) < 0)
		return r;
	memcpy(ret_dropped, dropped ? old : "", dropped ? sizeof(old) : 1);
	return 0;
}
