/* SPDX-License-Identifier: Apache-2.0 */
#include "catalog-internal.h"

#include "home-internal.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/file.h"
#include "../base/hash.h"
#include "../base/text.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const state_names[] = {
	[SANDBOX_CREATING] = "creating",
	[SANDBOX_RUNNING] = "running",
	[SANDBOX_STOPPED] = "stopped",
	[SANDBOX_CRASHED] = "crashed",
	[SANDBOX_REMOVING] = "removing",
};
static_assert(sizeof(state_names) / sizeof(state_names[0]) == SANDBOX_STATE_COUNT,
	"a name for every state");

const char *sandbox_state_name(enum sandbox_state s)
{
	return state_names[s];
}

void sandbox_row_release(struct sandbox_row *s)
{
	free(s->name);
	free(s->spec);
	free(s->crash);
	*s = (struct sandbox_row){0};
}

void sandbox_rows_release(struct sandbox_rows *s)
{
	for (size_t i = 0; i < s->len; i++)
		sandbox_row_release(&s->rows[i]);
	free(s->rows);
	*s = (struct sandbox_rows){0};
}

#define SELECT_SANDBOX \
	"SELECT id, name, state, created_ns, spec, layer, checkpoint, epoch, crash FROM sandbox "

static int read_row(sqlite3_stmt *s, struct sandbox_row *ret, struct err *e)
{
	struct sandbox_row row = {0};
	int state = sqlite3_column_int(s, 2), r;

	if (state < 0 || state >= SANDBOX_STATE_COUNT)
		return err_set(e, ERR_CORRUPT, 0, "the catalog has a sandbox in state %d", state);
	db_text(s, 0, row.id, sizeof(row.id));
	db_text(s, 5, row.layer, sizeof(row.layer));
	db_text(s, 6, row.checkpoint, sizeof(row.checkpoint));
	row.state = (enum sandbox_state)state;
	row.created_ns = sqlite3_column_int64(s, 3);
	row.epoch = (uint32_t)sqlite3_column_int64(s, 7);
	if ((r = db_strdup(s, 1, &row.name, e)) < 0 || (r = db_strdup(s, 4, &row.spec, e)) < 0 ||
		(r = db_strdup(s, 8, &row.crash, e)) < 0) {
		sandbox_row_release(&row);
		return r;
	}
	*ret = row;
	return 0;
}

int sandbox_gone(const char *id, struct err *e)
{
	return err_set(e, ERR_NOT_FOUND, 0, "the sandbox has been removed (id %.16s)", id);
}

static int name_taken(const char *name, struct err *e)
{
	(void)err_set(e, ERR_EXISTS, 0, "the name %s is taken", name);
	return err_hint(e, "another name, or: kosa8 sandbox rm %s", name);
}

static int check_name(const char *name, struct err *e)
{
	char safe[80];

	if (text_is_sandbox_name(name))
		return 0;
	text_escape(name, safe, sizeof(safe));
	(void)err_set(e, ERR_INVALID, 0, "\"%s\" cannot be the name of a sandbox", safe);
	return err_hint(e,
		"1 to 63 of a-z 0-9 . _ -, beginning with a letter or digit; not ls, rm or diff");
}

/* Within the transaction: what a sweep finds on disk is then complete, or a leftover. */
static int add_row(
	struct catalog *c, const struct sandbox_row *row, int *ret_lock_fd, struct err *e)
{
	cleanup_fd int dir = -1, lock = -1;
	int r = db_exists(c, "SELECT 1 FROM sandbox WHERE name = ?1", ARGS(TEXT(row->name)), e);

	if (r != 0)
		return r < 0 ? r : name_taken(row->name, e);
	r = db_run(c,
		"INSERT INTO sandbox (id, name, state, created_ns, spec) VALUES (?1, ?2, ?3, ?4, "
		"?5)",
		ARGS(TEXT(row->id), TEXT(row->name), INT(row->state), INT(row->created_ns),
			TEXT(row->spec)),
		e);
	if (r < 0)
		return r;
	dir = home_sandbox_dir_at(c->home_dirfd, row->id, true, e);
	if (dir < 0)
		return dir;
	if ((r = home_sandbox_lock(dir, &lock, e)) < 0)
		return r;
	*ret_lock_fd = fd_take(&lock);
	return 0;
}

static void remove_folder(struct catalog *c, const char *id)
{
	char name[48];

	(void)snprintf(name, sizeof(name), "sandboxes/%s", id);
	(void)!file_remove_tree(c->home_dirfd, name);
}

int catalog_sandbox_add(struct catalog *c, const char *name, const char *spec,
	struct sandbox_row *ret, int *ret_lock_fd, struct err *e)
{
	struct sandbox_row row = {.state = SANDBOX_CREATING, .created_ns = clock_wall_ns()};
	cleanup_txn struct txn t = {0};
	cleanup_fd int lock = -1;
	int r = check_name(name, e);

	if (r < 0)
		return r;
	random_hex(row.id, CATALOG_ID_SIZE - 1);
	row.name = strdup(name);
	row.spec = strdup(spec);
	if (!row.name || !row.spec)
		r = db_out_of_memory(e);
	else if ((r = txn_begin(&t, c, e)) == 0 && (r = add_row(c, &row, &lock, e)) == 0)
		r = txn_commit(&t, e);
	if (r < 0) {
		/* Still within the transaction, if there is one. */
		if (e->kind != ERR_EXISTS)
			remove_folder(c, row.id);
		sandbox_row_release(&row);
		return r;
	}
	*ret = row;
	*ret_lock_fd = fd_take(&lock);
	return 0;
}

static int find_one(
	struct catalog *c, const char *sql, const char *key, struct sandbox_row *ret, struct err *e)
{
	cleanup_stmt sqlite3_stmt *s = NULL;
	int r = db_prepare(c, &s, sql, ARGS(TEXT(key)), e);

	if (r < 0 || (r = db_step(c, s, e)) <= 0)
		return r;
	r = read_row(s, ret, e);
	return r < 0 ? r : 1;
}

int catalog_sandbox_find(
	struct catalog *c, const char *name, struct sandbox_row *ret, struct err *e)
{
	char safe[100];
	int r = find_one(c, SELECT_SANDBOX "WHERE name = ?1", name, ret, e);

	if (r != 0)
		return r < 0 ? r : 0;
	text_escape(name, safe, sizeof(safe));
	(void)err_set(e, ERR_NOT_FOUND, 0, "there is no sandbox %s", safe);
	return hint_nearest(
		c, "SELECT name FROM sandbox ORDER BY name", NULL, 0, name, "kosa8 sandbox ls", e);
}

int catalog_sandbox_get(struct catalog *c, const char *id, struct sandbox_row *ret, struct err *e)
{
	int r = find_one(c, SELECT_SANDBOX "WHERE id = ?1", id, ret, e);

	if (r != 0)
		return r < 0 ? r : 0;
	return sandbox_gone(id, e);
}

int catalog_sandbox_list(struct catalog *c, struct sandbox_rows *ret, struct err *e)
{
	cleanup_stmt sqlite3_stmt *s = NULL;
	struct sandbox_rows all = {0};
	int r = db_prepare(c, &s, SELECT_SANDBOX "ORDER BY name", NULL, 0, e);

	while (r >= 0 && (r = db_step(c, s, e)) > 0) {
		struct sandbox_row *grown =
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
		sandbox_rows_release(&all);
		return r;
	}
	*ret = all;
	return 0;
}

int catalog_sandbox_set_state(struct catalog *c, const char *id, enum sandbox_state state,
	const char *crash, struct err *e)
{
	int r = db_run(c, "UPDATE sandbox SET state = ?2, crash = ?3 WHERE id = ?1",
		ARGS(TEXT(id), INT(state), TEXT(state == SANDBOX_CRASHED ? crash : NULL)), e);

	return r == 0 ? sandbox_gone(id, e) : r < 0 ? r : 0;
}

int catalog_sandbox_set_spec(struct catalog *c, const char *id, const char *spec, struct err *e)
{
	cleanup_txn struct txn t = {0};
	int r = txn_begin(&t, c, e);

	if (r < 0)
		return r;
	r = db_run(c, "UPDATE sandbox SET spec = ?2 WHERE id = ?1", ARGS(TEXT(id), TEXT(spec)), e);
	if (r <= 0)
		return r == 0 ? sandbox_gone(id, e) : r;
	return txn_commit(&t, e);
}

int catalog_sandbox_next_epoch(struct catalog *c, const char *id, uint32_t *ret, struct err *e)
{
	cleanup_txn struct txn t = {0};
	struct sandbox_row row = {0};
	int r = txn_begin(&t, c, e);

	if (r < 0 || (r = catalog_sandbox_get(c, id, &row, e)) < 0)
		return r;
	uint32_t epoch = row.epoch;
	sandbox_row_release(&row);
	if (epoch == UINT32_MAX)
		return err_set(e, ERR_LIMIT, 0, "the sandbox has been restored %u times", epoch);
	r = db_run(c, "UPDATE sandbox SET epoch = ?2 WHERE id = ?1", ARGS(TEXT(id), INT(epoch + 1)),
		e);
	if (r < 0 || (r = txn_commit(&t, e)) < 0)
		return r;
	*ret = epoch + 1;
	return 0;
}

int sandbox_delete_rows(struct catalog *c, const char *id, struct err *e)
{
	static const char *const statements[] = {
		"DELETE FROM sandbox_image WHERE sandbox = ?1",
		"DELETE FROM checkpoint WHERE sandbox = ?1",
		"DELETE FROM layer WHERE sandbox = ?1",
		"DELETE FROM sandbox WHERE id = ?1",
	};

	for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]); i++) {
		int r = db_run(c, statements[i], ARGS(TEXT(id)), e);
		if (r < 0)
			return r;
	}
	return 0;
}

int catalog_sandbox_delete(struct catalog *c, const char *id, struct err *e)
{
	cleanup_txn struct txn t = {0};
	int r = txn_begin(&t, c, e);

	if (r < 0 || (r = sandbox_delete_rows(c, id, e)) < 0)
		return r;
	return txn_commit(&t, e);
}
