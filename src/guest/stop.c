/* SPDX-License-Identifier: Apache-2.0 */
#include "stop.h"

#include "../base/clock.h"
#include "../base/log.h"

#include <stdio.h>
#include <sys/reboot.h>
#include <unistd.h>

void stop_begin(struct stop *s, uint32_t stream, struct runs *runs)
{
	s->state = STOP_TERM;
	s->stream = stream;
	s->deadline_ms = clock_mono_ms() + STOP_GRACE_MS;
	runs_stop(runs);
}

static void close_disk(struct stop *s, struct runs *runs, struct sessions *sessions,
	struct disk *disk, struct keeper *keeper, struct mux *mux)
{
	struct agent_reply reply = {0};
	struct err e;

	sessions_end_all(sessions);
	containers_close(runs->containers);
	keeper_kill(keeper);
	int r = disk_unmount(disk, &e);
	if (r < 0) {
		reply.status = (uint32_t)-r;
		(void)snprintf(reply.text, sizeof(reply.text), "%.*s", AGENT_TEXT_MAX - 1, e.what);
	}
	mux_reply(mux, AGENT_REPLY, s->stream, &reply);
	s->state = STOP_REPLIED;
	s->deadline_ms = clock_mono_ms() + STOP_KILL_MS;
}

void stop_step(struct stop *s, struct runs *runs, struct sessions *sessions,
	struct fs_mounts *mounts, struct disk *disk, struct keeper *keeper, struct mux *mux)
{
	bool late = s->state != STOP_NONE && clock_left_ms(s->deadline_ms) == 0;

	if (s->state == STOP_TERM && (late || !runs_any(runs))) {
		runs_kill_all(runs);
		s->state = STOP_KILL;
		s->deadline_ms = clock_mono_ms() + STOP_KILL_MS;
		late = false;
	}
	if (s->state == STOP_KILL && (late || !runs_any(runs))) {
		s->state = STOP_MOUNTS;
		s->deadline_ms = -1;
	}
	if (s->state == STOP_MOUNTS)
		fs_mounts_close(mounts);
	if (s->state == STOP_MOUNTS && !fs_mounts_any(mounts))
		close_disk(s, runs, sessions, disk, keeper, mux);
	if (s->state != STOP_REPLIED)
		return;
	(void)mux_flush(mux);
	if (late || mux_flushed(mux)) {
		sync();
		(void)reboot(RB_POWER_OFF);
		log_warn("the machine cannot be switched off");
		(void)reboot(RB_AUTOBOOT);
	}
}

int64_t stop_deadline_ms(const struct stop *s)
{
	return s->state == STOP_NONE ? -1 : s->deadline_ms;
}
