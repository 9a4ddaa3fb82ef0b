/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SQLite, wrapped for the catalog-*.c files: every value is bound, every failure becomes a struct
 * err, and a transaction that is not committed is rolled back at the end of its scope.
 */
#ifndef KOSA8_STORE_CATALOG_INTERNAL_H
#define KOSA8_STORE_CATALOG_INTERNAL_H

#include "catalog.h"

#include <sqlite3.h>

#define CATALOG_VERSION 2

struct catalog {
	sqlite3 *db;
	int home_dirfd;
};

/* One bound value, ?1, ?2, ... in order. A NULL text is NULL, and so is an empty one: the rows'
 * "" for "none". */
struct arg {
	bool is_text;
	const char *text;
	int64_t number;
};
#define TEXT(s) ((struct arg){.is_text = true, .text = (s)})
#define INT(n) ((struct arg){.number = (int64_t)(n)})
#define ARGS(...)                            \
	((const struct arg[]){__VA_ARGS__}), \
		sizeof((const struct arg[]){__VA_ARGS__}) / sizeof(struct arg)

void db_finalizep(sqlite3_stmt **s);
#define cleanup_stmt __attribute__((cleanup(db_finalizep)))

int db_prepare(struct catalog *c, sqlite3_stmt **ret, const char *sql, const struct arg *args,
	size_t n, struct err *e) must_check;
/* 1: a row, 0: no more. */
int db_step(struct catalog *c, sqlite3_stmt *s, struct err *e) must_check;
/* Runs a statement to its end; the number of rows it changed. */
int db_run(struct catalog *c, const char *sql, const struct arg *args, size_t n,
	struct err *e) must_check;
/* Whether a SELECT gives a row: 1 or 0. */
int db_exists(struct catalog *c, const char *sql, const struct arg *args, size_t n,
	struct err *e) must_check;
/* The error of the last SQLite call on c. */
int db_error(struct catalog *c, struct err *e);
int db_out_of_memory(struct err *e);

/* Columns: "" for NULL in fixed fields, cut at size; NULL for NULL in owned ones. */
void db_text(sqlite3_stmt *s, int column, char *ret, size_t size);
int db_strdup(sqlite3_stmt *s, int column, char **ret, struct err *e) must_check;
/* Steps to the end: the first column of all rows, which is never NULL. */
int db_strings(struct catalog *c, sqlite3_stmt *s, char ***ret, struct err *e) must_check;

/* A writing transaction: it has the write lock from its begin on, so that what it reads stays true,
 * and it is durable when it is committed: files are removed because of it. (Single statements
 * become durable with the next one.) cleanup_txn struct txn t = {0}; txn_begin(&t, c, e); ...;
 * return txn_commit(&t, e); */
struct txn {
	struct catalog *c;
};
int txn_begin(struct txn *t, struct catalog *c, struct err *e) must_check;
int txn_commit(struct txn *t, struct err *e) must_check;
void txn_rollback(struct txn *t);
#define cleanup_txn __attribute__((cleanup(txn_rollback)))

/* Within a transaction: the rows that catalog_sandbox_delete() deletes. */
int sandbox_delete_rows(struct catalog *c, const char *id, struct err *e) must_check;
/* ERR_NOT_FOUND for a sandbox's id that no row has. */
int sandbox_gone(const char *id, struct err *e);

/* Within a transaction. The sandbox's current layer ("": none); a new layer that becomes it;
 * whether another layer, a checkpoint or a sandbox needs the layer (1 or 0). */
int layer_current(struct catalog *c, const char *sandbox, char ret[static CATALOG_ID_SIZE],
	struct err *e) must_check;
int layer_add_current(struct catalog *c, const char *sandbox, const char *layer, const char *parent,
	struct err *e) must_check;
int layer_is_used(struct catalog *c, const char *layer, struct err *e) must_check;

/* ERR_NOT_FOUND with the nearest name as the hint. */
int image_unknown(struct catalog *c, const char *ref_or_digest, struct err *e);
/* Rows of a SELECT that begins with SELECT_IMAGE; what ret held is kept only on success. */
#define SELECT_IMAGE                                                           \
	"SELECT i.digest, i.config, i.size_bytes, i.created_ns, i.platform,"   \
	" (SELECT TOTAL(size_bytes) FROM image_blob WHERE digest = i.digest) " \
	"FROM image i "
int image_rows_read(
	struct catalog *c, sqlite3_stmt *s, struct image_rows *ret, struct err *e) must_check;
bool image_is_digest(const char *s);
/* By reference or digest, within a transaction when the row is to stay true. */
int image_row_find(struct catalog *c, const char *ref_or_digest, struct image_row *ret,
	struct err *e) must_check;

/* The nearest of the strings that a one-column SELECT gives, as the hint; else fallback. */
int hint_nearest(struct catalog *c, const char *sql, const struct arg *args, size_t n,
	const char *wanted, const char *fallback, struct err *e);

#endif
