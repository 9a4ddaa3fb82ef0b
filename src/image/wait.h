/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for what another worker is at: as long as it gets on. Nothing of ours that somebody else
 * may wait for is held meanwhile, but for the claim of a smaller name's image. */
#ifndef KOSA8_IMAGE_WAIT_H
#define KOSA8_IMAGE_WAIT_H

#include "../base/err.h"

#include <stdint.h>

/* Another worker that brings less than this in this time is not waited for any longer: its registry
 * may be slower than ours, or hostile. */
#define WAIT_MS 60000
#define WAIT_BYTES_MIN (1024u * 1024)

struct wait {
	uint64_t (*seen)(const struct wait *w); /* bytes that the other has brought so far */
};

/* Takes the lock (base/file.h) of a file that is open for writing: 0, -ETIMEDOUT or a negative
 * errno. w NULL: without a limit. KOSA8_PULL_WAIT_MS sets another WAIT_MS. */
int wait_lock(int fd, const struct wait *w) must_check;

#endif
