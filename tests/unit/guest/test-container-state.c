/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/container-state.h"

#include "base/fd.h"
#include "base/file.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static const struct agent_container sample = {.state = AGENT_CONTAINER_ENDED,
	.flags = AGENT_KEEP | AGENT_TTY,
	.exit = {.how = AGENT_END_SIGNALED, .code = 9, .oom = 1},
	.created_ns = 5,
	.ended_ns = 7,
	.id = "abcdefghij01",
	.name = "web",
	.image = "0123",
	.image_name = "busybox:latest",
	.command = "sleep 9"};

static int decode(const struct agent_container *c, size_t cut, size_t extra)
{
	cleanup_buf struct buf b = {0};
	struct agent_container got;

	buf_init(&b, 2 * CONTAINER_STATE_MAX);
	container_state_encode(&b, c);
	for (; extra > 0; extra--)
		buf_put_u8(&b, 0);
	return container_state_decode(b.data, b.len - cut, &got);
}

static void decoding(void)
{
	struct agent_container c = sample;
	unsigned char zeros[64] = {0};

	EQ_INT(decode(&c, 0, 0), 0, "a record");
	EQ_INT(decode(&c, 1, 0), -EPROTO, "a cut one");
	EQ_INT(decode(&c, 0, 1), -EPROTO, "one with something behind it");
	EQ_INT(container_state_decode(zeros, sizeof(zeros), &c), -EPROTO, "no magic");
	EQ_INT(container_state_decode("", 0, &c), -EPROTO, "an empty file");
	c = sample;
	(void)snprintf(c.id, sizeof(c.id), "../../../etc");
	EQ_INT(decode(&c, 0, 0), -EPROTO, "an id that is a path");
	c = sample;
	(void)snprintf(c.name, sizeof(c.name), ".hidden");
	EQ_INT(decode(&c, 0, 0), -EPROTO, "a name that is none");
	c = sample;
	c.state = AGENT_CONTAINER_STATE_COUNT;
	EQ_INT(decode(&c, 0, 0), -EPROTO, "no such state");
	c = sample;
	*c.name = '\0';
	EQ_INT(decode(&c, 0, 0), 0, "no name");
}

static void files(int dirfd)
{
	static char big[2 * CONTAINER_STATE_MAX];
	struct agent_container got;

	EQ_INT(container_state_read(dirfd, &got), -ENOENT, "nothing there");
	EQ_INT(container_state_write(dirfd, &sample), 0, "written");
	EQ_INT(container_state_read(dirfd, &got), 0, "read");
	EQ_STR(got.name, "web", "name");
	EQ_STR(got.command, "sleep 9", "command");
	EQ_INT(got.exit.oom, 1, "oom");
	EQ_INT(got.ended_ns, 7, "end");
	EQ_INT(file_write_atomic(dirfd, CONTAINER_STATE_FILE, big, sizeof(big), 0600, false), 0,
		"an endless one");
	OK(container_state_read(dirfd, &got) < 0, "is refused");
}

int main(void)
{
	char dir[] = "/tmp/kosa8-state.XXXXXX";
	int dirfd = mkdtemp(dir) ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	OK(dirfd >= 0, "folder");
	decoding();
	files(dirfd);
	(void)close(dirfd);
	OK(file_remove_tree(AT_FDCWD, dir) == 0, "removed");
	return tap_done();
}
