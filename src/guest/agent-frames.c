/* SPDX-License-Identifier: Apache-2.0 */
/* What each frame of the mux asks for. */
#include "agent.h"

#include "../base/log.h"
#include "../base/text.h"
#include "container-requests.h"
#include "run-copy.h"
#include "run-client.h"
#include "run-start.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A RUN's clock corrects the guest's when it is off by more. */
#define CLOCK_TOLERANCE_NS 500000000u

static void reply(struct agent *a, uint32_t stream, int status, const char *text)
{
	struct agent_reply m = {.status = (uint32_t)(status < 0 ? -status : status)};

	(void)snprintf(m.text, sizeof(m.text), "%.*s", AGENT_TEXT_MAX - 1, text);
	mux_reply(&a->mux, AGENT_REPLY, stream, &m);
}

/* Once with the disk; again only for another name, as a fork is given. */
static void on_configure(struct agent *a, const struct frame *f)
{
	struct agent_configure m;
	struct cursor c;
	struct err e;

	cursor_init(&c, f->payload, f->len);
	if (agent_configure_decode(&c, &m) < 0)
		return reply(a, f->stream, -EPROTO, "malformed CONFIGURE");
	if (!a->configured) {
		int r = disk_mount(&a->disk, &e);
		if (r < 0)
			return reply(a, f->stream, r, e.what);
		containers_load(&a->containers);
	}
	(void)snprintf(a->runs.hostname, sizeof(a->runs.hostname), "%s", m.hostname);
	text_hex(m.machine_id, sizeof(m.machine_id), a->runs.machine_id);
	if (sethostname(m.hostname, strlen(m.hostname)) < 0)
		log_warn("hostname: %s", strerror(errno));
	a->configured = true;
	reply(a, f->stream, 0, "");
}

static void on_attach_image(struct agent *a, const struct frame *f)
{
	struct agent_image m;
	struct cursor c;

	cursor_init(&c, f->payload, f->len);
	if (agent_image_decode(&c, &m) < 0)
		return reply(a, f->stream, -EPROTO, "malformed ATTACH_IMAGE");
	int r = image_request(&a->images, f->stream, &m);
	if (r == -EAGAIN)
		reply(a, f->stream, r, "too many images are being attached");
	else if (r < 0)
		reply(a, f->stream, r, "not an image digest");
}

static void refuse(struct agent *a, uint32_t stream, int errnum, const char *text)
{
	struct agent_reply m = {.status = (uint32_t)errnum, .fail = AGENT_FAIL_SETUP};

	(void)snprintf(m.text, sizeof(m.text), "%s", text);
	mux_reply(&a->mux, AGENT_RUN_FAILED, stream, &m);
}

/* What may not be now, for all requests that start something. */
static bool is_refused(struct agent *a, uint32_t stream)
{
	if (a->stop.state != STOP_NONE)
		refuse(a, stream, ESHUTDOWN, "the sandbox is shutting down");
	else if (!a->configured)
		refuse(a, stream, ENXIO, "the sandbox is not configured yet");
	else
		return false;
	return true;
}

static void on_run(struct agent *a, const struct frame *f)
{
	struct agent_run m;
	struct cursor c;

	cursor_init(&c, f->payload, f->len);
	if (agent_run_decode(&c, &m) < 0)
		return refuse(a, f->stream, EPROTO, "malformed RUN");
	resume_set_clock(m.wall_ns, CLOCK_TOLERANCE_NS);
	if (!image_is_mounted(&a->images, m.image))
		refuse(a, f->stream, ENOENT, "the image is not attached");
	else
		runs_start(&a->runs, f->stream, &m);
	agent_run_release(&m);
}

static void on_exec(struct agent *a, const struct frame *f)
{
	struct agent_exec m;
	struct cursor c;

	cursor_init(&c, f->payload, f->len);
	if (agent_exec_decode(&c, &m) < 0)
		return refuse(a, f->stream, EPROTO, "malformed EXEC");
	resume_set_clock(m.wall_ns, CLOCK_TOLERANCE_NS);
	runs_exec(&a->runs, f->stream, &m);
	agent_exec_release(&m);
}

static void on_attach(struct agent *a, const struct frame *f)
{
	struct agent_attach m;
	struct cursor c;

	cursor_init(&c, f->payload, f->len);
	if (agent_attach_decode(&c, &m) < 0)
		return refuse(a, f->stream, EPROTO, "malformed ATTACH");
	runs_attach(&a->runs, f->stream, &m);
}

static void on_copy(struct agent *a, const struct frame *f)
{
	struct agent_copy m;
	struct cursor c;

	cursor_init(&c, f->payload, f->len);
	if (agent_copy_decode(&c, &m) < 0)
		return refuse(a, f->stream, EPROTO, "malformed COPY");
	runs_copy(&a->runs, f->stream, &m);
	agent_copy_release(&m);
}

/* Opens a session. */
static void on_session(struct agent *a, const struct frame *f)
{
	if (runs_find(&a->runs, f->stream) || sessions_find(&a->sessions, f->stream)) {
		log_warn("a second session on stream %u was ignored", f->stream);
		return;
	}
	if (is_refused(a, f->stream))
		return;
	if (f->type == AGENT_RUN)
		on_run(a, f);
	else if (f->type == AGENT_EXEC)
		on_exec(a, f);
	else if (f->type == AGENT_ATTACH)
		on_attach(a, f);
	else if (f->type == AGENT_COPY)
		on_copy(a, f);
	else
		sessions_start(&a->sessions, f);
}

static void on_quiesce(struct agent *a, const struct frame *f)
{
	struct cursor c;

	cursor_init(&c, f->payload, f->len);
	uint32_t number = cursor_u32(&c);
	if (cursor_done(&c))
		quiesce_begin(&a->quiesce, number);
}

static void on_shutdown(struct agent *a, const struct frame *f)
{
	if (a->stop.state != STOP_NONE)
		return reply(a, f->stream, -EALREADY, "the sandbox is shutting down");
	stop_begin(&a->stop, f->stream, &a->runs);
}

void agent_frame(struct agent *a, const struct frame *f)
{
	switch (f->type) {
	case AGENT_CONFIGURE:
		return on_configure(a, f);
	case AGENT_ATTACH_IMAGE:
		return on_attach_image(a, f);
	case AGENT_RUN:
	case AGENT_EXEC:
	case AGENT_ATTACH:
	case AGENT_LOGS:
	case AGENT_WAIT:
	case AGENT_LIST:
	case AGENT_COPY:
		return on_session(a, f);
	case AGENT_SIGNAL_CONTAINER:
		return container_signal(&a->runs, f);
	case AGENT_REMOVE:
		return container_remove(&a->runs, f);
	case AGENT_QUIESCE:
		return on_quiesce(a, f);
	case AGENT_SHUTDOWN:
		return on_shutdown(a, f);
	case AGENT_SIGNAL:
	case AGENT_KILL:
	case AGENT_STDIN:
	case AGENT_STDIN_EOF:
	case AGENT_WINDOW:
	case AGENT_DETACH:
	case AGENT_RESIZE:
		if (!runs_frame(&a->runs, f))
			(void)sessions_frame(&a->sessions, f);
		return;
	case AGENT_PING:
		return reply(a, f->stream, 0, "");
	default:
		log_warn("a frame of unknown type %u was ignored", f->type);
	}
}
