/* SPDX-License-Identifier: Apache-2.0 */
#include "fs-pool.h"

#include "fuse-message.h"

#include "../base/cursor.h"
#include "../base/log.h"

#include <string.h>

#define PART_MAX (128u * 1024)

int fs_pool_name(struct fs_pool *p, const struct vm *vm, const struct frame *f, struct err *e)
{
	struct fs_pool named = {.len = (uint32_t)(f->len / sizeof(uint64_t))};
	struct cursor c;

	if (p->len > 0 || f->stream != 0 || f->len % sizeof(uint64_t) != 0 || named.len == 0 ||
		named.len > FS_POOL_MAX)
		return err_set(e, ERR_PROTOCOL, 0, "the guest's agent named no pool of slots");
	cursor_init(&c, f->payload, f->len);
	for (uint32_t i = 0; i < named.len; i++) {
		named.at[i] = cursor_u64(&c);
		if (vm_check_ram(vm, named.at[i], FS_SLOT_SIZE) < 0)
			return err_set(e, ERR_PROTOCOL, 0,
				"the guest's agent named a slot outside of its memory");
	}
	*p = named;
	return 0;
}

static bool write_slot(
	const struct fs_pool *p, struct vm *vm, const struct link *l, const struct fs_answer *a)
{
	struct err e;

	if (l->state != LINK_OPEN || a->slot >= p->len)
		return false;
	if (vm_write_ram(vm, p->at[a->slot], a->data, a->data_len, &e) == 0)
		return true;
	log_debug("slot %u: %s", a->slot, e.what);
	return false;
}

static void send_parts(struct link *l, const struct fs_answer *a)
{
	for (size_t at = 0; at < a->data_len; at += PART_MAX) {
		cleanup_buf struct buf b = {0};
		size_t left = a->data_len - at;

		buf_init(&b, 16 + PART_MAX);
		buf_put_u64(&b, a->unique);
		buf_put_u32(&b, (uint32_t)at);
		buf_put(&b, (const char *)a->data + at, left < PART_MAX ? left : PART_MAX);
		link_send(l, AGENT_FUSE_PART, a->mount, b.data, b.len);
	}
}

void fs_pool_answer(
	const struct fs_pool *p, struct vm *vm, struct link *l, const struct fs_answer *a)
{
	unsigned char header[FUSE_ERROR_SIZE];

	if (l->state == LINK_BROKEN)
		return;
	if (!write_slot(p, vm, l, a))
		send_parts(l, a);
	memcpy(header, a->header, sizeof(header));
	link_send(l, AGENT_FUSE_SLOT, a->mount, header, sizeof(header));
}
