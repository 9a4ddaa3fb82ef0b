/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/file.h"
#include "base/sock.h"

#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static char root_path[] = "/tmp/kosa8-test-XXXXXX";

static void test_connection(int dir)
{
	cleanup_fd int listener = sock_listen(dir, "control.sock"), client = -1, server = -1;
	struct stat st;
	char text[4] = "";
	pid_t pid = 0;
	uid_t uid = 99999;

	OK(listener >= 0, "listening");
	OK(fstatat(dir, "control.sock", &st, 0) == 0 && (st.st_mode & 0777) == 0600, "mode 0600");
	client = sock_connect(dir, "control.sock");
	OK(client >= 0 && (fcntl(client, F_GETFD) & FD_CLOEXEC), "connected");
	server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	OK(fd_write_all(client, "abc", 3) == 0 && fd_read_full(server, text, 3) == 3 &&
			memcmp(text, "abc", 3) == 0,
		"bytes pass");
	EQ_INT(sock_peer(server, &pid, &uid), 0, "who it is");
	OK(pid == getpid() && uid == getuid(), "this process");
}

static void test_stale(int dir)
{
	cleanup_fd int old = sock_listen(dir, "stale.sock"), now = -1;

	fd_closep(&old);
	EQ_INT(sock_connect(dir, "stale.sock"), -ECONNREFUSED, "nobody listens there any more");
	now = sock_listen(dir, "stale.sock");
	OK(now >= 0, "a stale socket is replaced");
	cleanup_fd int client = sock_connect(dir, "stale.sock");
	OK(client >= 0, "and answers");
	EQ_INT(sock_connect(dir, "none.sock"), -ENOENT, "none there");
	OK(file_write_atomic(dir, "file", "x", 1, 0600, false) == 0 &&
			sock_connect(dir, "file") == -ECONNREFUSED,
		"a file is no socket");
	char name[200];
	memset(name, 'n', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	EQ_INT(sock_listen(dir, name), -ENAMETOOLONG, "a name too long");
}

/* sun_path holds 107 bytes; the folder's path may be longer. */
static void test_long_path(int dir)
{
	cleanup_fd int at = dup(dir);

	for (int i = 0; i < 6; i++) {
		int next = dir_open(at,
			"a-folder-with-a-rather-long-name-to-make-the-path-longer-than-a-socket",
			true, 0700);
		(void)fd_close(at);
		at = next;
	}
	cleanup_fd int listener = sock_listen(at, "control.sock");
	cleanup_fd int client = sock_connect(at, "control.sock");
	OK(listener >= 0 && client >= 0, "in a folder with a path of 400 bytes");
}

static void test_pair(void)
{
	int s[2];
	char byte = 0;

	EQ_INT(sock_pair(s), 0, "a pair");
	OK((fcntl(s[0], F_GETFD) & FD_CLOEXEC) && (fcntl(s[1], F_GETFD) & FD_CLOEXEC), "CLOEXEC");
	OK(fd_write_all(s[0], "x", 1) == 0 && fd_read_full(s[1], &byte, 1) == 1 && byte == 'x',
		"connected");
	(void)close(s[0]);
	EQ_INT(fd_read_full(s[1], &byte, 1), 0, "until one end is closed");
	(void)close(s[1]);
}

int main(void)
{
	int dir;

	if (!mkdtemp(root_path) || (dir = open(root_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		return 99;
	test_connection(dir);
	test_stale(dir);
	test_long_path(dir);
	test_pair();
	EQ_INT(file_remove_tree(AT_FDCWD, root_path), 0, "all removed");
	(void)close(dir);
	return tap_done();
}
