/* SPDX-License-Identifier: Apache-2.0 */
/* Layers and checkpoints: three checkpoints on two branches, and what may be deleted when. */
#include "store-test.h"

static struct home home;
static struct catalog *catalog;
static char box[CATALOG_ID_SIZE], other[CATALOG_ID_SIZE];

#define L(n) "000000000000000" #n
#define C(n) "c00000000000000" #n

static void add(const char *name, const char *layer, char ret_id[static CATALOG_ID_SIZE])
{
	struct sandbox_row row;
	int lock;

	if (catalog_sandbox_add(catalog, name, "{}", &row, &lock, &test_err) < 0 ||
		(layer && catalog_sandbox_started(catalog, row.id, layer, &test_err) < 0))
		test_bail("add");
	memcpy(ret_id, row.id, CATALOG_ID_SIZE);
	sandbox_row_release(&row);
	(void)fd_close(lock);
}

static int checkpoint(const char *id, const char *label, const char *new_layer)
{
	struct checkpoint_row row = {.label = (char *)label,
		.created_ns = 5,
		.size_bytes = 6,
		.pause_us = 7,
		.hash = "ab"};
	struct sandbox_row now = {0};

	(void)snprintf(row.id, sizeof(row.id), "%s", id);
	int r = catalog_sandbox_get(catalog, box, &now, &test_err);
	memcpy(row.parent, now.checkpoint, sizeof(row.parent));
	memcpy(row.layer, now.layer, sizeof(row.layer));
	sandbox_row_release(&now);
	/* As a supervisor does it: the label, the layer in the pause, then the row. */
	if (r < 0 || (label && (r = catalog_label_check(catalog, box, label, &test_err)) < 0) ||
		(r = catalog_layer_push(catalog, box, new_layer, &test_err)) < 0)
		return r;
	return catalog_checkpoint_add(catalog, box, &row, &test_err);
}

static struct sandbox_row state(void)
{
	struct sandbox_row row;

	if (catalog_sandbox_get(catalog, box, &row, &test_err) < 0)
		test_bail("get");
	struct sandbox_row copy = row;
	sandbox_row_release(&row);
	copy.name = copy.spec = copy.crash = NULL;
	return copy;
}

/* "a<b" for each layer: b stands on a. */
static void layers_are(const char *want, const char *what)
{
	struct layer_rows rows = {0};
	char got[300] = "";
	size_t len = 0;

	if (catalog_layer_list(catalog, box, &rows, &test_err) < 0)
		test_bail("layers");
	for (size_t i = 0; i < rows.len; i++)
		len += (size_t)snprintf(got + len, sizeof(got) - len, "%s%s<%s", i ? " " : "",
			rows.rows[i].parent[0] ? rows.rows[i].parent + 15 : "-",
			rows.rows[i].id + 15);
	layer_rows_release(&rows);
	EQ_STR(got, want, what);
}

static void test_branches(void)
{
	struct checkpoint_rows rows = {0};
	char dropped[CATALOG_ID_SIZE] = "x";

	EQ_INT(checkpoint(C(1), "clean", L(2)), 0, "the first checkpoint");
	EQ_INT(checkpoint(C(2), NULL, L(3)), 0, "a second one on it");
	layers_are("-<1 1<2 2<3", "a chain of layers");
	EQ_STR(state().layer, L(3), "the top is current");
	EQ_STR(state().checkpoint, C(2), "and the newest checkpoint");
	EQ_INT(catalog_sandbox_set_state(catalog, box, SANDBOX_CRASHED, "gone", &test_err), 0,
		"crashed");
	EQ_INT(catalog_rewound(catalog, box, C(1), L(4), dropped, &test_err), 0,
		"rewound to the first");
	EQ_STR(dropped, L(3), "nothing stands on the former top: dropped");
	layers_are("-<1 1<2 1<4", "a branch");
	OK(state().state == SANDBOX_RUNNING, "it runs");
	EQ_INT(checkpoint(C(3), "other", L(5)), 0, "a third checkpoint, on the branch");
	EQ_INT(catalog_checkpoint_list(catalog, box, &rows, &test_err), 0, "listed");
	OK(rows.len == 3 && strcmp(rows.rows[2].id, C(3)) == 0 &&
			strcmp(rows.rows[2].parent, C(1)) == 0 &&
			strcmp(rows.rows[2].layer, L(4)) == 0 && !rows.rows[2].durable &&
			rows.rows[2].size_bytes == 6 && rows.rows[2].pause_us == 7 &&
			strcmp(rows.rows[2].hash, "ab") == 0 && rows.rows[2].created_ns == 5,
		"oldest first, with all members");
	OK(strcmp(rows.rows[1].parent, C(1)) == 0 && !rows.rows[1].label, "the second's parent");
	checkpoint_rows_release(&rows);
	EQ_INT(catalog_rewound(catalog, box, C(2), L(6), dropped, &test_err), 0,
		"to the other branch");
	EQ_STR(dropped, L(5), "the top dropped");
	EQ_INT(catalog_layer_push(catalog, box, L(7), &test_err), 0, "a layer pushed");
	EQ_INT(catalog_rewound(catalog, box, C(3), L(8), dropped, &test_err), 0, "and back");
	EQ_STR(dropped, L(7), "the top dropped, what it stood on stays");
	layers_are("-<1 1<2 1<4 2<6 4<8", "the layers");
	EQ_INT(catalog_layer_delete(catalog, L(6), &test_err), 0, "until it is deleted");
}

static void test_find(void)
{
	struct checkpoint_row row = {0};

	EQ_INT(catalog_checkpoint_find(catalog, box, "clean", &row, &test_err), 0, "by label");
	EQ_STR(row.id, C(1), "its id");
	checkpoint_row_release(&row);
	EQ_INT(catalog_checkpoint_find(catalog, box, C(2), &row, &test_err), 0, "by id");
	EQ_STR(row.layer, L(2), "its layer");
	checkpoint_row_release(&row);
	EQ_INT(catalog_checkpoint_find(catalog, box, NULL, &row, &test_err), 0, "the newest");
	EQ_STR(row.id, C(3), "its id");
	checkpoint_row_release(&row);
	OK(catalog_checkpoint_find(catalog, box, "claen", &row, &test_err) < 0 &&
			test_err.kind == ERR_NOT_FOUND,
		"no such label");
	EQ_STR(test_err.hint, "clean", "the nearest label");
	OK(catalog_checkpoint_find(catalog, other, "clean", &row, &test_err) < 0 &&
			test_err.kind == ERR_NOT_FOUND,
		"another sandbox's label");
	OK(catalog_checkpoint_find(catalog, other, NULL, &row, &test_err) < 0 &&
			test_err.kind == ERR_NOT_FOUND && test_err.hint[0],
		"no checkpoint at all");
	OK(catalog_label_check(catalog, box, "clean", &test_err) < 0 && test_err.kind == ERR_EXISTS,
		"a label that is taken");
	EQ_INT(catalog_label_check(catalog, other, "clean", &test_err), 0, "is free elsewhere");
	OK(catalog_label_check(catalog, box, C(1), &test_err) < 0, "an id is no label");
	layers_are("-<1 1<2 1<4 4<8", "before");
	OK(checkpoint("c0000000000000ff", "clean", "00000000000000ff") < 0 &&
			test_err.kind == ERR_EXISTS,
		"a checkpoint of that label");
	layers_are("-<1 1<2 1<4 4<8", "leaves no layer behind");
	EQ_INT(catalog_checkpoint_set_durable(catalog, C(1), &test_err), 0, "durable");
	OK(catalog_checkpoint_find(catalog, box, "clean", &row, &test_err) == 0 && row.durable,
		"read back");
	checkpoint_row_release(&row);
	OK(catalog_checkpoint_set_durable(catalog, "c0000000000000ff", &test_err) < 0 &&
			test_err.kind == ERR_NOT_FOUND,
		"not one that is missing");
}

static void test_delete(void)
{
	struct checkpoint_row row = {0};
	char dropped[CATALOG_ID_SIZE];

	OK(catalog_layer_delete(catalog, L(1), &test_err) < 0 && test_err.kind == ERR_WRONG_STATE,
		"a layer that others stand on stays");
	OK(catalog_layer_delete(catalog, L(8), &test_err) < 0 && test_err.kind == ERR_WRONG_STATE,
		"the current one too");
	OK(catalog_layer_delete(catalog, L(2), &test_err) < 0 && test_err.kind == ERR_WRONG_STATE,
		"and a checkpoint's");
	OK(catalog_layer_delete(catalog, L(9), &test_err) < 0 && test_err.kind == ERR_NOT_FOUND,
		"and one that is none");
	OK(catalog_checkpoint_delete(catalog, other, C(1), &test_err) < 0 &&
			test_err.kind == ERR_NOT_FOUND,
		"another sandbox's checkpoint is not deleted");
	EQ_INT(catalog_checkpoint_delete(catalog, box, C(1), &test_err), 0, "deleted");
	OK(catalog_checkpoint_find(catalog, box, C(3), &row, &test_err) == 0 && !row.parent[0],
		"its children have its parent");
	checkpoint_row_release(&row);
	OK(catalog_layer_merged(catalog, L(2), &test_err) < 0 && test_err.kind == ERR_WRONG_STATE,
		"a layer with two on it cannot be merged into one");
	EQ_INT(catalog_checkpoint_delete(catalog, box, C(2), &test_err), 0, "the branch deleted");
	EQ_INT(catalog_layer_delete(catalog, L(2), &test_err), 0, "and its layer");
	EQ_INT(catalog_layer_merged(catalog, L(4), &test_err), 0, "now it can");
	layers_are("-<4 4<8", "one layer less");
	OK(catalog_layer_merged(catalog, L(4), &test_err) < 0 && test_err.kind == ERR_WRONG_STATE,
		"nothing below it any more");
	OK(catalog_layer_merged(catalog, L(8), &test_err) < 0 && test_err.kind == ERR_WRONG_STATE,
		"and a checkpoint's layer stays");
	EQ_INT(catalog_checkpoint_delete(catalog, box, C(3), &test_err), 0, "the current one");
	EQ_STR(state().checkpoint, "", "the sandbox descends from none now");
	OK(catalog_rewound(catalog, box, C(3), L(9), dropped, &test_err) < 0 &&
			test_err.kind == ERR_NOT_FOUND,
		"no way back to it");
	EQ_STR(state().layer, L(8), "and nothing changed");
	EQ_INT(catalog_sandbox_delete(catalog, box, &test_err), 0, "the sandbox deleted");
	layers_are("", "with its layers");
}

int main(void)
{
	test_setup();
	test_home(&home, &catalog);
	add("box", L(1), box);
	add("other", NULL, other);
	test_branches();
	test_find();
	test_delete();
	catalog_close(catalog);
	home_release(&home);
	return tap_done();
}
