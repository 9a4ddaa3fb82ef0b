/* SPDX-License-Identifier: Apache-2.0 */
/* What the sweep takes away, and what it must leave alone. */
#include "store-test.h"

static struct home home;
static struct catalog *catalog;

static void add(const char *name, struct sandbox_row *row, int *lock)
{
	if (catalog_sandbox_add(catalog, name, "{}", row, lock, &test_err) < 0)
		test_bail("add");
}

static bool has_row(const char *id)
{
	struct sandbox_row row;

	if (catalog_sandbox_get(catalog, id, &row, &test_err) < 0)
		return false;
	sandbox_row_release(&row);
	return true;
}

static bool has_folder(const char *id)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "sandboxes/%s", id);
	return faccessat(home.dirfd, path, F_OK, 0) == 0;
}

static bool is_there(const char *id)
{
	return has_row(id) && has_folder(id);
}

static void sweep(const char *what)
{
	EQ_INT(catalog_sweep(catalog, &home, &test_err), 0, what);
}

/* Each state, with the lock free and held. */
static void test_states(void)
{
	static const bool goes[] = {
		[SANDBOX_CREATING] = true,
		[SANDBOX_RUNNING] = false,
		[SANDBOX_STOPPED] = false,
		[SANDBOX_CRASHED] = false,
		[SANDBOX_REMOVING] = true,
	};

	for (enum sandbox_state s = SANDBOX_CREATING; s < SANDBOX_STATE_COUNT; s++) {
		struct sandbox_row row;
		char name[32], what[80];
		int lock;
		(void)snprintf(name, sizeof(name), "state-%d", s);
		add(name, &row, &lock);
		if (catalog_sandbox_set_state(catalog, row.id, s, NULL, &test_err) < 0)
			test_bail("set_state");
		sweep("swept");
		(void)snprintf(what, sizeof(what), "%s, lock held: stays", sandbox_state_name(s));
		OK(is_there(row.id), what);
		(void)fd_close(lock);
		sweep("swept");
		(void)snprintf(what, sizeof(what), "%s, lock free: %s", sandbox_state_name(s),
			goes[s] ? "goes" : "stays");
		OK(goes[s] ? !has_row(row.id) && !has_folder(row.id) : is_there(row.id), what);
		sandbox_row_release(&row);
	}
}

/* Every place at which a create or a remove can be killed. */
static void test_half(void)
{
	struct sandbox_row row;
	int lock;

	add("half", &row, &lock);
	(void)fd_close(lock);
	if (home_sandbox_remove(&home, row.id, &test_err) < 0)
		test_bail("remove");
	OK(has_row(row.id), "a row without a folder");
	sweep("swept");
	OK(!has_row(row.id), "goes");
	sandbox_row_release(&row);
	add("half", &row, &lock);
	(void)fd_close(lock);
	if (catalog_sandbox_delete(catalog, row.id, &test_err) < 0)
		test_bail("delete");
	OK(has_folder(row.id), "a folder without a row");
	sweep("swept");
	OK(!has_folder(row.id), "goes");
	sandbox_row_release(&row);
	add("half", &row, &lock);
	if (catalog_sandbox_delete(catalog, row.id, &test_err) < 0)
		test_bail("delete");
	sweep("swept");
	OK(has_folder(row.id), "a folder without a row, but locked, stays");
	(void)fd_close(lock);
	sweep("swept");
	OK(!has_folder(row.id), "until it is free");
	sandbox_row_release(&row);
	if (mkdirat(home.dirfd, "sandboxes/0123456789abcdef", 0700) < 0 ||
		mkdirat(home.dirfd, "sandboxes/.gone.0123456789abcdef.00000000", 0700) < 0 ||
		mkdirat(home.dirfd, "sandboxes/.gone.0123456789abcdef.00000000/layers", 0700) < 0 ||
		mkdirat(home.dirfd, "sandboxes/somebody's own", 0700) < 0)
		test_bail("mkdir");
	sweep("swept");
	OK(!has_folder("0123456789abcdef"), "a folder without a lock file goes");
	OK(!has_folder(".gone.0123456789abcdef.00000000"), "what was moved aside goes");
	OK(has_folder("somebody's own"), "what is not kosa8's stays");
}

static void test_cascade(void)
{
	struct sandbox_row row;
	struct layer_rows layers = {0};
	struct checkpoint_rows checkpoints = {0};
	struct checkpoint_row checkpoint = {
		.id = "c000000000000001", .layer = "0000000000000001", .hash = "ab"};
	struct image_new image = {.digest = "sha256:aa", .config = "{}", .platform = "linux/amd64"};
	int lock;

	add("full", &row, &lock);
	if (catalog_sandbox_started(catalog, row.id, "0000000000000001", &test_err) < 0 ||
		catalog_layer_push(catalog, row.id, "0000000000000002", &test_err) < 0 ||
		catalog_checkpoint_add(catalog, row.id, &checkpoint, &test_err) < 0 ||
		catalog_image_put(catalog, &image, &test_err) < 0 ||
		catalog_sandbox_image_add(catalog, row.id, "sha256:aa", &test_err) < 0 ||
		catalog_sandbox_set_state(catalog, row.id, SANDBOX_REMOVING, NULL, &test_err) < 0)
		test_bail("filling");
	(void)fd_close(lock);
	sweep("swept");
	OK(catalog_layer_list(catalog, row.id, &layers, &test_err) == 0 && layers.len == 0 &&
			catalog_checkpoint_list(catalog, row.id, &checkpoints, &test_err) == 0 &&
			checkpoints.len == 0,
		"layers and checkpoints go with it");
	char digest[72];
	bool deleted;
	OK(catalog_image_delete(catalog, "sha256:aa", &deleted, digest, &test_err) == 0 && deleted,
		"and its use of an image");
	sandbox_row_release(&row);
}

/* One sandbox that cannot be swept does not keep the others from it, and nothing is lost. */
static void test_full_disk(void)
{
	struct sandbox_row row;
	struct stat st;
	int lock;

	add("no-space", &row, &lock);
	(void)fd_close(lock);
	if (fstatat(home.dirfd, "catalog.db-wal", &st, 0) < 0)
		test_bail("stat");
	test_limit_files((rlim_t)st.st_size);
	int r = catalog_sweep(catalog, &home, &test_err);
	test_limit_files(RLIM_INFINITY);
	OK(r < 0 && test_err.kind == ERR_NO_SPACE, "no space for the catalog's log: an error");
	OK(has_row(row.id), "the row stays");
	sweep("with space it is swept");
	OK(!has_row(row.id) && !has_folder(row.id), "and gone");
	sandbox_row_release(&row);
}

int main(void)
{
	test_setup();
	test_home(&home, &catalog);
	test_states();
	test_half();
	test_cascade();
	test_full_disk();
	catalog_close(catalog);
	home_release(&home);
	return tap_done();
}
