/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes in the catalog. */
#include "store-test.h"

static struct home home;
static struct catalog *catalog;

static int add(const char *name, struct sandbox_row *ret)
{
	int lock, r = catalog_sandbox_add(catalog, name, "{}", ret, &lock, &test_err);

	if (r == 0)
		(void)fd_close(lock);
	return r;
}

static void test_add(void)
{
	struct sandbox_row row = {0}, found = {0};
	cleanup_fd int dir = -1;
	int lock = -1;

	EQ_INT(catalog_sandbox_add(catalog, "code-runner", "{\"cpus\":2}", &row, &lock, &test_err),
		0, "added");
	OK(strlen(row.id) == 16 && row.state == SANDBOX_CREATING && row.created_ns > 0,
		"with an id, being created");
	dir = home_sandbox_dir(&home, row.id, false, &test_err);
	EQ_INT(home_sandbox_alive(dir), 1, "its folder is there and its lock held");
	(void)fd_close(lock);
	EQ_INT(home_sandbox_alive(dir), 0, "by the descriptor that was returned");
	EQ_INT(catalog_sandbox_find(catalog, "code-runner", &found, &test_err), 0, "found by name");
	EQ_STR(found.id, row.id, "its id");
	EQ_STR(found.spec, "{\"cpus\":2}", "its spec");
	OK(found.layer[0] == '\0' && found.checkpoint[0] == '\0' && found.epoch == 0 &&
			!found.crash,
		"nothing else yet");
	sandbox_row_release(&found);
	EQ_INT(catalog_sandbox_get(catalog, row.id, &found, &test_err), 0, "found by id");
	EQ_STR(found.name, "code-runner", "its name");
	sandbox_row_release(&found);
	sandbox_row_release(&row);
}

static void test_taken(void)
{
	struct sandbox_row row = {0};

	OK(add("code-runner", &row) < 0 && test_err.kind == ERR_EXISTS, "a name that is taken");
	EQ_STR(test_err.what, "the name code-runner is taken", "says so");
	OK(strstr(test_err.hint, "kosa8 sandbox rm code-runner") != NULL, "with a hint");
	OK(row.name == NULL, "and nothing is filled in");
	OK(add("../x", &row) < 0 && test_err.kind == ERR_INVALID, "no name at all");
	OK(add("ls", &row) < 0 && test_err.kind == ERR_INVALID, "a reserved name");
	OK(add("a\nb", &row) < 0 && !strchr(test_err.what, '\n'), "no control bytes in the error");
}

static void test_missing(void)
{
	struct sandbox_row row = {0};

	OK(catalog_sandbox_find(catalog, "code-runer", &row, &test_err) < 0 &&
			test_err.kind == ERR_NOT_FOUND,
		"no such sandbox");
	EQ_STR(test_err.hint, "code-runner", "the nearest name is the hint");
	OK(catalog_sandbox_find(catalog, "zzz", &row, &test_err) < 0, "nothing near");
	EQ_STR(test_err.hint, "kosa8 sandbox ls", "another hint");
	OK(catalog_sandbox_find(catalog, "' OR 1=1 --", &row, &test_err) < 0 &&
			test_err.kind == ERR_NOT_FOUND,
		"values are bound");
	OK(catalog_sandbox_get(catalog, "0123456789abcdef", &row, &test_err) < 0 &&
			test_err.kind == ERR_NOT_FOUND,
		"no such id");
	OK(catalog_sandbox_set_state(
		   catalog, "0123456789abcdef", SANDBOX_STOPPED, NULL, &test_err) < 0 &&
			test_err.kind == ERR_NOT_FOUND,
		"no state to set");
}

static void test_state(void)
{
	struct sandbox_row row = {0};
	uint32_t epoch = 0;

	if (catalog_sandbox_find(catalog, "code-runner", &row, &test_err) < 0)
		test_bail("find");
	char id[CATALOG_ID_SIZE];
	memcpy(id, row.id, sizeof(id));
	sandbox_row_release(&row);
	EQ_INT(catalog_sandbox_started(catalog, id, "00000000000000a1", &test_err), 0, "started");
	EQ_INT(catalog_sandbox_get(catalog, id, &row, &test_err), 0, "read back");
	OK(row.state == SANDBOX_RUNNING, "it runs");
	EQ_STR(row.layer, "00000000000000a1", "on its layer");
	sandbox_row_release(&row);
	OK(catalog_sandbox_started(catalog, id, "00000000000000a2", &test_err) < 0 &&
			test_err.kind == ERR_WRONG_STATE,
		"the first start comes once");
	EQ_INT(catalog_sandbox_set_state(
		       catalog, id, SANDBOX_CRASHED, "QEMU ended by signal 9", &test_err),
		0, "crashed");
	EQ_INT(catalog_sandbox_get(catalog, id, &row, &test_err), 0, "read back");
	EQ_STR(row.crash, "QEMU ended by signal 9", "why");
	EQ_STR(sandbox_state_name(row.state), "crashed", "the name of the state");
	sandbox_row_release(&row);
	EQ_INT(catalog_sandbox_set_state(catalog, id, SANDBOX_STOPPED, "x", &test_err), 0,
		"stopped");
	EQ_INT(catalog_sandbox_get(catalog, id, &row, &test_err), 0, "read back");
	OK(row.crash == NULL, "no crash any more");
	sandbox_row_release(&row);
	EQ_INT(catalog_sandbox_next_epoch(catalog, id, &epoch, &test_err), 0, "an epoch");
	EQ_INT(epoch, 1, "the first");
	EQ_INT(catalog_sandbox_next_epoch(catalog, id, &epoch, &test_err), 0, "another");
	EQ_INT(epoch, 2, "is never one that was used");
}

static void test_list(void)
{
	struct sandbox_rows rows = {0};
	struct sandbox_row row = {0};

	if (add("zeta", &row) < 0)
		test_bail("add");
	sandbox_row_release(&row);
	if (add("alpha", &row) < 0)
		test_bail("add");
	EQ_INT(catalog_sandbox_list(catalog, &rows, &test_err), 0, "listed");
	OK(rows.len == 3 && strcmp(rows.rows[0].name, "alpha") == 0 &&
			strcmp(rows.rows[2].name, "zeta") == 0,
		"all of them, by name");
	sandbox_rows_release(&rows);
	EQ_INT(catalog_sandbox_delete(catalog, row.id, &test_err), 0, "deleted");
	EQ_INT(catalog_sandbox_delete(catalog, row.id, &test_err), 0, "twice is no error");
	sandbox_row_release(&row);
	EQ_INT(catalog_sandbox_list(catalog, &rows, &test_err), 0, "listed");
	EQ_INT(rows.len, 2, "one less");
	sandbox_rows_release(&rows);
}

/* A disk that fills up at any point of an add: an error, and nothing is left; or success. */
static void test_full(void)
{
	int refused = 0, added = 0, wrong = 0;
	struct sandbox_row row = {0};
	struct sandbox_rows rows = {0};
	struct stat st;

	if (fstatat(home.dirfd, "catalog.db-wal", &st, 0) < 0)
		test_bail("stat");
	for (rlim_t room = 0; room < 64 * 1024; room += 1500) {
		char name[32];
		(void)snprintf(name, sizeof(name), "full-%u", (unsigned)room);
		test_limit_files((rlim_t)st.st_size + room);
		int r = add(name, &row);
		test_limit_files(RLIM_INFINITY);
		if (r == 0) {
			added++;
			if (catalog_sandbox_delete(catalog, row.id, &test_err) < 0 ||
				home_sandbox_remove(&home, row.id, &test_err) < 0)
				test_bail("delete");
			sandbox_row_release(&row);
			continue;
		}
		refused++;
		if (test_err.kind != ERR_NO_SPACE && wrong++ == 0)
			printf("# %s: %s\n", err_kind_name(test_err.kind), test_err.what);
		/* Not even the folder. */
		cleanup_fd int all = dir_open(home.dirfd, "sandboxes", false, 0);
		if (fstatat(all, ".", &st, 0) < 0)
			test_bail("stat");
		wrong += st.st_nlink != 2 + 3;
		if (fstatat(home.dirfd, "catalog.db-wal", &st, 0) < 0)
			test_bail("stat");
	}
	OK(refused > 0 && added > 0, "some adds had space, some had not");
	EQ_INT(wrong, 0, "without space: ERR_NO_SPACE, and no folder is left");
	EQ_INT(catalog_sandbox_list(catalog, &rows, &test_err), 0, "the catalog can be read");
	EQ_INT(rows.len, 2, "and has what it had");
	sandbox_rows_release(&rows);
}

int main(void)
{
	test_setup();
	test_home(&home, &catalog);
	test_add();
	test_taken();
	test_missing();
	test_state();
	test_list();
	test_full();
	catalog_close(catalog);
	home_release(&home);
	return tap_done();
}
