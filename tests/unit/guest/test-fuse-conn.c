/* SPDX-License-Identifier: Apache-2.0 */
/* A FUSE connection over a socket pair that keeps messages apart: the test is the kernel. */
#include "guest/fuse-conn.h"

#include "base/fd.h"
#include "tap.h"

#include <errno.h>
#include <linux/fuse.h>
#include <sys/socket.h>
#include <unistd.h>

static struct fuse_conn c;
static struct fuse_slots slots;
static int kernel;
static unsigned char data[FUSE_CONN_READ_SIZE];

static void setup(void)
{
	int pair[2];

	OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0,
		"pair");
	c = (struct fuse_conn){.id = 7, .fd = pair[0], .readable = true, .slots = &slots};
	kernel = pair[1];
}

static void teardown(void)
{
	fuse_conn_close(&c);
	(void)fd_close(kernel);
}

static void ask(uint32_t opcode, uint64_t unique)
{
	struct fuse_in_header h = {.len = sizeof(h), .opcode = opcode, .unique = unique};

	OK(write(kernel, &h, sizeof(h)) == (ssize_t)sizeof(h), "the kernel asks");
	c.readable = true;
}

static ssize_t next(void)
{
	int slot;

	return fuse_conn_next(&c, data, &slot);
}

static enum fuse_conn_reply answer(uint64_t unique, int32_t error, const void *more, size_t len)
{
	unsigned char message[256] = {0};
	struct fuse_out_header h = {
		.len = (uint32_t)(sizeof(h) + len), .error = error, .unique = unique};

	memcpy(message, &h, sizeof(h));
	if (len)
		memcpy(message + sizeof(h), more, len);
	return fuse_conn_reply(&c, message, h.len);
}

/* What the kernel was given; unique 0 when nothing. */
static struct fuse_out_header got(void)
{
	struct fuse_out_header h = {0};
	unsigned char message[256];

	if (read(kernel, message, sizeof(message)) >= (ssize_t)sizeof(h))
		memcpy(&h, message, sizeof(h));
	return h;
}

static void test_requests(void)
{
	setup();
	ask(FUSE_LOOKUP, 2);
	ask(FUSE_INTERRUPT, 3);
	ask(FUSE_FORGET, 4);
	EQ_INT(next(), sizeof(struct fuse_in_header), "a request");
	EQ_INT(c.out_len, 1, "is out");
	EQ_INT(next(), sizeof(struct fuse_in_header), "FORGET");
	EQ_INT(c.out_len, 1, "has no answer; the interrupt was left out");
	EQ_INT(next(), 0, "no more");
	EQ_INT(answer(99, 0, NULL, 0), FUSE_REPLY_DROPPED, "an answer to nothing");
	EQ_INT(answer(0, FUSE_NOTIFY_INVAL_INODE, NULL, 0), FUSE_REPLY_NOTIFICATION,
		"a notification");
	EQ_INT(got().unique, 0, "neither is written here");
	EQ_INT(answer(2, -ENOENT, NULL, 0), FUSE_REPLY_DONE, "the answer");
	EQ_INT(got().error, -ENOENT, "arrives");
	EQ_INT(answer(2, 0, NULL, 0), FUSE_REPLY_DROPPED, "only once");
	struct fuse_out_header h = {.len = 17, .unique = 2};
	EQ_INT(fuse_conn_reply(&c, &h, sizeof(h)), FUSE_REPLY_DROPPED, "a wrong length");
	EQ_INT(fuse_conn_reply(&c, &h, 3), FUSE_REPLY_DROPPED, "too short");
	teardown();
}

static void test_limit(void)
{
	setup();
	for (unsigned i = 0; i < FS_REQUESTS_MAX; i++) {
		ask(FUSE_GETATTR, 2 + i);
		OK(next() > 0, "taken");
	}
	ask(FUSE_GETATTR, 1000);
	OK(!fuse_conn_may_read(&c), "full");
	EQ_INT(next(), 0, "one more is not read");
	EQ_INT(answer(5, 0, NULL, 0), FUSE_REPLY_DONE, "one is answered");
	OK(next() > 0, "then it is");
	OK(!fuse_conn_fail(&c), "all fail");
	unsigned failed = 0;
	for (struct fuse_out_header h = got(); h.unique; h = got())
		failed += h.error == -EIO;
	EQ_INT(failed, FS_REQUESTS_MAX, "with EIO");
	EQ_INT(c.out_len, 0, "nothing is out");
	teardown();
}

static void test_init(void)
{
	struct fuse_init_out init = {.major = FUSE_KERNEL_VERSION, .minor = 31};

	setup();
	ask(FUSE_INIT, 2);
	OK(next() > 0, "INIT");
	ask(FUSE_GETATTR, 4);
	OK(next() > 0, "and another");
	OK(fuse_conn_fail(&c), "INIT is to be sent again");
	EQ_INT(got().unique, 4, "the other has failed");
	EQ_INT(got().unique, 0, "it alone");
	EQ_INT(answer(2, 0, &init, sizeof(init)), FUSE_REPLY_READY, "accepted");
	OK(c.ready, "ready");
	teardown();
	setup();
	ask(FUSE_INIT, 2);
	OK(next() > 0, "INIT");
	EQ_INT(answer(2, -EPERM, NULL, 0), FUSE_REPLY_REFUSED, "refused");
	teardown();
	setup();
	ask(FUSE_INIT, 2);
	OK(next() > 0, "INIT");
	init.major = 8;
	EQ_INT(answer(2, 0, &init, sizeof(init)), FUSE_REPLY_REFUSED, "another version");
	teardown();
}

/* A READ, as the kernel asks it; what was passed on, and its slot. */
static ssize_t read_request(uint64_t unique, uint32_t size, int *ret_slot)
{
	struct {
		struct fuse_in_header h;
		struct fuse_read_in in;
	} m = {.h = {.len = sizeof(m), .opcode = FUSE_READ, .unique = unique}, .in.size = size};

	OK(write(kernel, &m, sizeof(m)) == (ssize_t)sizeof(m), "the kernel asks");
	c.readable = true;
	return fuse_conn_next(&c, data, ret_slot);
}

static enum fuse_conn_reply answer_slot(uint64_t unique, uint32_t len)
{
	struct fuse_out_header h = {.len = (uint32_t)sizeof(h) + len, .unique = unique};

	return fuse_conn_reply_slot(&c, &h, sizeof(h));
}

static void part(uint64_t unique, uint32_t offset, size_t len)
{
	static unsigned char message[12 + 2 * FS_SHORT_MAX];

	memcpy(message, &unique, sizeof(unique));
	memcpy(message + 8, &offset, sizeof(offset));
	memset(message + 12, 'p', len);
	fuse_conn_part(&c, message, 12 + len);
}

static void test_pool(void)
{
	static unsigned char memory[FS_POOL_MAX * FS_SLOT_SIZE];
	int slot = 0;

	setup();
	slots = (struct fuse_slots){.pool = memory, .len = FS_POOL_MAX};
	OK(read_request(2, FS_SHORT_MAX, &slot) > 0 && slot == FUSE_NO_SLOT, "a short one: none");
	for (uint64_t i = 0; i < FS_POOL_MAX; i++)
		OK(read_request(10 + i, FS_SLOT_SIZE, &slot) > 0 && slot == (int)i, "its own slot");
	OK(read_request(3, FS_DATA_MAX, &slot) > 0 && slot == FUSE_NO_SLOT, "it goes without");
	EQ_INT(read_request(20, FS_SLOT_SIZE, &slot), 0, "it cannot, and is parked");
	EQ_INT(c.parked_len, 1, "parked");
	EQ_INT(c.out_len, FS_POOL_MAX + 3, "and out");
	memset(memory + FS_SLOT_SIZE, 'x', 50);
	EQ_INT(answer_slot(11, 50), FUSE_REPLY_DONE, "an answer in a slot");
	unsigned char message[256];
	EQ_INT(read(kernel, message, sizeof(message)), 66, "arrives whole");
	OK(message[16] == 'x' && message[65] == 'x', "as it stands there");
	OK(fuse_conn_unpark(&c, data, &slot) == 80 && slot == 1, "the parked one has its slot");
	EQ_INT(c.parked_len, 0, "it is passed on");
	EQ_INT(answer_slot(11, 50), FUSE_REPLY_DROPPED, "twice");
	EQ_INT(answer_slot(2, 50), FUSE_REPLY_DROPPED, "to one without a slot");
	EQ_INT(answer_slot(20, FS_SLOT_SIZE + 1), FUSE_REPLY_DROPPED, "longer than a slot");
	EQ_INT(answer(20, -EIO, NULL, 0), FUSE_REPLY_DONE, "an error comes without it");
	EQ_INT(slots.owner[1].mount, 0, "the slot is free");
	OK(!fuse_conn_fail(&c), "a new epoch");
	EQ_INT(fuse_slots_holds(&slots, 7), 1, "slots are free when the epoch is said, not before");
	fuse_slots_new_epoch(&slots);
	EQ_INT(fuse_slots_holds(&slots, 7), 0, "now");
	fuse_slots_clean(&slots);
	OK(memory[FS_SLOT_SIZE] == 0 && memory[FS_SLOT_SIZE + 49] == 0, "nothing is left in them");
	teardown();
}

static void test_own_slot(void)
{
	int slot = 0;

	setup();
	slots = (struct fuse_slots){0};
	OK(read_request(2, FS_SLOT_SIZE, &slot) > 0 && slot == FUSE_OWN_SLOT, "no pool: its own");
	EQ_INT(read_request(4, FS_SLOT_SIZE, &slot), 0, "one at a time");
	memset(c.own, 'o', FS_SLOT_SIZE);
	part(2, 0, 100);
	part(2, FS_SLOT_SIZE - 10, 11);
	part(2, UINT32_MAX, 100);
	part(4, 0, FS_SHORT_MAX);
	part(99, 0, FS_SHORT_MAX);
	OK(c.own[0] == 'p' && c.own[99] == 'p' && c.own[100] == 'o', "a part");
	OK(c.own[FS_SLOT_SIZE - 10] == 'o', "none that is longer than the slot, or another's");
	part(2, FS_SLOT_SIZE - 10, 10);
	OK(c.own[FS_SLOT_SIZE - 1] == 'p', "up to its end");
	EQ_INT(answer_slot(2, 100), FUSE_REPLY_DONE, "answered");
	OK(fuse_conn_unpark(&c, data, &slot) > 0 && slot == FUSE_OWN_SLOT, "then the next");
	teardown();
}

int main(void)
{
	test_requests();
	test_limit();
	test_init();
	test_pool();
	test_own_slot();
	return tap_done();
}
