/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows a container's log: records (proto/log.h) as they come from the guest, to two sinks. Holds
 * what it has granted, and with `tail` what was there before LOG_LIVE, up to LOG_VIEW_MAX; of more,
 * the oldest is left out. What the sinks have no room for waits here; and as both sinks may write
 * into one file, nothing goes to one of them while the other has something to write: the order
 * stays.
 */
#ifndef KOSA8_CLI_LOG_VIEW_H
#define KOSA8_CLI_LOG_VIEW_H

#include "sink.h"

#include "../proto/log.h"

#include <stdbool.h>

#define LOG_VIEW_WINDOW (256u * 1024)
#define LOG_VIEW_MAX (32u * 1024 * 1024)
#define LOG_VIEW_ALL UINT64_MAX

struct log_view {
	bool timestamps;
	uint64_t tail;	 /* lines; LOG_VIEW_ALL: all */
	bool collecting; /* nothing is shown before the last lines are known */
	bool live;	 /* LOG_LIVE came */
	struct buf in;	 /* records */
	size_t at;	 /* what is before it was shown */
	size_t checked;	 /* whole records up to here, while collecting */
	uint32_t done;	 /* of the data of the record at `at` */
	uint32_t window; /* bytes that may still come */
	uint32_t taken;	 /* came and not granted again yet */
	uint64_t skip;	 /* lines that are still to be left out */
	bool middle[2];	 /* of each stream: its last line has no end yet */
	bool skipped[2]; /* and is left out */
};

void log_view_init(struct log_view *v, uint64_t tail, bool timestamps);
void log_view_release(struct log_view *v);
/* -EPROTO when more came than was granted. */
int log_view_put(struct log_view *v, const void *data, size_t len) must_check;
/* Moves on what the sinks have room for; ended: no more will come. 1: some is left, 0: none,
 * -EPROTO what came is no log. */
int log_view_pump(struct log_view *v, struct sink *out, struct sink *err, bool ended) must_check;
/* The window to grant now, 0 when it is not worth a frame; it counts as granted. */
uint32_t log_view_grant(struct log_view *v);

#endif
