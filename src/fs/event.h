/* SPDX-License-Identifier: Apache-2.0 */
/* Inotify in the guest for the host's changes (FS_EVENT in proto/fs.h): collected for a moment, one
 * for each name, sent, and then known until the relay has made its call. */
#ifndef KOSA8_FS_EVENT_H
#define KOSA8_FS_EVENT_H

#include "../proto/fs.h"

#include <stdbool.h>
#include <stdint.h>

#define EVENTS_MAX 200 /* in EVENTS_MS: 1,000 a second; what is more is not told */
#define EVENTS_MS 200

struct fs;
struct node;
struct request;

struct host_event {
	uint64_t folder, order;
	enum fs_event kind;
	uint32_t type;
	bool used;
	int64_t sent_ms; /* 0: not yet */
	char name[256];
};

struct host_events {
	struct host_event *all; /* EVENTS_MAX * 4 */
	uint32_t *hash;		/* of each; all are looked through for each event of the host's */
	uint64_t ghosts, order; /* made so far */
	int64_t send_ms;	/* when those collected go out; 0: none */
};

void event_add(struct fs *fs, const struct node *folder, const char *name, enum fs_event kind,
	uint32_t type);
/* Puts those that are due into fs->notices. */
void events_send(struct fs *fs);
/* A request of the relay's: as an operation; nothing is done on the host. */
int event_request(struct fs *fs, struct request *q);

#endif
