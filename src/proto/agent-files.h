/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of copies and mounts; their frames are listed in proto/agent.h. */
#ifndef KOSA8_PROTO_AGENT_FILES_H
#define KOSA8_PROTO_AGENT_FILES_H

#include "agent-session.h"

#include <errno.h>

/* COPY. OUT: what is at path, as one tree. IN: the tree becomes path, or path/name when path is a
 * folder; `contents`: the root entry's children go into the folder path. UPPER: what a cow mount's
 * upper folder holds, with TREE_WHITEOUT and TREE_OPAQUE entries; path is not used.
 * RUN_FAILED with AGENT_COPY_NO_IMAGE: the container has ended and its image, the digest that is
 * the text, is not attached (ATTACH_IMAGE). */
#define AGENT_COPY_NO_IMAGE ENOMEDIUM
enum agent_copy_kind { AGENT_COPY_OUT, AGENT_COPY_IN, AGENT_COPY_UPPER, AGENT_COPY_KIND_COUNT };
struct agent_copy {
	uint32_t kind;
	uint32_t contents;
	uint32_t mount;			/* UPPER: its id */
	char container[AGENT_REF_SIZE]; /* "": the sandbox's /workspace, and path is below it */
	char *path;			/* bytes; absolute, or for "" relative to /workspace */
	char *name;
};
void agent_copy_release(struct agent_copy *m);

enum agent_mount_mode { AGENT_MOUNT_RW, AGENT_MOUNT_RO, AGENT_MOUNT_COW, AGENT_MOUNT_MODE_COUNT };
/* Seen by all containers, also those that run. Asked for again with the same id: nothing to do. */
struct agent_mount {
	uint32_t id; /* never reused in a sandbox's life; the `stream` of its FUSE frames */
	uint32_t mode;
	char *path; /* absolute, in the container */
};
void agent_mount_release(struct agent_mount *m);

void agent_copy_encode(struct buf *b, const struct agent_copy *m);
int agent_copy_decode(struct cursor *c, struct agent_copy *ret) must_check;
void agent_mount_encode(struct buf *b, const struct agent_mount *m);
int agent_mount_decode(struct cursor *c, struct agent_mount *ret) must_check;

#endif
