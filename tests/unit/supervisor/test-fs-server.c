/* SPDX-License-Identifier: Apache-2.0 */
/* The server of a mount against a scripted kosa8-fs: this program itself, told by FAKE_FS what to
 * do wrong. */
#include "supervisor/fs-pool.h"
#include "supervisor/fs-server.h"

#include "base/cursor.h"
#include "base/fd.h"
#include "base/frame.h"
#include "proto/fs.h"

#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the fake ---- */

static void say(uint16_t type, const void *data, size_t len)
{
	cleanup_buf struct buf b = {0};

	buf_init(&b, 1 << 20);
	frame_put(&b, type, 0, 0, data, len);
	if (fd_write_all(FS_SOCKET_FD, b.data, b.len) < 0)
		_exit(3);
}

static void answer(uint64_t unique)
{
	struct fuse_out_header h = {.len = sizeof(h), .unique = unique};

	say(FS_REPLY, &h, sizeof(h));
}

static void answer_in_slot(uint64_t unique, uint32_t slot, const char *what)
{
	uint32_t len = strcmp(what, "toolong") == 0 ? FS_SLOT_SIZE + 1 : FS_SLOT_SIZE;
	struct fuse_out_header h = {
		.len = (uint32_t)sizeof(h) + len, .unique = strcmp(what, "wrong") ? unique : 999};
	unsigned char *at = mmap(
		NULL, FS_SLOTS * FS_SLOT_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, FS_MEMORY_FD, 0);

	if (at == MAP_FAILED || ftruncate(FS_MEMORY_FD, 0) == 0)
		_exit(5);
	memset(at + (size_t)slot * FS_SLOT_SIZE, 'a' + (int)slot, FS_SLOT_SIZE);
	say(FS_REPLY_SLOT, &h, sizeof(h));
}

/* The next frame; its descriptor, if one came, is *fd. */
static bool hear(struct buf *in, struct frame *f, int *fd)
{
	unsigned char chunk[65536];
	int n;

	while ((n = frame_parse(in->data, in->len, f)) == 0) {
		size_t fds = 0;
		ssize_t got = fd_recv_fds(FS_SOCKET_FD, chunk, sizeof(chunk), fd, 1, &fds);
		if (got <= 0)
			return false;
		buf_put(in, chunk, (size_t)got);
	}
	return n > 0;
}

/* Answers each request; a save writes the number of requests so far into the table. */
static int serve(const char *what)
{
	struct buf in;
	struct frame f;
	int fd = -1, seen = 0;
	const uint32_t ok = 0;
	bool mute = strcmp(what, "mute") == 0;

	buf_init(&in, 1 << 24);
	while (hear(&in, &f, &fd)) {
		struct fuse_in_header h = {0};
		if (f.type == FS_SAVE) {
			if (dprintf(fd, "%d", seen) < 0)
				return 4;
			fd = fd_close(fd);
			say(FS_SAVED, &ok, sizeof(ok));
		} else {
			memcpy(&h, f.payload, sizeof(h));
			seen++;
			if (strcmp(what, "die") == 0)
				return 1;
			if (f.stream > 0)
				answer_in_slot(h.unique, f.stream - 1, what);
			else if (h.opcode != FUSE_FORGET && !mute)
				answer(strcmp(what, "wrong") == 0 ? h.unique + 1 : h.unique);
		}
		buf_consume(&in, FRAME_HEADER_SIZE + f.len);
	}
	buf_release(&in);
	return 0;
}

static int fake(const char *what, int argc, char **argv)
{
	char options[100] = "ready:";

	for (int i = 1; i < argc; i++)
		(void)snprintf(options + strlen(options), sizeof(options) - strlen(options), " %s",
			argv[i]);
	if (strcmp(what, "refuses") == 0) {
		say(FS_FAILED, "cannot be \x1b[31mconfined", 23);
		return 1;
	}
	if (strcmp(what, "garbage") == 0)
		return fd_write_all(FS_SOCKET_FD, "this is no frame at all, is it", 30) < 0;
	if (strcmp(what, "exits") == 0)
		return 7;
	if (strcmp(what, "stalls") == 0) {
		say(FS_READY, NULL, 0);
		(void)pause();
	}
	if (strcmp(what, "early") == 0)
		answer(1);
	say(FS_READY, NULL, 0);
	return serve(what);
}

/* ---- the test ---- */

struct seen {
	int ready, replies, slots, errors, saved, failed;
	int32_t error;
	uint64_t unique;
	uint32_t slot;
	size_t data_len;
	unsigned char first, last;
	char why[ERR_WHAT_MAX];
	bool free_when_failed;
	struct fs_server *f;
};

static void on_ready(void *ctx)
{
	((struct seen *)ctx)->ready++;
}

static void on_reply(void *ctx, const void *data, size_t len)
{
	struct seen *s = ctx;
	struct fuse_out_header h;

	if (len != sizeof(h))
		return;
	memcpy(&h, data, sizeof(h));
	s->replies++;
	s->errors += h.error != 0;
	s->error = h.error;
	s->unique = h.unique;
}

static void on_reply_slot(void *ctx, struct fs_answer *a)
{
	struct seen *s = ctx;
	const unsigned char *data = a->data;

	s->slots++;
	s->unique = a->unique;
	s->slot = a->slot;
	s->data_len = a->data_len;
	s->first = data[0];
	s->last = data[a->data_len - 1];
}

static void on_saved(void *ctx, int errnum)
{
	((struct seen *)ctx)->saved += errnum == 0;
}

static void on_failed(void *ctx, const struct err *why)
{
	struct seen *s = ctx;

	s->failed++;
	(void)snprintf(s->why, sizeof(s->why), "%s", why->what);
	if (s->free_when_failed) {
		fs_server_free(s->f);
		s->f = NULL;
	}
}

static uv_loop_t loop;

static void begin(struct seen *s, const char *what, bool read_only, int table_fd)
{
	static const struct fs_server_events events = {
		on_ready, on_reply, on_reply_slot, on_saved, on_failed};
	struct fs_server_start start = {.program = "/proc/self/exe",
		.root_fd = STDIN_FILENO,
		.table_fd = table_fd,
		.read_only = read_only};
	struct err e;

	*s = (struct seen){0};
	(void)setenv("FAKE_FS", what, 1);
	if (uv_loop_init(&loop) < 0 || fs_server_start(&loop, &start, &events, s, &s->f, &e) < 0)
		_exit(1);
	(void)unsetenv("FAKE_FS");
}

/* Until *count is at least n, or ten seconds of events have passed. */
static void until(const int *count, int n)
{
	uint64_t end = uv_hrtime() + 10000000000u;

	while (*count < n && uv_hrtime() < end)
		(void)uv_run(&loop, UV_RUN_ONCE);
}

static void count_handle(uv_handle_t *handle, void *ctx)
{
	*(int *)ctx += handle->type != UV_TIMER;
}

static void on_timer(uv_timer_t *timer)
{
	(void)timer;
}

static int gone;

/* Then there is no process any more. */
static void on_gone(void *ctx)
{
	(void)ctx;
	gone += waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD;
}

/* The handle that waits for the process is not referenced: the timer keeps the loop going. */
static void end(struct seen *s, const char *what)
{
	uint64_t limit = uv_hrtime() + 10000000000u;
	uv_timer_t timer;
	int left;

	bool there = s->f;
	gone = 0;
	if (there)
		fs_server_when_gone(s->f, on_gone, NULL);
	fs_server_free(s->f);
	OK(!there || gone == 0, "not gone at once");
	(void)uv_timer_init(&loop, &timer);
	(void)uv_timer_start(&timer, on_timer, 100, 100);
	do {
		(void)uv_run(&loop, UV_RUN_ONCE);
		left = 0;
		uv_walk(&loop, count_handle, &left);
	} while (left > 0 && uv_hrtime() < limit);
	uv_close((uv_handle_t *)&timer, NULL);
	(void)uv_run(&loop, UV_RUN_DEFAULT);
	EQ_INT(gone, there, "gone once the process has ended");
	OK(uv_loop_close(&loop) == 0 && waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD, what);
}

static void request_in_slot(
	struct seen *s, uint32_t opcode, uint64_t unique, size_t extra, uint32_t slot)
{
	static unsigned char message[200000];
	struct fuse_in_header h = {
		.len = (uint32_t)(sizeof(h) + extra), .opcode = opcode, .unique = unique};

	memcpy(message, &h, sizeof(h));
	fs_server_request(s->f, message, sizeof(h) + extra, slot);
}

static void request(struct seen *s, uint32_t opcode, uint64_t unique, size_t extra)
{
	request_in_slot(s, opcode, unique, extra, FS_SERVER_NO_SLOT);
}

static void test_slots(void)
{
	struct seen s;

	begin(&s, "good", false, -1);
	until(&s.ready, 1);
	request_in_slot(&s, FUSE_READ, 2, 40, 0);
	until(&s.slots, 1);
	request_in_slot(&s, FUSE_READ, 4, 40, FS_SLOTS - 1);
	until(&s.slots, 2);
	EQ_INT(s.unique, 4, "answered");
	EQ_INT(s.slot, FS_SLOTS - 1, "in its slot");
	EQ_INT(s.data_len, FS_SLOT_SIZE, "whole");
	OK(s.first == 'a' + (int)s.slot && s.last == s.first, "with what is there");
	request_in_slot(&s, FUSE_READ, 6, 40, 0);
	until(&s.slots, 3);
	EQ_INT(s.failed, 0, "a slot can be used again");
	end(&s, "no process is left");
}

static void test_slots_that_lie(const char *what, uint32_t first, uint32_t second)
{
	struct seen s;

	begin(&s, what, false, -1);
	until(&s.ready, 1);
	request_in_slot(&s, FUSE_READ, 2, 40, first);
	request_in_slot(&s, FUSE_READ, 4, 40, second);
	until(&s.failed, 1);
	EQ_INT(s.failed, 1, what);
	EQ_INT(s.slots, 0, "nothing is written");
	EQ_INT(s.error < 0, 1, "it is answered with an error");
	end(&s, "no process is left");
}

static void test_serves(void)
{
	char text[8] = "";
	char path[] = "/tmp/kosa8-test-table-XXXXXX";
	cleanup_fd int table = mkostemp(path, O_CLOEXEC);
	struct seen s;

	begin(&s, "good", true, table);
	until(&s.ready, 1);
	EQ_INT(fs_server_state(s.f), FS_SERVER_READY, "it serves");
	request(&s, FUSE_GETATTR, 2, 0);
	request(&s, FUSE_WRITE, 4, FS_DATA_MAX);
	request(&s, FUSE_FORGET, 6, 0);
	EQ_INT(fs_server_save(s.f, table), 0, "a save is asked for");
	EQ_INT(fs_server_save(s.f, table), -EBUSY, "one at a time");
	request(&s, FUSE_GETATTR, 8, 0);
	until(&s.saved, 1);
	until(&s.replies, 3);
	EQ_INT(s.replies, 3, "what is answered is");
	EQ_INT(s.errors, 0, "without errors");
	OK(pread(table, text, sizeof(text) - 1, 0) == 1, "the table is written");
	EQ_STR(text, "3", "as of between the requests before and after");
	EQ_INT(s.failed, 0, "nothing failed");
	end(&s, "no process is left");
	(void)unlink(path);
}

static void test_fails_at_start(const char *what, const char *why)
{
	struct seen s;

	begin(&s, what, false, -1);
	until(&s.failed, 1);
	EQ_INT(s.failed, 1, what);
	OK(strstr(s.why, why), "says why");
	printf("# %s\n", s.why);
	request(&s, FUSE_GETATTR, 2, 0);
	EQ_INT(s.error, -ENOTCONN, "requests are answered");
	EQ_INT(s.ready, 0, "it never served");
	end(&s, "no process is left");
}

static void test_dies(const char *what)
{
	struct seen s;

	begin(&s, what, false, -1);
	until(&s.ready, 1);
	request(&s, FUSE_GETATTR, 2, 0);
	request(&s, FUSE_GETATTR, 4, 0);
	until(&s.failed, 1);
	EQ_INT(s.failed, 1, what);
	EQ_INT(s.replies, 2, "both that were out are answered");
	EQ_INT(s.error, -EIO, "with an error");
	request(&s, FUSE_GETATTR, 6, 0);
	EQ_INT(s.error, -ENOTCONN, "and those that come");
	EQ_INT(s.unique, 6, "by their number");
	EQ_INT(fs_server_save(s.f, 0), -ENOTCONN, "no table is saved");
	end(&s, "no process is left");
}

static void test_guest_lies(void)
{
	static unsigned char junk[500000];
	struct seen s;

	begin(&s, "mute", false, -1);
	until(&s.ready, 1);
	for (uint64_t i = 1; i <= FS_REQUESTS_MAX; i++)
		request(&s, FUSE_GETATTR, 2 * i, 0);
	EQ_INT(s.failed, 0, "as many requests as it may");
	request(&s, FUSE_GETATTR, 1000, 0);
	EQ_INT(s.failed, 1, "one more");
	EQ_INT(s.errors, FS_REQUESTS_MAX, "all are answered");
	end(&s, "no process is left");

	begin(&s, "mute", false, -1);
	request(&s, FUSE_GETATTR, 2, 0);
	request(&s, FUSE_GETATTR, 2, 0);
	EQ_INT(s.failed, 1, "the same number twice");
	end(&s, "no process is left");

	begin(&s, "mute", false, -1);
	fs_server_request(s.f, junk, sizeof(junk), FS_SERVER_NO_SLOT);
	EQ_INT(s.failed, 1, "a message that is too long");
	end(&s, "no process is left");

	begin(&s, "mute", false, -1);
	fs_server_request(s.f, junk, 60, FS_SERVER_NO_SLOT);
	EQ_INT(s.failed, 1, "a message that is none");
	end(&s, "no process is left");
}

static void test_stalls(void)
{
	struct seen s;

	begin(&s, "stalls", false, -1);
	until(&s.ready, 1);
	for (uint64_t i = 1; i <= FS_REQUESTS_MAX; i++)
		request(&s, FUSE_WRITE, 2 * i, FS_DATA_MAX);
	EQ_INT(s.failed, 0, "one that stands still is waited for");
	for (int i = 0; i < 200000 && !s.failed; i++)
		request(&s, FUSE_FORGET, 0, 8);
	EQ_INT(s.failed, 1, "but not without end");
	end(&s, "no process is left");
}

static void test_freed_when_failed(void)
{
	struct seen s;

	begin(&s, "exits", false, -1);
	s.free_when_failed = true;
	until(&s.failed, 1);
	EQ_INT(s.failed, 1, "freed in its own callback");
	end(&s, "no process is left");
}

int main(int argc, char **argv)
{
	const char *what = getenv("FAKE_FS");

	if (what)
		return fake(what, argc, argv);
	test_serves();
	test_slots();
	test_slots_that_lie("toolong", 0, 1);
	test_slots_that_lie("wrong", 0, 1);
	test_slots_that_lie("mute", FS_SERVER_NO_SLOT, FS_SLOTS);
	test_slots_that_lie("mute", FS_SERVER_NO_SLOT, FS_SERVER_NO_SLOT - 1);
	test_fails_at_start("refuses", "cannot be \\x1b[31mconfined");
	test_fails_at_start("garbage", "no frame");
	test_fails_at_start("exits", "ended");
	test_fails_at_start("early", "does not belong");
	test_dies("die");
	test_dies("wrong");
	test_guest_lies();
	test_stalls();
	test_freed_when_failed();
	return tap_done();
}
