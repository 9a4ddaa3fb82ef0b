/* SPDX-License-Identifier: Apache-2.0 */
/* The catalog under several processes. */
#include "store-test.h"

static struct home home;
static struct catalog *catalog;
static int start_pipe[2], stop_pipe[2];

static struct catalog *reopen(struct home *h)
{
	struct catalog *c;

	home_release(h);
	if (home_open(true, h, &test_err) < 0 || catalog_open(h, &c, &test_err) < 0) {
		printf("# %s\n", test_err.what);
		_exit(99);
	}
	return c;
}

static void wait_for(int pipe_fds[2])
{
	char byte;

	(void)close(pipe_fds[1]);
	(void)!read(pipe_fds[0], &byte, 1);
}

/* 0: won, 1: ERR_EXISTS as it should be, 2: anything else. The winner stays until all are done. */
static int creator(int n)
{
	struct home h = {0};
	struct catalog *c = reopen(&h);
	struct sandbox_row row;
	int lock;

	(void)n;
	wait_for(start_pipe);
	if (catalog_sandbox_add(c, "code-runner", "{}", &row, &lock, &test_err) == 0)
		return catalog_sandbox_set_state(c, row.id, SANDBOX_STOPPED, NULL, &test_err) == 0
			       ? 0
			       : 2;
	if (test_err.kind == ERR_EXISTS &&
		strcmp(test_err.what, "the name code-runner is taken") == 0 && test_err.hint[0])
		return 1;
	printf("# %s\n", test_err.what);
	return 2;
}

static int folders(void)
{
	cleanup_fd int all = dir_open(home.dirfd, "sandboxes", false, 0);
	struct stat st;

	return fstat(all, &st) < 0 ? -1 : (int)st.st_nlink - 2;
}

static void test_one_name(void)
{
	int won = 0, lost = 0;
	pid_t pids[20];

	if (pipe(start_pipe) < 0)
		test_bail("pipe");
	for (int i = 0; i < 20; i++)
		pids[i] = test_fork(creator, i);
	(void)close(start_pipe[0]);
	(void)close(start_pipe[1]);
	for (int i = 0; i < 20; i++) {
		int r = test_wait(pids[i]);
		won += r == 0;
		lost += r == 1;
	}
	EQ_INT(won, 1, "20 processes make one sandbox: one wins");
	EQ_INT(lost, 19, "the others are told that the name is taken");
	catalog = reopen(&home);
	EQ_INT(folders(), 1, "and there is one folder");
	catalog_closep(&catalog);
}

/* Makes and removes sandboxes, while others sweep. None may be swept away under it. */
static int maker(int n)
{
	struct home h = {0};
	struct catalog *c = reopen(&h);
	char name[32];

	for (int i = 0; i < 40; i++) {
		struct sandbox_row row, again;
		cleanup_fd int lock = -1, dir = -1;
		(void)snprintf(name, sizeof(name), "maker-%d", n);
		if (catalog_sandbox_add(c, name, "{}", &row, &lock, &test_err) < 0)
			return 1;
		dir = home_sandbox_dir(&h, row.id, false, &test_err);
		if (dir < 0 || home_sandbox_alive(dir) != 1)
			return 2;
		/* Being created takes a while. */
		for (int k = 0; k < 20; k++) {
			if (catalog_sandbox_get(c, row.id, &again, &test_err) < 0)
				return 3;
			sandbox_row_release(&again);
		}
		if (faccessat(dir, "lock", F_OK, 0) < 0)
			return 4;
		if (i % 2 == 0) {
			/* Killed in the middle: the sweeps take it away. The name is free then. */
			fd_closep(&lock);
			if (catalog_sweep(c, &h, &test_err) < 0)
				return 5;
		} else if (catalog_sandbox_set_state(c, row.id, SANDBOX_REMOVING, NULL, &test_err) <
				   0 ||
			   home_sandbox_remove(&h, row.id, &test_err) < 0 ||
			   catalog_sandbox_delete(c, row.id, &test_err) < 0) {
			return 6;
		}
		if (catalog_sandbox_get(c, row.id, &again, &test_err) == 0)
			return 7;
		sandbox_row_release(&row);
	}
	return 0;
}

static int sweeper(int n)
{
	struct home h = {0};
	struct catalog *c = reopen(&h);
	int rounds = 0;
	char byte;

	(void)n;
	(void)close(stop_pipe[1]);
	if (fd_set_nonblock(stop_pipe[0], true) < 0)
		return 1;
	while (read(stop_pipe[0], &byte, 1) < 0) {
		if (catalog_sweep(c, &h, &test_err) < 0) {
			printf("# %s\n", test_err.what);
			return 2;
		}
		rounds++;
	}
	return rounds > 10 ? 0 : 3;
}

static void test_sweeping(void)
{
	struct sandbox_rows rows = {0};
	pid_t makers[2], sweepers[2];
	int failed = 0;

	if (pipe(stop_pipe) < 0)
		test_bail("pipe");
	for (int i = 0; i < 2; i++) {
		sweepers[i] = test_fork(sweeper, i);
		makers[i] = test_fork(maker, i);
	}
	for (int i = 0; i < 2; i++) {
		int r = test_wait(makers[i]);
		if (r)
			printf("# maker: %d\n", r);
		failed += r != 0;
	}
	(void)close(stop_pipe[0]);
	(void)close(stop_pipe[1]);
	for (int i = 0; i < 2; i++) {
		int r = test_wait(sweepers[i]);
		if (r)
			printf("# sweeper: %d\n", r);
		failed += r != 0;
	}
	EQ_INT(failed, 0, "two make sandboxes while two sweep");
	catalog = reopen(&home);
	EQ_INT(catalog_sweep(catalog, &home, &test_err), 0, "a last sweep");
	EQ_INT(catalog_sandbox_list(catalog, &rows, &test_err), 0, "what is left");
	EQ_INT(rows.len, 1, "only the one from before");
	sandbox_rows_release(&rows);
	EQ_INT(folders(), 1, "and its folder");
	catalog_closep(&catalog);
}

static int epochs(int n)
{
	struct home h = {0};
	struct catalog *c = reopen(&h);
	struct sandbox_row row;
	uint32_t epoch;

	(void)n;
	if (catalog_sandbox_find(c, "code-runner", &row, &test_err) < 0)
		return 1;
	for (int i = 0; i < 100; i++)
		if (catalog_sandbox_next_epoch(c, row.id, &epoch, &test_err) < 0)
			return 2;
	return 0;
}

static void test_epochs(void)
{
	struct sandbox_row row;
	pid_t a = test_fork(epochs, 0), b = test_fork(epochs, 1);

	EQ_INT(test_wait(a), 0, "a process takes 100 epochs");
	EQ_INT(test_wait(b), 0, "another at the same time");
	catalog = reopen(&home);
	if (catalog_sandbox_find(catalog, "code-runner", &row, &test_err) < 0)
		test_bail("find");
	EQ_INT(row.epoch, 200, "none was given twice");
	sandbox_row_release(&row);
	catalog_closep(&catalog);
}

int main(void)
{
	test_setup();
	test_one_name();
	test_sweeping();
	test_epochs();
	home_release(&home);
	return tap_done();
}
