/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A QMP client (QEMU docs/interop/qmp-spec) on one connected stream socket. One call at a time:
 * a call sends a command and reads until its reply; events that come in between are queued.
 *
 * QEMU counts as hostile: a line is at most QMP_LINE_MAX, at most QMP_EVENTS_MAX events wait, every
 * wait has a deadline. After a failure of the connection itself (closed, silent, not QMP) the
 * client is broken for good and every later call fails with the same error; an error reply of QEMU
 * is only that call's failure.
 */
#ifndef KOSA8_VM_QMP_H
#define KOSA8_VM_QMP_H

#include "../base/json.h"

#define QMP_LINE_MAX (1024u * 1024)
#define QMP_EVENTS_MAX 256
#define QMP_FD_NONE (-1)

struct qmp;

/* Takes the socket over, also on failure. Reads the greeting and negotiates. */
int qmp_open(int fd, int64_t timeout_ms, struct qmp **ret, struct err *e) must_check;
void qmp_free(struct qmp *q);
void qmp_freep(struct qmp **q);
#define cleanup_qmp __attribute__((cleanup(qmp_freep)))

int qmp_fd(const struct qmp *q);

/* args (taken over, also on failure; NULL: none) is an object. fd is passed along (SCM_RIGHTS) when
 * it is not QMP_FD_NONE; the caller keeps its own. ret may be NULL, else it gets the reply's
 * "return", owned by the caller. The deadline is timeout_ms of qmp_open(). */
int qmp_call(struct qmp *q, const char *command, json_t *args, int fd, json_t **ret,
	struct err *e) must_check;

/* The next event for which match() is true, taken out of the queue; others stay queued. */
int qmp_wait(struct qmp *q, bool (*match)(const json_t *event, void *ctx), void *ctx,
	int64_t timeout_ms, json_t **ret, struct err *e) must_check;

/* Reads what has arrived, without waiting. */
int qmp_pump(struct qmp *q, struct err *e) must_check;
/* The oldest queued event, owned by the caller, or NULL. */
json_t *qmp_event(struct qmp *q);
/* "event" of an event object, never NULL. */
const char *qmp_event_name(const json_t *event);

#endif
