/* SPDX-License-Identifier: Apache-2.0 */
/* The parts that several messages of the agent wire are made of. */
#ifndef KOSA8_PROTO_AGENT_FIELDS_H
#define KOSA8_PROTO_AGENT_FIELDS_H

#include "../base/buf.h"
#include "../base/cursor.h"

/* A string (buf_put_str) into a fixed array; an over-long one fails the cursor. */
void agent_get_fixed(struct cursor *c, char *ret, size_t size);
void agent_get_raw(struct cursor *c, unsigned char *ret, size_t size);
/* u32 count, then strings; v may be NULL. */
void agent_put_strv(struct buf *b, char *const *v);
/* Owned by the caller; what was read so far when the cursor fails. */
char **agent_get_strv(struct cursor *c);

#endif
