/* SPDX-License-Identifier: Apache-2.0 */
#include "catalog-internal.h"

#include "../base/strv.h"
#include "../base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int db_out_of_memory(struct err *e)
{
	return err_errno(e, ENOMEM, "cannot use the catalog");
}

static int system_error(struct catalog *c, struct err *e)
{
	int errnum = sqlite3_system_errno(c->db);

	/* SQLite 3.40 does not note it for a failed write. */
	if (errnum == 0)
		errnum = errno;
	/* A file size limit (setrlimit) is a full disk to us. */
	if (errnum == ENOSPC || errnum == EDQUOT || errnum == EFBIG)
		return err_set(e, ERR_NO_SPACE, errnum,
			"cannot write the catalog: no space left on the device");
	if (errnum > 0)
		return err_errno(e, errnum, "cannot use the catalog (%s)", sqlite3_errmsg(c->db));
	return err_set(e, ERR_IO, EIO, "cannot use the catalog: %s", sqlite3_errmsg(c->db));
}

int db_error(struct catalog *c, struct err *e)
{
	switch (sqlite3_errcode(c->db) & 0xff) {
	case SQLITE_FULL:
		(void)err_set(e, ERR_NO_SPACE, ENOSPC,
			"cannot write the catalog: no space left on the device");
		return err_hint(e, "free space on the file system of the state directory");
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		(void)err_set(e, ERR_CORRUPT, 0, "the catalog (catalog.db) is damaged: %s",
			sqlite3_errmsg(c->db));
		return err_hint(e, "put back a copy of the state directory");
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		(void)err_set(e, ERR_TIMEOUT, 0,
			"the catalog has been locked by another process for too long");
		return err_hint(
			e, "see which kosa8 process hangs (ps), then run the command again");
	case SQLITE_NOMEM:
		return db_out_of_memory(e);
	case SQLITE_IOERR:
	case SQLITE_CANTOPEN:
	case SQLITE_READONLY:
	case SQLITE_PERM:
		return system_error(c, e);
	default:
		return err_set(e, ERR_INTERNAL, 0, "the catalog: %s", sqlite3_errmsg(c->db));
	}
}

void db_finalizep(sqlite3_stmt **s)
{
	(void)sqlite3_finalize(*s);
	*s = NULL;
}

int db_prepare(struct catalog *c, sqlite3_stmt **ret, const char *sql, const struct arg *args,
	size_t n, struct err *e)
{
	cleanup_stmt sqlite3_stmt *s = NULL;

	if (sqlite3_prepare_v2(c->db, sql, -1, &s, NULL) != SQLITE_OK)
		return db_error(c, e);
	for (size_t i = 0; i < n; i++) {
		const struct arg *a = &args[i];
		int r, at = (int)i + 1;
		if (!a->is_text)
			r = sqlite3_bind_int64(s, at, a->number);
		else if (!a->text || a->text[0] == '\0')
			r = sqlite3_bind_null(s, at);
		else
			r = sqlite3_bind_text(s, at, a->text, -1, SQLITE_TRANSIENT);
		if (r != SQLITE_OK)
			return db_error(c, e);
	}
	*ret = s;
	s = NULL;
	return 0;
}

int db_step(struct catalog *c, sqlite3_stmt *s, struct err *e)
{
	errno = 0; /* for system_error() */
	switch (sqlite3_step(s)) {
	case SQLITE_ROW:
		return 1;
	case SQLITE_DONE:
		return 0;
	default:
		return db_error(c, e);
	}
}

int db_run(struct catalog *c, const char *sql, const struct arg *args, size_t n, struct err *e)
{
	cleanup_stmt sqlite3_stmt *s = NULL;
	int r = db_prepare(c, &s, sql, args, n, e);

	if (r < 0)
		return r;
	while ((r = db_step(c, s, e)) > 0)
		continue;
	return r < 0 ? r : sqlite3_changes(c->db);
}

int db_exists(struct catalog *c, const char *sql, const struct arg *args, size_t n, struct err *e)
{
	cleanup_stmt sqlite3_stmt *s = NULL;
	int r = db_prepare(c, &s, sql, args, n, e);

	return r < 0 ? r : db_step(c, s, e);
}

void db_text(sqlite3_stmt *s, int column, char *ret, size_t size)
{
	const char *text = (const char *)sqlite3_column_text(s, column);

	(void)snprintf(ret, size, "%s", text ? text : "");
}

int db_strdup(sqlite3_stmt *s, int column, char **ret, struct err *e)
{
	const char *text = (const char *)sqlite3_column_text(s, column);

	*ret = text ? strdup(text) : NULL;
	if (!*ret && sqlite3_column_type(s, column) != SQLITE_NULL)
		return db_out_of_memory(e);
	return 0;
}

int db_strings(struct catalog *c, sqlite3_stmt *s, char ***ret, struct err *e)
{
	cleanup_strv char **all = strv_new();
	int r = all ? 0 : db_out_of_memory(e);

	while (r >= 0 && (r = db_step(c, s, e)) > 0) {
		const char *text = (const char *)sqlite3_column_text(s, 0);
		if (!text || strv_add(&all, text) < 0)
			return db_out_of_memory(e);
	}
	if (r < 0)
		return r;
	*ret = strv_take(&all);
	return 0;
}

static int set_synchronous(struct catalog *c, const char *pragma, struct err *e)
{
	return sqlite3_exec(c->db, pragma, NULL, NULL, NULL) == SQLITE_OK ? 0 : db_error(c, e);
}

int txn_begin(struct txn *t, struct catalog *c, struct err *e)
{
	int r = set_synchronous(c, "PRAGMA synchronous = FULL", e);

	if (r < 0 || (r = db_run(c, "BEGIN IMMEDIATE", NULL, 0, e)) < 0)
		return r;
	t->c = c;
	return 0;
}

/* It cannot be changed within a transaction; a failure only costs time. */
static void end(struct txn *t)
{
	struct err ignored;

	(void)!set_synchronous(t->c, "PRAGMA synchronous = NORMAL", &ignored);
	t->c = NULL;
}

int txn_commit(struct txn *t, struct err *e)
{
	int r = db_run(t->c, "COMMIT", NULL, 0, e);

	if (r < 0)
		return r; /* the scope's end rolls back */
	end(t);
	return 0;
}

void txn_rollback(struct txn *t)
{
	struct err ignored;

	if (!t->c)
		return;
	/* SQLite may have rolled back by itself: then there is nothing to do. */
	if (!sqlite3_get_autocommit(t->c->db))
		(void)!db_run(t->c, "ROLLBACK", NULL, 0, &ignored);
	end(t);
}

int hint_nearest(struct catalog *c, const char *sql, const struct arg *args, size_t n,
	const char *wanted, const char *fallback, struct err *e)
{
	cleanup_stmt sqlite3_stmt *s = NULL;
	struct err ignored;
	char nearest[ERR_HINT_MAX] = "";
	unsigned best = 3; /* more edits than this are another word */

	if (db_prepare(c, &s, sql, args, n, &ignored) < 0)
		return err_hint(e, "%s", fallback);
	while (db_step(c, s, &ignored) > 0) {
		const char *text = (const char *)sqlite3_column_text(s, 0);
		unsigned d = text ? text_distance(wanted, text, 3) : 4;
		if (d > best || (d == best && nearest[0]))
			continue;
		/* A word of three letters that differs in three has nothing in common. */
		if (d >= strlen(wanted))
			continue;
		best = d;
		(void)snprintf(nearest, sizeof(nearest), "%s", text);
	}
	return err_hint(e, "%s", nearest[0] ? nearest : fallback);
}
