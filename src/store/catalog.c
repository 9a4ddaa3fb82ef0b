/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening the catalog. A new one is made whole under another name and then given its name, so that
 * whoever finds catalog.db finds a complete one, however many processes begin at once and whenever
 * one of them is killed.
 */
#include "catalog.h"

#include "catalog-internal.h"

#include "../base/fd.h"
#include "../base/file.h"
#include "../base/strv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define DB "catalog.db"
#define DB_NEW "catalog.db.new"
#define BUSY_TIMEOUT_MS 10000
/* Pages in the WAL before they are moved into the database: few, since the first client reads the
 * whole WAL when it opens the catalog. */
#define WAL_PAGES 200

/* Ids are random and never reused; seq gives the order in which rows were made, whatever the clock
 * did. References are checked at the commit: rows of a sandbox refer to each other in circles. */
static const char schema[] =
	"CREATE TABLE sandbox ("
	"  id TEXT PRIMARY KEY NOT NULL,"
	"  name TEXT NOT NULL UNIQUE,"
	"  state INTEGER NOT NULL,"
	"  created_ns INTEGER NOT NULL,"
	"  spec TEXT NOT NULL,"
	"  layer TEXT REFERENCES layer(id) DEFERRABLE INITIALLY DEFERRED,"
	"  checkpoint TEXT REFERENCES checkpoint(id) DEFERRABLE INITIALLY DEFERRED,"
	"  epoch INTEGER NOT NULL DEFAULT 0,"
	"  crash TEXT) STRICT;"
	"CREATE TABLE layer ("
	"  seq INTEGER PRIMARY KEY AUTOINCREMENT,"
	"  id TEXT NOT NULL UNIQUE,"
	"  sandbox TEXT NOT NULL REFERENCES sandbox(id) DEFERRABLE INITIALLY DEFERRED,"
	"  parent TEXT REFERENCES layer(id) DEFERRABLE INITIALLY DEFERRED) STRICT;"
	"CREATE INDEX layer_sandbox ON layer(sandbox);"
	"CREATE INDEX layer_parent ON layer(parent);"
	"CREATE TABLE checkpoint ("
	"  seq INTEGER PRIMARY KEY AUTOINCREMENT,"
	"  id TEXT NOT NULL UNIQUE,"
	"  sandbox TEXT NOT NULL REFERENCES sandbox(id) DEFERRABLE INITIALLY DEFERRED,"
	"  label TEXT,"
	"  parent TEXT REFERENCES checkpoint(id) DEFERRABLE INITIALLY DEFERRED,"
	"  layer TEXT NOT NULL REFERENCES layer(id) DEFERRABLE INITIALLY DEFERRED,"
	"  created_ns INTEGER NOT NULL,"
	"  size_bytes INTEGER NOT NULL,"
	"  pause_us INTEGER NOT NULL,"
	"  hash TEXT,"
	"  durable INTEGER NOT NULL,"
	"  UNIQUE (sandbox, label)) STRICT;"
	"CREATE INDEX checkpoint_parent ON checkpoint(parent);"
	"CREATE INDEX checkpoint_layer ON checkpoint(layer);"
	"CREATE TABLE image ("
	"  seq INTEGER PRIMARY KEY AUTOINCREMENT,"
	"  digest TEXT NOT NULL UNIQUE,"
	"  config TEXT NOT NULL,"
	"  size_bytes INTEGER NOT NULL,"
	"  created_ns INTEGER NOT NULL,"
	"  platform TEXT NOT NULL) STRICT;"
	"CREATE TABLE image_blob ("
	"  digest TEXT NOT NULL REFERENCES image(digest) DEFERRABLE INITIALLY DEFERRED,"
	"  blob TEXT NOT NULL,"
	"  size_bytes INTEGER NOT NULL,"
	"  PRIMARY KEY (digest, blob)) STRICT, WITHOUT ROWID;"
	"CREATE TABLE image_ref ("
	"  ref TEXT PRIMARY KEY NOT NULL,"
	"  digest TEXT NOT NULL REFERENCES image(digest) DEFERRABLE INITIALLY DEFERRED) STRICT;"
	"CREATE INDEX image_ref_digest ON image_ref(digest);"
	"CREATE TABLE sandbox_image ("
	"  seq INTEGER PRIMARY KEY AUTOINCREMENT,"
	"  sandbox TEXT NOT NULL REFERENCES sandbox(id) DEFERRABLE INITIALLY DEFERRED,"
	"  digest TEXT NOT NULL REFERENCES image(digest) DEFERRABLE INITIALLY DEFERRED,"
	"  UNIQUE (sandbox, digest)) STRICT;"
	"CREATE INDEX sandbox_image_digest ON sandbox_image(digest);"
	"CREATE TABLE audit_mark ("
	"  one INTEGER PRIMARY KEY CHECK (one = 1),"
	"  count INTEGER NOT NULL,"
	"  hash TEXT NOT NULL,"
	"  key TEXT NOT NULL) STRICT;";

static struct catalog *catalog_new(void)
{
	struct catalog *c = calloc(1, sizeof(*c));

	if (c)
		c->home_dirfd = -1;
	return c;
}

static int run_script(struct catalog *c, const char *sql, struct err *e)
{
	return sqlite3_exec(c->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : db_error(c, e);
}

/* c is filled in also on failure, for the message; the caller closes it. */
static int connect_db(struct catalog *c, const char *path, struct err *e)
{
	int r = sqlite3_open_v2(path, &c->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);

	if (!c->db)
		return db_out_of_memory(e);
	if (r != SQLITE_OK)
		return db_error(c, e);
	(void)sqlite3_extended_result_codes(c->db, 1);
	(void)sqlite3_busy_timeout(c->db, BUSY_TIMEOUT_MS);
	(void)sqlite3_wal_autocheckpoint(c->db, WAL_PAGES);
	(void)sqlite3_db_config(c->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	(void)sqlite3_db_config(c->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	(void)sqlite3_db_config(c->db, SQLITE_DBCONFIG_ENABLE_FKEY, 1, NULL);
	/* A checkpoint of the WAL at each close would cost every short command two fsyncs. */
	(void)sqlite3_db_config(c->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	return run_script(c, "PRAGMA synchronous = NORMAL; PRAGMA cache_size = -512", e);
}

static int write_schema(const char *path, struct err *e)
{
	cleanup_catalog struct catalog *c = catalog_new();
	char version[64];
	int r;

	if (!c)
		return db_out_of_memory(e);
	if ((r = connect_db(c, path, e)) < 0)
		return r;
	(void)snprintf(version, sizeof(version), "PRAGMA user_version = %d", CATALOG_VERSION);
	if ((r = run_script(c, "BEGIN", e)) < 0 || (r = run_script(c, schema, e)) < 0 ||
		(r = run_script(c, version, e)) < 0 || (r = run_script(c, "COMMIT", e)) < 0)
		return r;
	/* Last, and moved into the file itself at once: only the one file is renamed. */
	(void)sqlite3_db_config(c->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
	return run_script(c, "PRAGMA journal_mode = WAL", e);
}

static void remove_new(const struct home *h)
{
	static const char *const names[] = {
		DB_NEW, DB_NEW "-wal", DB_NEW "-shm", DB_NEW "-journal"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		(void)unlinkat(h->dirfd, names[i], 0);
}

static int create(const struct home *h, struct err *e)
{
	cleanup_str char *path = NULL;
	cleanup_fd int lock = lock_open(h->dirfd, "catalog.lock", true), file = -1;
	struct stat st;

	if (lock < 0)
		return err_errno(e, -lock, "cannot make the catalog in %s", h->path);
	if (fstatat(h->dirfd, DB, &st, 0) == 0)
		return 0;
	remove_new(h);
	/* The logs of a catalog that was deleted by hand must not be taken for the new one's. */
	(void)unlinkat(h->dirfd, DB "-wal", 0);
	(void)unlinkat(h->dirfd, DB "-shm", 0);
	file = openat(h->dirfd, DB_NEW, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (file < 0)
		return err_errno(e, errno, "cannot make the catalog in %s", h->path);
	if (asprintf(&path, "%s/" DB_NEW, h->path) < 0) {
		path = NULL;
		return db_out_of_memory(e);
	}
	int r = write_schema(path, e);
	if (r == 0 && (fsync(file) < 0 || renameat(h->dirfd, DB_NEW, h->dirfd, DB) < 0))
		r = err_errno(e, errno, "cannot make the catalog in %s", h->path);
	if (r < 0)
		remove_new(h);
	return r;
}

static int check_version(struct catalog *c, struct err *e)
{
	cleanup_stmt sqlite3_stmt *s = NULL;
	int r = db_prepare(c, &s, "PRAGMA user_version", NULL, 0, e);

	if (r < 0 || (r = db_step(c, s, e)) < 0)
		return r;
	int version = r > 0 ? sqlite3_column_int(s, 0) : 0;
	if (version == CATALOG_VERSION)
		return 0;
	if (version == 0) {
		(void)err_set(e, ERR_CORRUPT, 0, "the catalog (catalog.db) is empty");
		return err_hint(e, "put back a copy of the state directory");
	}
	(void)err_set(e, ERR_INCOMPATIBLE, 0,
		"the state directory has format version %d, this kosa8 uses version %d", version,
		CATALOG_VERSION);
	return err_hint(
		e, version > CATALOG_VERSION
			   ? "use the kosa8 that made it, or set KOSA8_HOME to another folder"
			   : "set KOSA8_HOME to another folder, or move this one away");
}

int catalog_open(const struct home *h, struct catalog **ret, struct err *e)
{
	cleanup_catalog struct catalog *c = catalog_new();
	cleanup_str char *path = NULL;
	struct stat st;
	int r;

	if (!c || asprintf(&path, "%s/" DB, h->path) < 0) {
		path = NULL;
		return db_out_of_memory(e);
	}
	c->home_dirfd = fcntl(h->dirfd, F_DUPFD_CLOEXEC, 3);
	if (c->home_dirfd < 0)
		return err_errno(e, errno, "cannot open the catalog");
	if (fstatat(h->dirfd, DB, &st, 0) < 0) {
		if (errno != ENOENT)
			return err_errno(e, errno, "cannot open the catalog %s", path);
		if ((r = create(h, e)) < 0)
			return r;
	}
	if ((r = connect_db(c, path, e)) < 0 || (r = check_version(c, e)) < 0)
		return r;
	*ret = c;
	c = NULL;
	return 0;
}

void catalog_close(struct catalog *c)
{
	if (!c)
		return;
	(void)sqlite3_close(c->db);
	(void)fd_close(c->home_dirfd);
	free(c);
}

void catalog_closep(struct catalog **c)
{
	catalog_close(*c);
	*c = NULL;
}

int catalog_audit_mark(struct catalog *c, uint64_t count, const char *head_hash,
	const char *public_key_hex, struct err *e)
{
	int r = db_run(c,
		"INSERT INTO audit_mark (one, count, hash, key) VALUES (1, ?1, ?2, ?3)"
		" ON CONFLICT (one) DO UPDATE SET count = ?1, hash = ?2, key = ?3",
		ARGS(INT(count), TEXT(head_hash), TEXT(public_key_hex)), e);

	return r < 0 ? r : 0;
}

int catalog_audit_get(struct catalog *c, uint64_t *ret_count, char ret_head_hash[static 65],
	char ret_public_key_hex[static 65], struct err *e)
{
	cleanup_stmt sqlite3_stmt *s = NULL;
	int r = db_prepare(
		c, &s, "SELECT count, hash, key FROM audit_mark WHERE one = 1", NULL, 0, e);

	if (r < 0 || (r = db_step(c, s, e)) < 0)
		return r;
	*ret_count = r > 0 ? (uint64_t)sqlite3_column_int64(s, 0) : 0;
	if (r > 0) {
		db_text(s, 1, ret_head_hash, 65);
		db_text(s, 2, ret_public_key_hex, 65);
	} else {
		ret_head_hash[0] = ret_public_key_hex[0] = '\0';
	}
	return 0;
}
