/* SPDX-License-Identifier: Apache-2.0 */
/* The containers of a sandbox, as its supervisor lists them; all text in it is the guest's. */
#ifndef KOSA8_CLI_CONTAINERS_H
#define KOSA8_CLI_CONTAINERS_H

#include "context.h"

#include "../base/buf.h"
#include "../proto/agent-session.h"

struct container {
	const char *id, *name, *image, *image_name, *command; /* "": none */
	enum agent_container_state state;
	enum agent_end how; /* ENDED */
	uint64_t code;
	bool oom;
	int64_t created_ns, ended_ns; /* 0: not yet */
	uint64_t processes, memory_bytes;
	bool kept, tty, stdin_open, attached;
};

/* Asks. *ret_result is dropped by the caller; the containers point into it. */
int containers_list(const struct context *c, const struct sandbox *s, json_t **ret_result,
	struct err *e) must_check;
/* How many a result of `ps` has. */
size_t containers_count(const json_t *result);
/* The i-th; ERR_PROTOCOL for what is none. */
int container_decode(
	const json_t *result, size_t i, struct container *ret, struct err *e) must_check;
/* By id, name, or the beginning of one id, as the agent looks it up. 1: found, 0: not (or several).
 */
int container_find(
	const json_t *result, const char *ref, struct container *ret, struct err *e) must_check;

/* All members, with times as RFC 3339. NULL: out of memory. */
json_t *container_json(const struct container *c);
/* "Up 3 minutes", "Exited (0) 2 hours ago", ... */
void container_status(const struct container *c, int64_t now_ns, struct buf *b);
/* A time span in docker's words: "3 minutes", "About an hour"; negative counts as none. */
void container_age(int64_t ns, struct buf *b);

#endif
