/* SPDX-License-Identifier: Apache-2.0 */
#include "container-state.h"

#include "../base/file.h"
#include "containers.h"

#include <errno.h>

void container_state_encode(struct buf *b, const struct agent_container *c)
{
	buf_put_u32(b, CONTAINER_STATE_MAGIC);
	agent_container_encode(b, c);
}

int container_state_decode(const void *data, size_t len, struct agent_container *ret)
{
	struct agent_container m;
	struct cursor c;

	cursor_init(&c, data, len);
	if (cursor_u32(&c) != CONTAINER_STATE_MAGIC || agent_container_decode(&c, &m) < 0 ||
		!container_id_is_valid(m.id) || !container_name_is_valid(m.name))
		return -EPROTO;
	*ret = m;
	return 0;
}

int container_state_write(int dirfd, const struct agent_container *c)
{
	cleanup_buf struct buf b = {0};

	buf_init(&b, CONTAINER_STATE_MAX);
	container_state_encode(&b, c);
	if (buf_failed(&b))
		return -ENOMEM;
	/* Not durable yet: the keeper sees to that, the agent does not wait for the disk. */
	return file_write_atomic(dirfd, CONTAINER_STATE_FILE, b.data, b.len, 0600, false);
}

int container_state_read(int dirfd, struct agent_container *ret)
{
	cleanup_buf struct buf b = {0};

	buf_init(&b, CONTAINER_STATE_MAX);
	int r = file_read(dirfd, CONTAINER_STATE_FILE, &b);
	return r < 0 ? r : container_state_decode(b.data, b.len, ret);
}
