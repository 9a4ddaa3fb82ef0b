/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/resume.h"

#include "base/fd.h"
#include "tap.h"

#include <sys/socket.h>
#include <unistd.h>

int main(void)
{
	struct agent_resume want = {.epoch = 7, .quiesce = 3, .wall_ns = 42}, got;
	unsigned char raw[AGENT_RESUME_SIZE], junk[300];
	struct resume r;
	struct loop loop;
	struct err e;
	int pair[2];

	OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0, "pair");
	resume_init(&r);
	OK(loop_init(&loop, &e) == 0 && loop_watch(&loop, &r.port, pair[1], WATCH_READ, &e) == 0,
		"watched");
	memset(want.nonce, 0x55, sizeof(want.nonce));
	agent_resume_encode(&want, raw);
	EQ_INT(resume_next(&r, &got), 0, "nothing yet");
	for (size_t i = 0; i < sizeof(raw); i++) {
		OK(fd_write_all(pair[0], raw + i, 1) == 0, "a byte");
		loop_wait(&loop, 0);
		EQ_INT(resume_next(&r, &got), i + 1 == sizeof(raw), "whole with the last byte");
	}
	EQ_INT(got.epoch, 7, "epoch");
	EQ_INT(got.nonce[31], 0x55, "nonce");
	memset(junk, 'x', sizeof(junk));
	OK(fd_write_all(pair[0], junk, sizeof(junk)) == 0, "junk");
	want.epoch = 8;
	agent_resume_encode(&want, raw);
	OK(fd_write_all(pair[0], raw, sizeof(raw)) == 0, "then a record");
	want.epoch = 9;
	agent_resume_encode(&want, raw);
	OK(fd_write_all(pair[0], raw, sizeof(raw)) == 0, "and another");
	loop_wait(&loop, 0);
	EQ_INT(resume_next(&r, &got), 1, "junk is skipped");
	EQ_INT(got.epoch, 8, "up to the record");
	EQ_INT(resume_next(&r, &got), 1, "the next follows");
	EQ_INT(got.epoch, 9, "at once");
	(void)close(pair[0]);
	loop_wait(&loop, 0);
	EQ_INT(resume_next(&r, &got), 0, "the end is no record");
	loop_unwatch(&loop, &r.port);
	(void)close(loop.epfd);
	return tap_done();
}
