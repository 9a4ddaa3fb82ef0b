/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record of a kept container: the file "state" of its folder. u32 CONTAINER_STATE_MAGIC, then
 * struct agent_container as on the wire. Replaced as a whole. It is read when a sandbox starts
 * again on a disk that has been through anything, so it is checked like any outside bytes.
 */
#ifndef KOSA8_GUEST_CONTAINER_STATE_H
#define KOSA8_GUEST_CONTAINER_STATE_H

#include "../proto/agent-session.h"

#define CONTAINER_STATE_FILE "state"
#define CONTAINER_STATE_MAGIC 0x3173386bu /* "k8s1" */
#define CONTAINER_STATE_MAX 4096

void container_state_encode(struct buf *b, const struct agent_container *c);
/* -EPROTO; also when id or name are none. */
int container_state_decode(const void *data, size_t len, struct agent_container *ret) must_check;

int container_state_write(int dirfd, const struct agent_container *c) must_check;
int container_state_read(int dirfd, struct agent_container *ret) must_check;

#endif
