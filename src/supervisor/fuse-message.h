/* SPDX-License-Identifier: Apache-2.0 */
/* What the relay of FUSE messages looks at: their headers (linux/fuse.h; numbers are in the byte
 * order of the host, which is the guest's). */
#ifndef KOSA8_SUPERVISOR_FUSE_MESSAGE_H
#define KOSA8_SUPERVISOR_FUSE_MESSAGE_H

#include "../base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FUSE_ERROR_SIZE 16

/* -EPROTO when it is none. ret_answered: whether FUSE answers requests of this kind. */
int fuse_request_parse(
	const void *data, size_t len, uint64_t *ret_unique, bool *ret_answered) must_check;
/* unique 0: a notification. */
int fuse_reply_parse(const void *data, size_t len, uint64_t *ret_unique) must_check;
/* The header of an answer whose data_len bytes are in a slot. */
int fuse_slot_reply_parse(
	const void *data, size_t len, uint64_t *ret_unique, size_t *ret_data_len) must_check;
/* The slot that a request asks to be answered in, which stands at its end. */
int fuse_slot_request_parse(const void *data, size_t len, uint32_t *ret_slot) must_check;
/* The answer "this failed" with a positive errno. */
void fuse_error_encode(uint64_t unique, int errnum, unsigned char ret[static FUSE_ERROR_SIZE]);

#endif
