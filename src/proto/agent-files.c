/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-files.h"

#include "agent-fields.h"

#include <errno.h>
#include <stdlib.h>

#define SHORT_MAX 4096

void agent_copy_release(struct agent_copy *m)
{
	free(m->path);
	free(m->name);
	*m = (struct agent_copy){0};
}

void agent_copy_encode(struct buf *b, const struct agent_copy *m)
{
	buf_put_u32(b, m->kind);
	buf_put_u32(b, m->contents);
	buf_put_u32(b, m->mount);
	buf_put_str(b, m->container);
	buf_put_str(b, m->path ? m->path : "");
	buf_put_str(b, m->name ? m->name : "");
}

int agent_copy_decode(struct cursor *c, struct agent_copy *ret)
{
	struct agent_copy m = {.kind = cursor_u32(c)};

	m.contents = cursor_u32(c);
	m.mount = cursor_u32(c);
	agent_get_fixed(c, m.container, sizeof(m.container));
	m.path = cursor_strdup(c, SHORT_MAX);
	m.name = cursor_strdup(c, SHORT_MAX);
	if (!cursor_done(c) || m.kind >= AGENT_COPY_KIND_COUNT || m.contents > 1) {
		agent_copy_release(&m);
		return -EPROTO;
	}
	*ret = m;
	return 0;
}

void agent_mount_release(struct agent_mount *m)
{
	free(m->path);
	*m = (struct agent_mount){0};
}

void agent_mount_encode(struct buf *b, const struct agent_mount *m)
{
	buf_put_u32(b, m->id);
	buf_put_u32(b, m->mode);
	buf_put_str(b, m->path);
}

int agent_mount_decode(struct cursor *c, struct agent_mount *ret)
{
	struct agent_mount m = {.id = cursor_u32(c)};

	m.mode = cursor_u32(c);
	m.path = cursor_strdup(c, SHORT_MAX);
	if (!cursor_done(c) || m.mode >= AGENT_MOUNT_MODE_COUNT) {
		agent_mount_release(&m);
		return -EPROTO;
	}
	*ret = m;
	return 0;
}
