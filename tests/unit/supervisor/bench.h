/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A supervisor whose machine is a socketpair: the test plays the agent at its other end, and
 * clients on socketpairs of their own. Catalog and audit log are real. No QEMU, no threads:
 * bench_step() lets everything happen that can.
 */
#ifndef KOSA8_TESTS_SUPERVISOR_BENCH_H
#define KOSA8_TESTS_SUPERVISOR_BENCH_H

#include "proto/client.h"
#include "supervisor/session.h"

#define BENCH_IMAGE "sha256:1111111111111111111111111111111111111111111111111111111111111111"
#define BENCH_BOX "box"

/* A frame that was received; type 0: none came. */
struct got {
	uint16_t type;
	uint32_t stream;
	size_t len;
	unsigned char data[70000];
};

struct peer {
	int fd;
	struct buf in;
	bool closed;
	struct got got;
};

extern struct supervisor bench;
extern struct peer agent;
extern bool bench_broken;
/* An attach of an image is answered by bench_attached(), instead of at once. */
extern bool bench_defer_attach;
void bench_attached(const struct err *why);

void bench_open(void);
void bench_close(void);
void bench_step(void);

/* A client with its request; members (taken) are added to op and actor. */
void client_open(struct peer *p, const char *op, json_t *members);
void client_close(struct peer *p);
void client_say(struct peer *p, uint16_t type, const void *data, size_t len);
void client_grant(struct peer *p, uint32_t which, uint32_t bytes);
/* The next frame that came; after bench_step(). */
const struct got *next_frame(struct peer *p);
/* The next frame is a RESULT: its object, owned by the caller; NULL when it is not. */
json_t *client_result(struct peer *p);
/* The "kind" of its error, "ok", or "none". Static. */
const char *client_outcome(struct peer *p);

/* The agent's next frame is of this type: its stream, else 0. Its payload is in agent.got. */
uint32_t agent_hears(uint16_t type);
void agent_says(uint16_t type, uint32_t stream, const void *data, size_t len);
void agent_exits(uint32_t stream, uint32_t how, uint32_t code);
void agent_refuses(
	uint16_t type, uint32_t stream, uint32_t status, uint32_t fail, const char *text);
void agent_grants(uint32_t stream, uint32_t bytes);
void agent_tells(uint16_t type, uint32_t stream, const char *id, const char *name);

/* The last record of the audit log with this action; owned by the caller. */
json_t *last_record(const char *action);
size_t count_records(const char *action);
size_t ops_count(void);

#endif
