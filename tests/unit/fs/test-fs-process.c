/* SPDX-License-Identifier: Apache-2.0 */
/* kosa8-fs as the supervisor starts it: argv[1]. */
#include "tap.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/frame.h"
#include "base/sock.h"
#include "proto/fs.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *program;

struct server {
	pid_t pid;
	int sock;
};

static void become_server(int sock, int root, int table, const char *flag)
{
	/* Out of the way of the numbers they get. */
	int a = fcntl(sock, F_DUPFD, 20), b = fcntl(root, F_DUPFD, 20);
	int c = table >= 0 ? fcntl(table, F_DUPFD, 20) : -1;

	if (dup2(a, FS_SOCKET_FD) < 0 || dup2(b, FS_ROOT_FD) < 0 ||
		(c >= 0 && dup2(c, FS_TABLE_FD) < 0))
		_exit(9);
	(void)execl(program, program, flag, (char *)NULL);
	_exit(9);
}

static struct server start(int root, int table, const char *flag)
{
	int pair[2];

	if (sock_pair(pair) < 0)
		abort();
	pid_t pid = fork();
	if (pid == 0)
		become_server(pair[1], root, table, flag);
	close(pair[1]);
	return (struct server){pid, pair[0]};
}

/* The next frame's type; its payload is put into data. */
static int receive(struct server *s, unsigned char *data, size_t size, size_t *ret_len)
{
	unsigned char head[FRAME_HEADER_SIZE];

	if (fd_read_full(s->sock, head, sizeof(head)) != sizeof(head))
		return -1;
	size_t len = head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16;
	if (len > size || fd_read_full(s->sock, data, len) != (ssize_t)len)
		return -1;
	*ret_len = len;
	return head[4] | head[5] << 8;
}

static int send_frame(struct server *s, uint16_t type, const void *data, size_t len, int fd)
{
	struct buf b;

	buf_init(&b, 4096);
	frame_put(&b, type, 0, 0, data, len);
	ssize_t n = fd_send_fds(s->sock, b.data, b.len, &fd, fd >= 0);
	buf_release(&b);
	return n < 0 ? (int)n : 0;
}

static int ask(struct server *s, uint32_t op, uint64_t node, const void *body, size_t body_len)
{
	static unsigned char reply[FRAME_PAYLOAD_MAX];
	unsigned char m[512];
	struct fuse_in_header h = {
		.opcode = op, .unique = 3, .nodeid = node, .len = (uint32_t)(sizeof(h) + body_len)};
	struct fuse_out_header out;
	size_t len;

	memcpy(m, &h, sizeof(h));
	memcpy(m + sizeof(h), body, body_len);
	if (send_frame(s, FS_REQUEST, m, h.len, -1) < 0)
		return -999;
	/* Notices may come before it. */
	do {
		if (receive(s, reply, sizeof(reply), &len) != FS_REPLY)
			return -999;
		memcpy(&out, reply, sizeof(out));
	} while (out.unique == 0);
	return out.error;
}

static int ready(struct server *s)
{
	unsigned char data[1024];
	size_t len;

	return receive(s, data, sizeof(data), &len);
}

static int end(struct server *s)
{
	int status;

	close(s->sock);
	if (waitpid(s->pid, &status, 0) < 0)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static bool status_has(pid_t pid, const char *line)
{
	char path[64];
	struct buf b;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	buf_init(&b, 65536);
	bool found = file_read(AT_FDCWD, path, &b) == 0 && strstr(buf_cstr(&b), line);
	buf_release(&b);
	return found;
}

static void test_life(int root, int top)
{
	const struct fuse_init_in init = {.major = 7, .minor = 36};
	unsigned char data[64];
	size_t len;
	struct server s = start(root, -1, NULL);

	EQ_INT(ready(&s), FS_READY, "it says that it is ready");
	OK(status_has(s.pid, "NoNewPrivs:\t1"), "without new privileges");
	OK(status_has(s.pid, "Seccomp:\t2"), "and with its system calls filtered");
	EQ_INT(ask(&s, FUSE_INIT, 0, &init, sizeof(init)), 0, "INIT");
	EQ_INT(ask(&s, FUSE_LOOKUP, 1, "file", 5), 0, "LOOKUP");
	EQ_INT(ask(&s, FUSE_UNLINK, 1, "other", 6), 0, "UNLINK");
	int table = openat(top, "table", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	EQ_INT(send_frame(&s, FS_SAVE, "", 0, table), 0, "a table is asked for");
	EQ_INT(receive(&s, data, sizeof(data), &len), FS_SAVED, "and told");
	OK(len == 4 && data[0] == 0 && data[1] == 0, "to be saved");
	EQ_INT(end(&s), 0, "it ends with its socket");

	lseek(table, 0, SEEK_SET);
	s = start(root, table, "--restore");
	EQ_INT(ready(&s), FS_READY, "another goes on from the table");
	struct fuse_getattr_in get = {0};
	EQ_INT(ask(&s, FUSE_GETATTR, 2, &get, sizeof(get)), 0, "and knows the node");
	EQ_INT(end(&s), 0, "it ends too");
	if (ftruncate(table, 20) < 0 || lseek(table, 0, SEEK_SET) < 0)
		abort();
	s = start(root, table, "--restore");
	EQ_INT(ready(&s), FS_FAILED, "a damaged table is told");
	EQ_INT(end(&s), 1, "and ends it");
	close(table);
}

static void test_bad(int root)
{
	struct server s = start(root, -1, NULL);

	EQ_INT(ready(&s), FS_READY, "a server");
	EQ_INT(send_frame(&s, FS_REQUEST, "short", 5, -1), 0, "gets what is no request");
	EQ_INT(ready(&s), FS_FAILED, "says so");
	EQ_INT(end(&s), 1, "and ends");
	s = start(root, -1, "--what");
	EQ_INT(ready(&s), FS_FAILED, "an unknown flag is refused");
	EQ_INT(end(&s), 1, "at once");
}

int main(int argc, char **argv)
{
	char path[] = "/tmp/kosa8-test-fs-XXXXXX";

	if (argc != 2 || !mkdtemp(path))
		return 1;
	program = argv[1];
	(void)signal(SIGPIPE, SIG_IGN);
	int top = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (top < 0 || mkdirat(top, "root", 0700) < 0 ||
		file_write_atomic(top, "root/file", "x", 1, 0600, false) < 0 ||
		file_write_atomic(top, "root/other", "x", 1, 0600, false) < 0)
		return 1;
	int root = openat(top, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	test_life(root, top);
	test_bad(root);
	close(root);
	close(top);
	EQ_INT(file_remove_tree(AT_FDCWD, path), 0, "the tree is removed");
	return tap_done();
}
