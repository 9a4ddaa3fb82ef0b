/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A container's log: records one after another, in the files on the sandbox's disk and in what a
 * LOGS session sends as STDOUT. A record is a header of LOG_HEADER_SIZE bytes, little-endian, and
 * `len` bytes as one read(2) of the program's stream gave them:
 *
 *     u64 wall_ns   when it was read, by the guest's clock
 *     u32 len       at most LOG_DATA_MAX
 *     u8  which     enum log_which
 *     u8  magic     LOG_MAGIC
 *     u16 0
 */
#ifndef KOSA8_PROTO_LOG_H
#define KOSA8_PROTO_LOG_H

#include "../base/buf.h"
#include "../base/cursor.h"

#define LOG_HEADER_SIZE 16
#define LOG_DATA_MAX (32u * 1024)
#define LOG_MAGIC 0x4c

enum log_which {
	LOG_STDOUT = 1, /* also all that a terminal shows */
	LOG_STDERR,
	LOG_LOST, /* no data: older records were removed here, because the log was full */
	LOG_LIVE, /* no data, once, not on disk: what follows is written from now on */
	LOG_WHICH_END,
};

struct log_record {
	uint64_t wall_ns;
	enum log_which which;
	uint32_t len;
	const unsigned char *data; /* points into what was parsed */
};

void log_header_encode(
	uint64_t wall_ns, enum log_which which, uint32_t len, unsigned char ret[LOG_HEADER_SIZE]);
/* Its total size with *ret filled in, 0 when more bytes are needed, -EPROTO when it is none. */
int log_record_parse(const unsigned char *data, size_t len, struct log_record *ret) must_check;

#endif
