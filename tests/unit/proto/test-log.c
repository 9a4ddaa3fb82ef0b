/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/log.h"

#include <errno.h>

#include "tap.h"

static size_t make(unsigned char *to, enum log_which which, const char *text)
{
	size_t len = strlen(text);

	log_header_encode(0x1122334455667788, which, (uint32_t)len, to);
	memcpy(to + LOG_HEADER_SIZE, text, len);
	return LOG_HEADER_SIZE + len;
}

static void test_record(void)
{
	unsigned char raw[64];
	struct log_record r;
	size_t len = make(raw, LOG_STDERR, "oh\n");

	EQ_INT(len, 19, "its size");
	OK(raw[0] == 0x88 && raw[7] == 0x11 && raw[8] == 3 && raw[12] == 2 && raw[13] == LOG_MAGIC,
		"as the header says, little-endian");
	EQ_INT(log_record_parse(raw, sizeof(raw), &r), 19, "parsed, with more behind it");
	OK(r.wall_ns == 0x1122334455667788 && r.which == LOG_STDERR && r.len == 3 &&
			memcmp(r.data, "oh\n", 3) == 0,
		"what was put in");
	for (size_t cut = 0; cut < len; cut++)
		if (log_record_parse(raw, cut, &r) != 0)
			OK(false, "a cut record needs more bytes");
	OK(true, "every cut was tried");
	(void)make(raw, LOG_LOST, "");
	EQ_INT(log_record_parse(raw, LOG_HEADER_SIZE, &r), LOG_HEADER_SIZE, "one without data");
	OK(r.which == LOG_LOST && r.len == 0, "is LOST");
}

static void refuse(size_t at, unsigned char value, const char *what)
{
	unsigned char raw[64];
	struct log_record r;

	(void)make(raw, LOG_STDOUT, "x");
	EQ_INT(log_record_parse(raw, sizeof(raw), &r), LOG_HEADER_SIZE + 1, "good before");
	raw[at] = value;
	EQ_INT(log_record_parse(raw, sizeof(raw), &r), -EPROTO, what);
}

static void test_hostile(void)
{
	refuse(13, 0, "another magic");
	refuse(14, 1, "not zero where it has to be");
	refuse(12, 0, "no stream");
	refuse(12, LOG_WHICH_END, "a stream that there is not");
	refuse(12, LOG_LIVE, "data where there is none");
	refuse(10, 1, "longer than may be");
	refuse(11, 0xff, "much longer than may be");
}

int main(void)
{
	test_record();
	test_hostile();
	return tap_done();
}
