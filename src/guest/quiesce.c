/* SPDX-License-Identifier: Apache-2.0 */
#include "quiesce.h"

#include "../base/clock.h"
#include "../base/log.h"

#include <string.h>

int quiesce_init(struct quiesce *q, struct cgroups *cgroups, struct loop *loop, struct err *e)
{
	*q = (struct quiesce){.events.fd = -1, .cgroups = cgroups};
	int fd = cgroup_events_open(cgroups, e);

	return fd < 0 ? fd : loop_watch(loop, &q->events, fd, WATCH_PRIORITY, e);
}

void quiesce_begin(struct quiesce *q, uint32_t number)
{
	if (q->state != QUIESCE_RUNNING || number <= q->last_resumed)
		return;
	int r = cgroup_freeze(q->cgroups, true);
	if (r < 0)
		log_warn("freeze the runs: %s", strerror(-r));
	q->state = QUIESCE_FREEZING;
	q->number = number;
	q->deadline_ms = clock_mono_ms() + QUIESCE_FREEZE_MS;
	q->events.priority = true;
}

int quiesce_step(struct quiesce *q, struct mux *m)
{
	if (q->state != QUIESCE_FREEZING || !mux_flushed(m))
		return 0;
	if (clock_left_ms(q->deadline_ms) > 0) {
		if (!q->events.priority)
			return 0;
		q->events.priority = false;
		if (!cgroup_is_frozen(q->events.fd))
			return 0;
	}
	cleanup_buf struct buf b = {0};
	buf_init(&b, 16);
	buf_put_u32(&b, q->number);
	mux_send_buf(m, AGENT_QUIESCED, 0, &b);
	q->state = QUIESCE_STILL;
	return 1;
}

void quiesce_resume(struct quiesce *q, uint32_t number, bool new_epoch)
{
	bool ends = q->state != QUIESCE_RUNNING && (new_epoch || number >= q->number);

	if (new_epoch || number > q->last_resumed)
		q->last_resumed = number;
	if (!ends)
		return;
	q->state = QUIESCE_RUNNING;
	int r = cgroup_freeze(q->cgroups, false);
	if (r < 0)
		log_warn("thaw the runs: %s", strerror(-r));
}
