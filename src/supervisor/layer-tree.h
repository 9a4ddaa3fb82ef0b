/* SPDX-License-Identifier: Apache-2.0 */
/* Disk layer chains (vm/layer.h) as the catalog knows them, and the layers nobody needs. */
#ifndef KOSA8_SUPERVISOR_LAYER_TREE_H
#define KOSA8_SUPERVISOR_LAYER_TREE_H

#include "supervisor.h"

#include <stdbool.h>

struct layer_path {
	const char **ids; /* from the bottom to the top; points into rows */
	size_t len;
	struct layer_rows rows;
};
void layer_path_release(struct layer_path *c);
#define cleanup_layer_path __attribute__((cleanup(layer_path_release)))

/* The chain that ends in `top`, with one more id (may be NULL; borrowed) on it. "" as top: none. */
int layer_path_of(struct supervisor *s, const char *top, const char *more, struct layer_path *ret,
	struct err *e) must_check;

/* sandboxes/ID/disk-id: the template's disk that the lowest layers stand on. A template that was
 * made anew may have another one: ERR_INCOMPATIBLE. is_new: there are no layers yet, it is written.
 */
int layer_tree_check_base(
	struct supervisor *s, const struct vm_template *t, bool is_new, struct err *e) must_check;

/* Frees what no checkpoint and no machine needs: at once where nothing stands on a layer; where one
 * layer does, by merging into it. A merge that the running machine has to do is started (one at a
 * time, *ret_merging true): call again after its VM_EVENT_MERGED. */
int layer_tree_collect(struct supervisor *s, bool *ret_merging, struct err *e) must_check;
/* The catalog's part after VM_EVENT_MERGED. */
int layer_tree_merged(struct supervisor *s, struct err *e) must_check;
/* Removes files in layers/ and folders in checkpoints/ that the catalog does not know: what a crash
 * left. Only while no machine runs. */
void layer_tree_sweep(struct supervisor *s);

#endif
