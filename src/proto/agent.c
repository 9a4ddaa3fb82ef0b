/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"

#include "agent-fields.h"

#include "../base/strv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RESUME_MAGIC 0x6b386570u
#define SHORT_MAX 4096

void agent_run_release(struct agent_run *r)
{
	free(r->id);
	free(r->name);
	free(r->image);
	free(r->image_name);
	free(r->hostname);
	free(r->user);
	free(r->cwd);
	strv_free(r->argv);
	strv_free(r->env);
	*r = (struct agent_run){0};
}

void agent_resume_encode(const struct agent_resume *r, unsigned char ret[static AGENT_RESUME_SIZE])
{
	cleanup_buf struct buf b = {0};

	buf_init(&b, AGENT_RESUME_SIZE);
	buf_put_u32(&b, RESUME_MAGIC);
	buf_put_u32(&b, AGENT_PROTOCOL_VERSION);
	buf_put_u32(&b, r->epoch);
	buf_put_u32(&b, r->quiesce);
	buf_put_u64(&b, r->wall_ns);
	buf_put(&b, r->nonce, sizeof(r->nonce));
	buf_put(&b, r->entropy, sizeof(r->entropy));
	memset(ret, 0, AGENT_RESUME_SIZE);
	if (!buf_failed(&b))
		memcpy(ret, b.data, b.len);
}

int agent_resume_decode(const unsigned char *data, struct agent_resume *ret)
{
	struct agent_resume r = {0};
	struct cursor c;

	cursor_init(&c, data, AGENT_RESUME_SIZE);
	if (cursor_u32(&c) != RESUME_MAGIC || cursor_u32(&c) != AGENT_PROTOCOL_VERSION)
		return -EPROTO;
	r.epoch = cursor_u32(&c);
	r.quiesce = cursor_u32(&c);
	r.wall_ns = cursor_u64(&c);
	agent_get_raw(&c, r.nonce, sizeof(r.nonce));
	agent_get_raw(&c, r.entropy, sizeof(r.entropy));
	if (c.failed)
		return -EPROTO;
	*ret = r;
	return 0;
}

void agent_hello_encode(struct buf *b, const struct agent_hello *m)
{
	buf_put_u32(b, m->version);
	buf_put_str(b, m->kernel);
}

int agent_hello_decode(struct cursor *c, struct agent_hello *ret)
{
	struct agent_hello m = {.version = cursor_u32(c)};

	agent_get_fixed(c, m.kernel, sizeof(m.kernel));
	if (!cursor_done(c))
		return -EPROTO;
	*ret = m;
	return 0;
}

void agent_configure_encode(struct buf *b, const struct agent_configure *m)
{
	buf_put_str(b, m->hostname);
	buf_put(b, m->machine_id, sizeof(m->machine_id));
}

int agent_configure_decode(struct cursor *c, struct agent_configure *ret)
{
	struct agent_configure m = {0};

	agent_get_fixed(c, m.hostname, sizeof(m.hostname));
	agent_get_raw(c, m.machine_id, sizeof(m.machine_id));
	if (!cursor_done(c))
		return -EPROTO;
	*ret = m;
	return 0;
}

void agent_image_encode(struct buf *b, const struct agent_image *m)
{
	buf_put_u32(b, m->lun);
	buf_put_str(b, m->digest);
}

int agent_image_decode(struct cursor *c, struct agent_image *ret)
{
	struct agent_image m = {.lun = cursor_u32(c)};

	agent_get_fixed(c, m.digest, sizeof(m.digest));
	if (!cursor_done(c))
		return -EPROTO;
	*ret = m;
	return 0;
}

void agent_reply_encode(struct buf *b, const struct agent_reply *m)
{
	buf_put_u32(b, m->status);
	buf_put_u32(b, m->fail);
	buf_put_str(b, m->text);
}

int agent_reply_decode(struct cursor *c, struct agent_reply *ret)
{
	struct agent_reply m = {.status = cursor_u32(c)};

	m.fail = cursor_u32(c);
	agent_get_fixed(c, m.text, sizeof(m.text));
	if (!cursor_done(c) || m.fail > AGENT_FAIL_SETUP)
		return -EPROTO;
	*ret = m;
	return 0;
}

void agent_run_encode(struct buf *b, const struct agent_run *m)
{
	buf_put_u32(b, m->flags);
	buf_put_u64(b, m->timeout_ms);
	buf_put_u64(b, m->wall_ns);
	buf_put_u64(b, m->memory_bytes);
	buf_put_u32(b, m->pids);
	buf_put_u32(b, m->cpu_milli);
	buf_put_u16(b, m->size.rows);
	buf_put_u16(b, m->size.columns);
	buf_put_str(b, m->id);
	buf_put_str(b, m->name ? m->name : "");
	buf_put_str(b, m->image);
	buf_put_str(b, m->image_name ? m->image_name : "");
	buf_put_str(b, m->hostname);
	buf_put_str(b, m->user);
	buf_put_str(b, m->cwd);
	agent_put_strv(b, m->argv);
	agent_put_strv(b, m->env);
}

int agent_run_decode(struct cursor *c, struct agent_run *ret)
{
	struct agent_run m = {.flags = cursor_u32(c)};

	m.timeout_ms = cursor_u64(c);
	m.wall_ns = cursor_u64(c);
	m.memory_bytes = cursor_u64(c);
	m.pids = cursor_u32(c);
	m.cpu_milli = cursor_u32(c);
	m.size.rows = cursor_u16(c);
	m.size.columns = cursor_u16(c);
	m.id = cursor_strdup(c, SHORT_MAX);
	m.name = cursor_strdup(c, AGENT_NAME_SIZE - 1);
	m.image = cursor_strdup(c, SHORT_MAX);
	m.image_name = cursor_strdup(c, SHORT_MAX);
	m.hostname = cursor_strdup(c, SHORT_MAX);
	m.user = cursor_strdup(c, SHORT_MAX);
	m.cwd = cursor_strdup(c, SHORT_MAX);
	m.argv = agent_get_strv(c);
	m.env = agent_get_strv(c);
	if (!cursor_done(c) || !m.argv[0]) {
		agent_run_release(&m);
		return -EPROTO;
	}
	*ret = m;
	return 0;
}

void agent_exit_encode(struct buf *b, const struct agent_exit *m)
{
	buf_put_u32(b, m->how);
	buf_put_u32(b, m->code);
	buf_put_u32(b, m->oom);
}

int agent_exit_decode(struct cursor *c, struct agent_exit *ret)
{
	struct agent_exit m = {.how = cursor_u32(c)};

	m.code = cursor_u32(c);
	m.oom = cursor_u32(c);
	if (!cursor_done(c) || m.how >= AGENT_END_COUNT || m.code > 255 || m.oom > 1)
		return -EPROTO;
	*ret = m;
	return 0;
}

void agent_window_encode(struct buf *b, const struct agent_window *m)
{
	buf_put_u32(b, m->which);
	buf_put_u32(b, m->bytes);
}

int agent_window_decode(struct cursor *c, struct agent_window *ret)
{
	struct agent_window m = {.which = cursor_u32(c)};

	m.bytes = cursor_u32(c);
	if (!cursor_done(c) || m.which > AGENT_WHICH_STDERR)
		return -EPROTO;
	*ret = m;
	return 0;
}
