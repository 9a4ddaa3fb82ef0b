/* SPDX-License-Identifier: Apache-2.0 */
/* The layers of one image on their way here. */
#ifndef KOSA8_IMAGE_LAYER_SET_H
#define KOSA8_IMAGE_LAYER_SET_H

#include "blob.h"

struct layer_set {
	struct blob *items; /* one for each digest, however often it stands in the manifest */
	size_t len;
};

int layer_set_init(struct layer_set *s, const struct manifest *m, const struct images *i,
	struct err *e) must_check;
void layer_set_release(struct layer_set *s);
#define cleanup_layer_set __attribute__((cleanup(layer_set_release)))

/* Looks for those that are not HERE; true in *ret_all_here when nothing needs to be fetched. */
int layer_set_look(struct layer_set *s, bool *ret_all_here, struct err *e) must_check;
/* Tells of each, once, whether it is HERE or waits. */
void layer_set_tell(struct layer_set *s);
/* Bytes that are still to come. */
uint64_t layer_set_missing(const struct layer_set *s);
/* One that another worker is at: NULL when there is none. */
struct blob *layer_set_busy(const struct layer_set *s);
/* The readers in the manifest's order, borrowed. All are HERE. */
void layer_set_readers(
	const struct layer_set *s, const struct manifest *m, int ret[static MANIFEST_LAYERS_MAX]);
/* Whether some that were not fetched by this pull were damaged; they are ABSENT now. */
bool layer_set_drop_damaged(struct layer_set *s);

#endif
