/* SPDX-License-Identifier: Apache-2.0 */
/* An image's documents out of the store, checked as when it came. */
#ifndef KOSA8_IMAGE_STORED_H
#define KOSA8_IMAGE_STORED_H

#include "images.h"
#include "manifest.h"

#include "../base/buf.h"

struct stored {
	char digest[REFERENCE_DIGEST_SIZE];
	struct manifest manifest;
	struct buf manifest_bytes, config_bytes;
};
void stored_release(struct stored *s);
#define cleanup_stored __attribute__((cleanup(stored_release)))

/* ERR_INVALID: no digest. ERR_NOT_FOUND, ERR_CORRUPT: the blob that is missing or damaged. */
int stored_read(
	const struct images *i, const char *digest, struct stored *ret, struct err *e) must_check;

#endif
