/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/file.h"
#include "base/strv.h"

#include "tap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char root_path[] = "/tmp/kosa8-test-XXXXXX";
static int root;

static int entries(int dirfd)
{
	DIR *d = fdopendir(openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	int n = -2;

	while (d && readdir(d))
		n++;
	(void)closedir(d);
	return n;
}

static void content_is(const char *name, const char *want, const char *what)
{
	cleanup_buf struct buf b;

	buf_init(&b, 4096);
	EQ_STR(file_read(root, name, &b) == 0 ? buf_cstr(&b) : NULL, want, what);
}

static void test_write(void)
{
	cleanup_buf struct buf b;
	struct stat st;

	EQ_INT(file_write_atomic(root, "f", "one", 3, 0600, true), 0, "made");
	content_is("f", "one", "its content");
	EQ_INT(file_write_atomic(root, "f", "second", 6, 0640, false), 0, "replaced");
	content_is("f", "second", "its new content");
	OK(fstatat(root, "f", &st, 0) == 0 && (st.st_mode & 0777) == 0640, "its mode");
	EQ_INT(entries(root), 1, "no temporary is left");
	buf_init(&b, 5);
	EQ_INT(file_read(root, "f", &b), -E2BIG, "longer than the maximum");
	EQ_INT(file_read(root, "none", &b), -ENOENT, "a missing file");
	if (mkdirat(root, "d", 0700) < 0)
		return;
	OK(file_write_atomic(root, "d", "x", 1, 0600, false) < 0, "a folder is not replaced");
	EQ_INT(entries(root), 2, "and no temporary is left");
	(void)unlinkat(root, "d", AT_REMOVEDIR);
}

static void test_full(void)
{
	struct rlimit limit, small;
	char big[5000] = "";

	(void)signal(SIGXFSZ, SIG_IGN);
	(void)getrlimit(RLIMIT_FSIZE, &limit);
	small = limit;
	small.rlim_cur = 100;
	(void)setrlimit(RLIMIT_FSIZE, &small);
	int r = file_write_atomic(root, "f", big, sizeof(big), 0600, true);
	(void)setrlimit(RLIMIT_FSIZE, &limit);
	EQ_INT(r, -EFBIG, "no room for the new content");
	content_is("f", "second", "the old one is there");
	EQ_INT(entries(root), 1, "and nothing else");
}

static void test_remove(void)
{
	cleanup_fd int outside = dir_open(root, "outside", true, 0700), tree = -1, below = -1;

	tree = dir_open(root, "tree", true, 0700);
	below = dir_open(tree, "below", true, 0700);
	if (outside < 0 || below < 0 ||
		file_write_atomic(outside, "canary", "x", 1, 0600, false) < 0 ||
		file_write_atomic(below, "file", "x", 1, 0600, false) < 0 ||
		symlinkat("../../outside", below, "link") < 0 ||
		symlinkat("/nonexistent", tree, "dangling") < 0)
		return;
	EQ_INT(file_remove_tree(root, "tree"), 0, "a tree removed");
	OK(faccessat(root, "tree", F_OK, 0) < 0, "and gone");
	OK(faccessat(outside, "canary", F_OK, 0) == 0, "a symbolic link is not followed");
	EQ_INT(file_remove_tree(root, "tree"), 0, "a missing one is no error");
	(void)!symlinkat("outside", root, "link");
	EQ_INT(file_remove_tree(root, "link"), 0, "a link removed");
	OK(faccessat(outside, "canary", F_OK, 0) == 0, "not what it points to");
	EQ_INT(file_remove_tree(root, "outside"), 0, "a folder with a file");
	OK(faccessat(root, "outside", F_OK, 0) < 0, "gone");
}

static int make_deep(int depth)
{
	cleanup_fd int at = dir_open(root, "deep", true, 0700);

	for (int i = 1; i < depth; i++) {
		int next = dir_open(at, "d", true, 0700);
		(void)fd_close(at);
		at = next;
		if (at < 0)
			return -1;
	}
	return 0;
}

static void test_deep(void)
{
	OK(make_deep(60) == 0 && file_remove_tree(root, "deep") == 0, "60 folders deep");
	OK(make_deep(4000) == 0 && file_remove_tree(root, "deep") == 0, "4000 folders deep");
	OK(faccessat(root, "deep", F_OK, 0) < 0, "and gone");
}

static void test_dirs(void)
{
	cleanup_fd int missing = dir_open(root, "new", false, 0700), made = -1, again = -1;

	EQ_INT(missing, -ENOENT, "a missing folder");
	made = dir_open(root, "new", true, 0700);
	again = dir_open(root, "new", true, 0700);
	OK(made >= 0 && again >= 0 && (fcntl(made, F_GETFD) & FD_CLOEXEC), "made, and opened");
	EQ_INT(dir_sync(made), 0, "synced");
	cleanup_fd int path = openat(root, "new", O_PATH | O_CLOEXEC);
	EQ_INT(dir_sync(path), 0, "also through an O_PATH descriptor");
	EQ_INT(dir_open(root, "f", true, 0700), -ENOTDIR, "a file is none");
	uint64_t free_bytes = 0;
	OK(file_free_bytes(root, &free_bytes) == 0 && free_bytes > 0, "free bytes");
}

static void test_locks(void)
{
	cleanup_fd int lock = -1, other = -1;
	int p[2], status;
	char byte;

	EQ_INT(lock_test(root, "lock"), 0, "a missing lock is free");
	lock = lock_open(root, "lock", false);
	OK(lock >= 0, "taken");
	EQ_INT(lock_test(root, "lock"), 1, "held");
	EQ_INT(lock_open(root, "lock", false), -EWOULDBLOCK, "not taken twice");
	other = openat(root, "lock", O_RDWR | O_CLOEXEC);
	EQ_INT(lock_take(other, false), -EWOULDBLOCK, "nor through another descriptor");
	/* Closing another descriptor of the file must not end it, as it would with fcntl(F_SETLK).
	 */
	fd_closep(&other);
	EQ_INT(lock_test(root, "lock"), 1, "still held");
	if (pipe2(p, O_CLOEXEC) < 0)
		return;
	pid_t pid = fork();
	if (pid == 0) {
		(void)close(p[1]);
		_exit(read(p[0], &byte, 1) != 0);
	}
	(void)close(p[0]);
	fd_closep(&lock);
	EQ_INT(lock_test(root, "lock"), 1, "a child inherits it");
	(void)close(p[1]);
	/* Waits for the child's end, not for a time. */
	lock = lock_open(root, "lock", true);
	OK(lock >= 0, "waiting for it");
	OK(waitpid(pid, &status, 0) == pid && status == 0, "the child ended");
	(void)!symlinkat("elsewhere", root, "link");
	EQ_INT(lock_open(root, "link", false), -ELOOP, "a symbolic link is no lock");
	OK(faccessat(root, "elsewhere", F_OK, 0) < 0, "and nothing is made through it");
}

int main(void)
{
	if (!mkdtemp(root_path) || (root = open(root_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		return 99;
	test_write();
	test_full();
	test_remove();
	test_deep();
	test_dirs();
	test_locks();
	EQ_INT(file_remove_tree(AT_FDCWD, root_path), 0, "all removed");
	(void)close(root);
	return tap_done();
}
