/* SPDX-License-Identifier: Apache-2.0 */
/* Disk layers form a forest per sandbox; the sandbox's current layer is the writable one on top. */
#include "catalog-internal.h"

#include <errno.h>
#include <stdlib.h>

void layer_rows_release(struct layer_rows *l)
{
	free(l->rows);
	*l = (struct layer_rows){0};
}

int catalog_layer_list(
	struct catalog *c, const char *sandbox, struct layer_rows *ret, struct err *e)
{
	cleanup_stmt sqlite3_stmt *s = NULL;
	struct layer_rows all = {0};
	int r = db_prepare(c, &s, "SELECT id, parent FROM layer WHERE sandbox = ?1 ORDER BY seq",
		ARGS(TEXT(sandbox)), e);

	while (r >= 0 && (r = db_step(c, s, e)) > 0) {
		struct layer_row *grown = reallocarray(all.rows, all.len + 1, sizeof(all.rows[0]));
		if (!grown) {
			r = db_out_of_memory(e);
			break;
		}
		all.rows = grown;
		db_text(s, 0, grown[all.len].id, sizeof(grown[0].id));
		db_text(s, 1, grown[all.len].parent, sizeof(grown[0].parent));
		all.len++;
	}
	if (r < 0) {
		layer_rows_release(&all);
		return r;
	}
	*ret = all;
	return 0;
}

int layer_add_current(struct catalog *c, const char *sandbox, const char *layer, const char *parent,
	struct err *e)
{
	int r = db_run(c, "INSERT INTO layer (id, sandbox, parent) VALUES (?2, ?1, ?3)",
		ARGS(TEXT(sandbox), TEXT(layer), TEXT(parent)), e);

	if (r < 0)
		return r;
	r = db_run(c, "UPDATE sandbox SET layer = ?2 WHERE id = ?1",
		ARGS(TEXT(sandbox), TEXT(layer)), e);
	return r == 0 ? sandbox_gone(sandbox, e) : r < 0 ? r : 0;
}

int layer_current(
	struct catalog *c, const char *sandbox, char ret[static CATALOG_ID_SIZE], struct err *e)
{
	cleanup_stmt sqlite3_stmt *s = NULL;
	int r = db_prepare(
		c, &s, "SELECT layer FROM sandbox WHERE id = ?1", ARGS(TEXT(sandbox)), e);

	if (r < 0 || (r = db_step(c, s, e)) < 0)
		return r;
	if (r == 0)
		return sandbox_gone(sandbox, e);
	db_text(s, 0, ret, CATALOG_ID_SIZE);
	return 0;
}

int layer_is_used(struct catalog *c, const char *layer, struct err *e)
{
	return db_exists(c,
		"SELECT 1 FROM layer WHERE parent = ?1"
		" UNION ALL SELECT 1 FROM checkpoint WHERE layer = ?1"
		" UNION ALL SELECT 1 FROM sandbox WHERE layer = ?1",
		ARGS(TEXT(layer)), e);
}

static int push(struct catalog *c, const char *sandbox, const char *new_layer, struct err *e)
{
	char current[CATALOG_ID_SIZE];
	int r = layer_current(c, sandbox, current, e);

	return r < 0 ? r : layer_add_current(c, sandbox, new_layer, current, e);
}

int catalog_layer_push(struct catalog *c, const char *sandbox, const char *new_layer, struct err *e)
{
	cleanup_txn struct txn t = {0};
	int r = txn_begin(&t, c, e);

	if (r < 0 || (r = push(c, sandbox, new_layer, e)) < 0)
		return r;
	return txn_commit(&t, e);
}

int catalog_sandbox_started(
	struct catalog *c, const char *sandbox, const char *layer, struct err *e)
{
	cleanup_txn struct txn t = {0};
	char current[CATALOG_ID_SIZE];
	int r = txn_begin(&t, c, e);

	if (r < 0 || (r = layer_current(c, sandbox, current, e)) < 0)
		return r;
	if (current[0])
		return err_set(e, ERR_WRONG_STATE, 0, "the sandbox has a disk already");
	if ((r = layer_add_current(c, sandbox, layer, NULL, e)) < 0)
		return r;
	r = db_run(c, "UPDATE sandbox SET state = ?2, crash = NULL WHERE id = ?1",
		ARGS(TEXT(sandbox), INT(SANDBOX_RUNNING)), e);
	return r < 0 ? r : txn_commit(&t, e);
}

static int layer_unknown(const char *layer, struct err *e)
{
	return err_set(e, ERR_NOT_FOUND, 0, "there is no disk layer %.16s", layer);
}

int catalog_layer_delete(struct catalog *c, const char *layer, struct err *e)
{
	cleanup_txn struct txn t = {0};
	int r = txn_begin(&t, c, e);

	if (r < 0 || (r = layer_is_used(c, layer, e)) < 0)
		return r;
	if (r > 0)
		return err_set(e, ERR_WRONG_STATE, 0, "disk layer %.16s is in use", layer);
	r = db_run(c, "DELETE FROM layer WHERE id = ?1", ARGS(TEXT(layer)), e);
	if (r <= 0)
		return r < 0 ? r : layer_unknown(layer, e);
	return txn_commit(&t, e);
}

/* Whether anything but child needs the layer. */
static int needed_by_others(struct catalog *c, const char *layer, const char *child, struct err *e)
{
	return db_exists(c,
		"SELECT 1 FROM layer WHERE parent = ?1 AND id <> ?2"
		" UNION ALL SELECT 1 FROM checkpoint WHERE layer = ?1"
		" UNION ALL SELECT 1 FROM sandbox WHERE layer = ?1",
		ARGS(TEXT(layer), TEXT(child)), e);
}

/* The layer that child stands on, "" for none, and the one below that. */
static int ancestors(struct catalog *c, const char *child, char parent[static CATALOG_ID_SIZE],
	char grandparent[static CATALOG_ID_SIZE], struct err *e)
{
	cleanup_stmt sqlite3_stmt *s = NULL;
	int r = db_prepare(c, &s,
		"SELECT a.parent, b.parent FROM layer a LEFT JOIN layer b ON b.id = a.parent"
		" WHERE a.id = ?1",
		ARGS(TEXT(child)), e);

	if (r < 0 || (r = db_step(c, s, e)) < 0)
		return r;
	if (r == 0)
		return layer_unknown(child, e);
	db_text(s, 0, parent, CATALOG_ID_SIZE);
	db_text(s, 1, grandparent, CATALOG_ID_SIZE);
	return 0;
}

int catalog_layer_merged(struct catalog *c, const char *child, struct err *e)
{
	char parent[CATALOG_ID_SIZE], grandparent[CATALOG_ID_SIZE];
	cleanup_txn struct txn t = {0};
	int r = txn_begin(&t, c, e);

	if (r < 0 || (r = ancestors(c, child, parent, grandparent, e)) < 0)
		return r;
	if (!parent[0])
		return err_set(e, ERR_WRONG_STATE, 0, "disk layer %.16s stands on no other", child);
	if ((r = needed_by_others(c, parent, child, e)) != 0)
		return r < 0 ? r
			     : err_set(e, ERR_WRONG_STATE, 0, "disk layer %.16s is in use", parent);
	r = db_run(c, "UPDATE layer SET parent = ?2 WHERE id = ?1",
		ARGS(TEXT(child), TEXT(grandparent)), e);
	if (r < 0 || (r = db_run(c, "DELETE FROM layer WHERE id = ?1", ARGS(TEXT(parent)), e)) < 0)
		return r;
	return txn_commit(&t, e);
}
