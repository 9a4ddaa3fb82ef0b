/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/agent.h"

#include "base/strv.h"

#include "tap.h"

static void test_run(void)
{
	char *argv[] = {"sh", "-c", "", "\xff", NULL}, *env[] = {NULL};
	struct agent_run run = {.flags = AGENT_STDIN_OPEN,
		.timeout_ms = 1500,
		.pids = 7,
		.id = "0123456789ab",
		.image = "cd",
		.hostname = "box",
		.user = "",
		.cwd = "/",
		.argv = argv,
		.env = env};
	struct agent_run got = {0};
	cleanup_buf struct buf b = {0};
	struct cursor c;

	buf_init(&b, 65536);
	agent_run_encode(&b, &run);
	cursor_init(&c, b.data, b.len);
	EQ_INT(agent_run_decode(&c, &got), 0, "a run");
	EQ_INT(strv_len(got.argv), 4, "its arguments");
	EQ_STR(got.argv ? got.argv[3] : NULL, "\xff", "any byte in them");
	EQ_INT(got.timeout_ms, 1500, "its time");
	agent_run_release(&got);
	for (size_t cut = 0; cut < b.len; cut++) {
		cursor_init(&c, b.data, cut);
		if (agent_run_decode(&c, &got) == 0) {
			OK(false, "a cut message is refused");
			agent_run_release(&got);
		}
	}
	OK(true, "every cut of it was tried");
}

static void test_resume(void)
{
	struct agent_resume r = {.epoch = 9, .quiesce = 3, .wall_ns = 12345678901234}, got;
	unsigned char raw[AGENT_RESUME_SIZE];

	memset(r.nonce, 0xaa, sizeof(r.nonce));
	memset(r.entropy, 0x55, sizeof(r.entropy));
	agent_resume_encode(&r, raw);
	EQ_INT(agent_resume_decode(raw, &got), 0, "a record");
	OK(got.epoch == 9 && got.quiesce == 3 && got.wall_ns == r.wall_ns, "its numbers");
	OK(memcmp(got.nonce, r.nonce, sizeof(r.nonce)) == 0 &&
			memcmp(got.entropy, r.entropy, sizeof(r.entropy)) == 0,
		"its bytes");
	raw[0] ^= 1;
	OK(agent_resume_decode(raw, &got) < 0, "another magic is refused");
	raw[0] ^= 1;
	raw[4] ^= 1;
	OK(agent_resume_decode(raw, &got) < 0, "another version is refused");
}

static void test_exit(void)
{
	static const struct agent_exit cases[] = {
		{AGENT_END_COUNT, 0, 0}, {0, 256, 0}, {0, 0, 2}, {0, 255, 1}};
	struct agent_exit got;

	for (size_t i = 0; i < 4; i++) {
		cleanup_buf struct buf b = {0};
		struct cursor c;
		buf_init(&b, 64);
		agent_exit_encode(&b, &cases[i]);
		cursor_init(&c, b.data, b.len);
		EQ_INT(agent_exit_decode(&c, &got) == 0, i == 3, "only what can be is taken");
	}
}

int main(void)
{
	test_run();
	test_resume();
	test_exit();
	return tap_done();
}
