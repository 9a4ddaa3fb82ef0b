/* SPDX-License-Identifier: Apache-2.0 */
/* What the guest is asked to mount and unmount. */
#include "mounts-internal.h"

#include "../base/log.h"
#include "../base/text.h"

#include <errno.h>
#include <stdlib.h>

#define GUEST_MS 30000

static void unlink_ask(struct mounts *ms, const struct ask *a)
{
	struct ask **at = &ms->asks;

	while (*at && *at != a)
		at = &(*at)->next;
	if (*at)
		*at = a->next;
}

static void on_guest_reply(void *ctx, const struct agent_reply *reply)
{
	struct ask *a = ctx, copy = *a;
	struct mounts *ms = a->ms;
	struct mount *m;
	char safe[200];
	struct err why;

	if (ms)
		unlink_ask(ms, a);
	free(a);
	if (!ms)
		return;
	if (!reply) {
		(void)err_set(&why, ERR_CANCELLED, 0, "the VM ended");
		mounts_settle(ms, &why);
		return;
	}
	m = mounts_find(ms, copy.id);
	if (reply->status != 0) {
		text_escape(reply->text, safe, sizeof(safe));
		(void)err_set(&why, ERR_IO, (int)(reply->status & 0xfff),
			"the guest cannot %s %.200s: %s", copy.unmount ? "unmount" : "mount",
			m ? m->spec.guest : "a former mount", safe);
		if (!copy.unmount && m)
			m->told = false;
		if (copy.must)
			mounts_note_failure(ms, &why);
		else
			log_warn("%s", why.what);
	}
	mounts_settle_if_complete(ms);
}

static int ask_guest(struct mounts *ms, uint16_t type, uint32_t id, const struct buf *payload,
	bool must, struct err *e)
{
	struct ask *a = malloc(sizeof(*a));

	if (!a || buf_failed(payload)) {
		free(a);
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	}
	*a = (struct ask){ms, id, type == AGENT_UNMOUNT, must, ms->asks};
	ms->asks = a;
	int r = channel_request(machine_channel(ms->machine), type, payload, on_guest_reply, a, e);
	if (r < 0) {
		unlink_ask(ms, a);
		free(a);
	}
	return r;
}

static int ask_mount(struct mounts *ms, struct mount *m, struct err *e)
{
	cleanup_buf struct buf b = {0};
	struct agent_mount message = {m->spec.id, m->spec.mode, m->spec.guest};

	buf_init(&b, 8192);
	agent_mount_encode(&b, &message);
	int r = ask_guest(ms, AGENT_MOUNT, m->spec.id, &b, true, e);
	m->told = r == 0;
	return r;
}

void mounts_tell_guest(struct mounts *ms, const uint32_t *gone, size_t gone_len, bool must,
	mounts_done done, void *ctx)
{
	struct err e;
	int r = 0;

	mounts_begin_wait(ms, WAIT_GUEST, GUEST_MS, done, ctx);
	for (size_t i = 0; r >= 0 && i < gone_len; i++) {
		cleanup_buf struct buf b = {0};
		buf_init(&b, 8);
		buf_put_u32(&b, gone[i]);
		r = ask_guest(ms, AGENT_UNMOUNT, gone[i], &b, must, &e);
	}
	for (struct mount *m = ms->list; r >= 0 && m; m = m->next)
		if (!m->told)
			r = ask_mount(ms, m, &e);
	if (r < 0) {
		mounts_settle(ms, &e);
		return;
	}
	machine_kick(ms->machine);
	mounts_settle_if_complete(ms);
}

void mounts_set_told(struct mounts *ms, uint32_t id)
{
	struct mount *m = mounts_find(ms, id);

	if (m)
		m->told = true;
}
