/* SPDX-License-Identifier: Apache-2.0 */
#include "run-copy.h"

#include "boot.h"
#include "copy.h"
#include "run-internal.h"
#include "run-report.h"
#include "run-start.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The paths that a copy_spec points to. */
struct paths {
	char folder[64];
	char image_dir[128];
	char layer[CONTAINER_LAYER_SIZE];
};

/* Whoever asked can attach it, and ask again (proto/agent-files.h). */
static int image_is_there(const struct container_entry *c, const char *dir, struct err *e)
{
	if (access(dir, F_OK) == 0)
		return 0;
	return err_set(e, ERR_WRONG_STATE, AGENT_COPY_NO_IMAGE, "%s", c->is.image);
}

/* One that starts may still have the agent's root: nobody is let into it. */
static int place_in_container(
	const struct container_entry *c, struct copy_spec *s, struct paths *p, struct err *e)
{
	switch ((enum agent_container_state)c->is.state) {
	case AGENT_CONTAINER_STARTING:
	case AGENT_CONTAINER_STATE_COUNT:
		break;
	case AGENT_CONTAINER_RUNNING:
		s->place = COPY_RUNNING;
		s->init = c->init;
		return 0;
	case AGENT_CONTAINER_ENDED:
		s->place = COPY_ENDED;
		(void)snprintf(p->image_dir, sizeof(p->image_dir), PATH_IMAGES "/%s", c->is.image);
		container_layer(c, p->layer);
		s->image_dir = p->image_dir;
		s->disk_dir = p->layer;
		return image_is_there(c, p->image_dir, e);
	}
	return err_set(e, ERR_WRONG_STATE, EBUSY, "container %s has not started yet", c->is.id);
}

static int choose_place(struct runs *rs, const struct agent_copy *m, struct copy_spec *s,
	struct paths *p, struct err *e)
{
	s->folder = p->folder;
	if (m->kind == AGENT_COPY_UPPER) {
		s->place = COPY_UPPER;
		(void)snprintf(p->folder, sizeof(p->folder), PATH_DISK "/cow/%u/upper", m->mount);
		return 0;
	}
	if (*m->container == '\0') {
		s->place = COPY_WORKSPACE;
		(void)snprintf(p->folder, sizeof(p->folder), PATH_DISK "/workspace");
		return 0;
	}
	const struct container_entry *c = containers_find(rs->containers, m->container, e);
	return c ? place_in_container(c, s, p, e) : err_code(e);
}

static int start(struct runs *rs, struct run *r, struct copy_spec *s, struct err *e)
{
	struct run_ends ends;
	int n = run_ends_open(rs, r, &ends, e);

	if (n >= 0) {
		memcpy(s->stdio, ends.stdio, sizeof(s->stdio));
		s->report_fd = ends.report[1];
		n = copy_start(s, e);
	}
	return run_ends_close(rs, r, &ends, n, e);
}

void runs_copy(struct runs *rs, uint32_t stream, const struct agent_copy *m)
{
	struct copy_spec s = {.copy = m, .mounts = rs->mounts, .cgroup_fd = rs->cgroups->copies_fd};
	struct paths paths;
	struct err e;

	if (choose_place(rs, m, &s, &paths, &e) < 0)
		return run_send_failed(rs, stream, &e);
	struct run *r = run_new(rs, RUN_COPY, stream);
	if (!r)
		return;
	r->flags = m->kind == AGENT_COPY_IN ? AGENT_STDIN_OPEN : 0;
	r->state = RUN_STARTING;
	if (start(rs, r, &s, &e) < 0)
		run_fail(rs, r, &e);
}
