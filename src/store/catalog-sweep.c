/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sweep. What is to go is looked for without any lock, since most of the time there is nothing;
 * each find is then looked at again inside a writing transaction. catalog_sandbox_add() makes the
 * folder, the lock and the row inside one, so here a sandbox is either not begun, or has its row
 * and its creator's lock, or is a leftover. The sandbox's lock is held until the folder is gone.
 */
#include "catalog-internal.h"

#include "home-internal.h"

#include "../base/fd.h"
#include "../base/file.h"
#include "../base/log.h"
#include "../base/strv.h"
#include "../base/text.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Ids of half-made rows, of folders without a row, and names of folders that were moved aside. */
static int collect_rows(struct catalog *c, char ***names, struct err *e)
{
	cleanup_stmt sqlite3_stmt *s = NULL;
	int r = db_prepare(c, &s, "SELECT id FROM sandbox WHERE state IN (?1, ?2)",
		ARGS(INT(SANDBOX_CREATING), INT(SANDBOX_REMOVING)), e);

	while (r >= 0 && (r = db_step(c, s, e)) > 0) {
		const char *id = (const char *)sqlite3_column_text(s, 0);
		if (!id || !home_is_id(id))
			continue;
		if (strv_add(names, id) < 0)
			return db_out_of_memory(e);
	}
	return r < 0 ? r : 0;
}

static int collect_folders(struct catalog *c, DIR *d, char ***names, struct err *e)
{
	struct dirent *de;
	int r;

	while ((de = readdir(d))) {
		r = 0;
		if (home_is_id(de->d_name))
			r = db_exists(c, "SELECT 1 FROM sandbox WHERE id = ?1",
				ARGS(TEXT(de->d_name)), e);
		else if (!text_starts_with(de->d_name, HOME_ASIDE_PREFIX))
			continue;
		if (r < 0)
			return r;
		if (r == 0 && strv_add(names, de->d_name) < 0)
			return db_out_of_memory(e);
	}
	return 0;
}

/* 1 when the sandbox is nobody's: its lock is then held in *ret_lock (-1 when it has none). */
static int take_leftover(struct catalog *c, int all, const char *id, int *ret_lock, struct err *e)
{
	cleanup_fd int dir = -1;
	int r = db_exists(c, "SELECT 1 FROM sandbox WHERE id = ?1 AND state NOT IN (?2, ?3)",
		ARGS(TEXT(id), INT(SANDBOX_CREATING), INT(SANDBOX_REMOVING)), e);

	*ret_lock = -1;
	if (r != 0)
		return r < 0 ? r : 0;
	dir = dir_open(all, id, false, 0700);
	if (dir < 0)
		return dir == -ENOENT ? 1 : err_errno(e, -dir, "cannot open sandboxes/%s", id);
	r = home_sandbox_lock(dir, ret_lock, e);
	if (r == 0 || e->kind == ERR_NOT_FOUND)
		return 1;
	return e->kind == ERR_WRONG_STATE ? 0 : r;
}

static int sweep_sandbox(struct catalog *c, int all, const char *id, struct err *e)
{
	char aside[HOME_ASIDE_SIZE];
	cleanup_txn struct txn t = {0};
	cleanup_fd int lock = -1;
	int moved, r = txn_begin(&t, c, e);

	if (r < 0 || (r = take_leftover(c, all, id, &lock, e)) <= 0)
		return r;
	if ((moved = home_sandbox_move_aside(all, id, aside, e)) < 0)
		return moved;
	if ((r = sandbox_delete_rows(c, id, e)) < 0 || (r = txn_commit(&t, e)) < 0)
		return r;
	log_info("removed what was left of sandbox %s", id);
	if (moved && (r = file_remove_tree(all, aside)) < 0)
		return err_errno(e, -r, "cannot remove sandboxes/%s", aside);
	return 0;
}

static int sweep_aside(int all, const char *name, struct err *e)
{
	int r = file_remove_tree(all, name);

	return r < 0 ? err_errno(e, -r, "cannot remove sandboxes/%.80s", name) : 0;
}

int catalog_sweep(struct catalog *c, const struct home *h, struct err *e)
{
	cleanup_strv char **names = strv_new();
	struct err first, other;
	int r, failed = 0;

	if (!names)
		return db_out_of_memory(e);
	int all = dir_open(h->dirfd, "sandboxes", false, 0700);
	if (all < 0)
		return err_errno(e, -all, "cannot open %s/sandboxes", h->path);
	DIR *d = fdopendir(all);
	if (!d) {
		(void)fd_close(all);
		return db_out_of_memory(e);
	}
	r = collect_rows(c, &names, e);
	if (r == 0)
		r = collect_folders(c, d, &names, e);
	for (char **name = names; r == 0 && *name; name++) {
		struct err *into = failed ? &other : &first;
		int one = home_is_id(*name) ? sweep_sandbox(c, all, *name, into)
					    : sweep_aside(all, *name, into);
		if (one < 0 && !failed)
			failed = one;
	}
	(void)closedir(d);
	if (r == 0 && failed) {
		*e = first;
		return failed;
	}
	return r;
}
