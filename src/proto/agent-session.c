/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-session.h"

#include "../base/strv.h"
#include "agent-fields.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SHORT_MAX 4096

void agent_ref_encode(struct buf *b, const struct agent_ref *m)
{
	buf_put_str(b, m->container);
}

int agent_ref_decode(struct cursor *c, struct agent_ref *ret)
{
	struct agent_ref m = {0};

	agent_get_fixed(c, m.container, sizeof(m.container));
	if (!cursor_done(c))
		return -EPROTO;
	*ret = m;
	return 0;
}

static void put_size(struct buf *b, const struct agent_size *m)
{
	buf_put_u16(b, m->rows);
	buf_put_u16(b, m->columns);
}

static struct agent_size get_size(struct cursor *c)
{
	struct agent_size m = {.rows = cursor_u16(c)};

	m.columns = cursor_u16(c);
	return m;
}

void agent_size_encode(struct buf *b, const struct agent_size *m)
{
	put_size(b, m);
}

int agent_size_decode(struct cursor *c, struct agent_size *ret)
{
	struct agent_size m = get_size(c);

	if (!cursor_done(c))
		return -EPROTO;
	*ret = m;
	return 0;
}

void agent_exec_release(struct agent_exec *x)
{
	free(x->user);
	free(x->cwd);
	strv_free(x->argv);
	strv_free(x->env);
	*x = (struct agent_exec){0};
}

void agent_exec_encode(struct buf *b, const struct agent_exec *m)
{
	buf_put_u32(b, m->flags);
	buf_put_u64(b, m->timeout_ms);
	buf_put_u64(b, m->wall_ns);
	put_size(b, &m->size);
	buf_put_str(b, m->container);
	buf_put_str(b, m->user ? m->user : "");
	buf_put_str(b, m->cwd ? m->cwd : "");
	agent_put_strv(b, m->argv);
	agent_put_strv(b, m->env);
}

int agent_exec_decode(struct cursor *c, struct agent_exec *ret)
{
	struct agent_exec m = {.flags = cursor_u32(c)};

	m.timeout_ms = cursor_u64(c);
	m.wall_ns = cursor_u64(c);
	m.size = get_size(c);
	agent_get_fixed(c, m.container, sizeof(m.container));
	m.user = cursor_strdup(c, SHORT_MAX);
	m.cwd = cursor_strdup(c, SHORT_MAX);
	m.argv = agent_get_strv(c);
	m.env = agent_get_strv(c);
	if (!cursor_done(c) || !m.argv[0]) {
		agent_exec_release(&m);
		return -EPROTO;
	}
	*ret = m;
	return 0;
}

void agent_attach_encode(struct buf *b, const struct agent_attach *m)
{
	buf_put_u32(b, m->flags);
	put_size(b, &m->size);
	buf_put_str(b, m->container);
}

int agent_attach_decode(struct cursor *c, struct agent_attach *ret)
{
	struct agent_attach m = {.flags = cursor_u32(c)};

	m.size = get_size(c);
	agent_get_fixed(c, m.container, sizeof(m.container));
	if (!cursor_done(c))
		return -EPROTO;
	*ret = m;
	return 0;
}

void agent_logs_encode(struct buf *b, const struct agent_logs *m)
{
	buf_put_u32(b, m->follow);
	buf_put_u64(b, m->since_ns);
	buf_put_str(b, m->container);
}

int agent_logs_decode(struct cursor *c, struct agent_logs *ret)
{
	struct agent_logs m = {.follow = cursor_u32(c)};

	m.since_ns = cursor_u64(c);
	agent_get_fixed(c, m.container, sizeof(m.container));
	if (!cursor_done(c) || m.follow > 1)
		return -EPROTO;
	*ret = m;
	return 0;
}

void agent_signal_encode(struct buf *b, const struct agent_signal *m)
{
	buf_put_u32(b, m->signal);
	buf_put_str(b, m->container);
}

int agent_signal_decode(struct cursor *c, struct agent_signal *ret)
{
	struct agent_signal m = {.signal = cursor_u32(c)};

	agent_get_fixed(c, m.container, sizeof(m.container));
	if (!cursor_done(c) || m.signal < 1 || m.signal > 64)
		return -EPROTO;
	*ret = m;
	return 0;
}

void agent_remove_encode(struct buf *b, const struct agent_remove *m)
{
	buf_put_u32(b, m->force);
	buf_put_str(b, m->container);
}

int agent_remove_decode(struct cursor *c, struct agent_remove *ret)
{
	struct agent_remove m = {.force = cursor_u32(c)};

	agent_get_fixed(c, m.container, sizeof(m.container));
	if (!cursor_done(c) || m.force > 1)
		return -EPROTO;
	*ret = m;
	return 0;
}

void agent_container_encode(struct buf *b, const struct agent_container *m)
{
	buf_put_u32(b, m->state);
	buf_put_u32(b, m->flags);
	buf_put_u32(b, m->attached);
	buf_put_u32(b, m->exit.how);
	buf_put_u32(b, m->exit.code);
	buf_put_u32(b, m->exit.oom);
	buf_put_u64(b, m->created_ns);
	buf_put_u64(b, m->ended_ns);
	buf_put_u32(b, m->processes);
	buf_put_u64(b, m->memory_bytes);
	buf_put_str(b, m->id);
	buf_put_str(b, m->name);
	buf_put_str(b, m->image);
	buf_put_str(b, m->image_name);
	buf_put_str(b, m->command);
}

int agent_container_decode(struct cursor *c, struct agent_container *ret)
{
	struct agent_container m = {.state = cursor_u32(c)};

	m.flags = cursor_u32(c);
	m.attached = cursor_u32(c);
	m.exit.how = cursor_u32(c);
	m.exit.code = cursor_u32(c);
	m.exit.oom = cursor_u32(c);
	m.created_ns = cursor_u64(c);
	m.ended_ns = cursor_u64(c);
	m.processes = cursor_u32(c);
	m.memory_bytes = cursor_u64(c);
	agent_get_fixed(c, m.id, sizeof(m.id));
	agent_get_fixed(c, m.name, sizeof(m.name));
	agent_get_fixed(c, m.image, sizeof(m.image));
	agent_get_fixed(c, m.image_name, sizeof(m.image_name));
	agent_get_fixed(c, m.command, sizeof(m.command));
	if (!cursor_done(c) || m.state >= AGENT_CONTAINER_STATE_COUNT || m.attached > 1 ||
		m.exit.how >= AGENT_END_COUNT || m.exit.code > 255 || m.exit.oom > 1)
		return -EPROTO;
	*ret = m;
	return 0;
}
