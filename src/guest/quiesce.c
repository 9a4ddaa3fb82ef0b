/* SPDX-License-Identifier: Apache-2.0 */
#include "quiesce.h"

#include "../base/clock.h"
#include "../base/log.h"

#include <string.h>

int quiesce_init(struct quiesce *q, struct cgroups *cgroups, struct relay *relay, struct loop *loop,
	struct err *e)
{
	*q = (struct quiesce){.events.fd = -1, .cgroups = cgroups, .relay = relay};
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

void quiesce_relay_still(struct quiesce *q, uint32_t number)
{
	if (number == q->number)
		q->relay_still = true;
}

static bool runs_are_frozen(struct quiesce *q)
{
	if (clock_left_ms(q->deadline_ms) == 0)
		return true;
	if (!q->events.priority)
		return false;
	q->events.priority = false;
	return cgroup_is_frozen(q->events.fd);
}

static int stop_relay(struct quiesce *q)
{
	if (!runs_are_frozen(q))
		return 0;
	q->state = QUIESCE_RELAY;
	q->relay_still = q->relay->pid == 0;
	relay_stand(q->relay, q->number, q->deadline_ms);
	q->deadline_ms += QUIESCE_RELAY_MS;
	return 1;
}

int quiesce_step(struct quiesce *q, struct mux *m, const struct mux *net)
{
	if (q->state == QUIESCE_FREEZING)
		return stop_relay(q);
	bool late = q->state == QUIESCE_RELAY && clock_left_ms(q->deadline_ms) == 0;
	if (q->state != QUIESCE_RELAY || !mux_flushed(m) ||
		(!late && (!q->relay_still || !mux_flushed(net))))
		return 0;
	cleanup_buf struct buf b = {0};
	buf_init(&b, 16);
	buf_put_u32(&b, q->number);
	mux_send_buf(m, AGENT_QUIESCED, 0, &b);
	q->state = QUIESCE_STILL;
	return 1;
}

bool quiesce_resume(struct quiesce *q, uint32_t number, bool new_epoch)
{
	bool ends = q->state != QUIESCE_RUNNING && (new_epoch || number >= q->number);

	if (new_epoch || number > q->last_resumed)
		q->last_resumed = number;
	if (!ends)
		return false;
	q->state = QUIESCE_RUNNING;
	int r = cgroup_freeze(q->cgroups, false);
	if (r < 0)
		log_warn("thaw the runs: %s", strerror(-r));
	return true;
}
