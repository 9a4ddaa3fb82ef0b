/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of one kept container: records (proto/log.h) in two files of its folder on the disk, so
 * it is rewound with everything else. When "log" has reached LOG_FILE_MAX it becomes "log.1" (the
 * former one goes) and a new one begins: at most twice that is kept. Records are written whole; a
 * cut one at the end (power loss) ends the file for a reader and is cut off by the next
 * container_log_open(). A disk that is full loses records, and says so with LOG_LOST when
 * there is space again; the program never waits for its log.
 */
#ifndef KOSA8_GUEST_CONTAINER_LOG_H
#define KOSA8_GUEST_CONTAINER_LOG_H

#include "../base/buf.h"
#include "../base/err.h"
#include "../proto/log.h"

#include <stdbool.h>

#define LOG_FILE_MAX (8u << 20)

struct container_log {
	int dirfd; /* borrowed */
	int fd;	   /* -1: not open */
	uint64_t size;
	uint64_t generation; /* of the current file: how often the log began a new one */
	bool lost;	     /* something could not be written */
};

void container_log_init(struct container_log *l, int dirfd);
/* Opens or makes it. */
int container_log_open(struct container_log *l, struct err *e) must_check;
void container_log_close(struct container_log *l);
void container_log_append(struct container_log *l, uint64_t wall_ns, enum log_which which,
	const void *data, size_t len);

/* A place in a log. It keeps its file open, so what it has not read yet is not lost to it when the
 * log goes on; if more than one file went meanwhile, it reads LOG_LOST there. */
struct container_log_reader {
	int fd;
	uint64_t offset;
	uint64_t generation;
};
void container_log_reader_init(struct container_log_reader *r);
void container_log_reader_release(struct container_log_reader *r);
/* Appends whole records, from `since_ns` on, as far as max_bytes allows (at least one record's,
 * LOG_HEADER_SIZE + LOG_DATA_MAX), in bounded steps. 1: there may be more; 0: the end of what is
 * written now; or -errno. The log need not be open. */
int container_log_read(const struct container_log *l, struct container_log_reader *r,
	uint64_t since_ns, struct buf *b, size_t max_bytes) must_check;

#endif
