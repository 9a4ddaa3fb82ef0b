/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of store/ share: a state directory of their own, which goes when they end, and
 * child processes that run one function. */
#ifndef KOSA8_TESTS_STORE_TEST_H
#define KOSA8_TESTS_STORE_TEST_H

#include "base/buf.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/strv.h"
#include "store/audit.h"

#include "tap.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char test_dir[128]; /* a folder; the state directory is test_dir/home */
static pid_t test_owner;
static struct err test_err;

static inline void test_cleanup(void)
{
	if (getpid() == test_owner)
		(void)!file_remove_tree(AT_FDCWD, test_dir);
}

static inline void test_bail(const char *what)
{
	printf("Bail out! %s: %s\n", what, test_err.what);
	fflush(stdout);
	exit(99);
}

/* Once per program. */
static inline void test_setup(void)
{
	const char *tmp = getenv("TMPDIR");
	char home[160];

	(void)snprintf(test_dir, sizeof(test_dir), "%.80s/kosa8-test-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(test_dir))
		test_bail("mkdtemp");
	test_owner = getpid();
	(void)atexit(test_cleanup);
	(void)snprintf(home, sizeof(home), "%s/home", test_dir);
	(void)setenv("KOSA8_HOME", home, 1);
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
}

/* A new, empty state directory and its catalog. */
static inline void test_home(struct home *h, struct catalog **c)
{
	(void)!file_remove_tree(AT_FDCWD, getenv("KOSA8_HOME"));
	if (home_open(true, h, &test_err) < 0)
		test_bail("home_open");
	if (c && catalog_open(h, c, &test_err) < 0)
		test_bail("catalog_open");
}

/* Starts a child that runs fn(n) and exits with its result. */
static inline pid_t test_fork(int (*fn)(int n), int n)
{
	fflush(stdout);
	pid_t pid = fork();

	if (pid < 0)
		test_bail("fork");
	if (pid == 0)
		_exit(fn(n));
	return pid;
}

static inline int test_wait(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* The whole file; NUL-terminated. */
static inline char *test_read(const struct home *h, const char *name, size_t *ret_len)
{
	struct buf b;

	buf_init(&b, 256u << 20);
	if (file_read(h->dirfd, name, &b) < 0)
		test_bail(name);
	if (ret_len)
		*ret_len = b.len;
	return buf_take_cstr(&b);
}

static inline void test_write(const struct home *h, const char *name, const void *data, size_t len)
{
	cleanup_fd int fd = openat(h->dirfd, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || fd_write_all(fd, data, len) < 0)
		test_bail(name);
}

/* No file of this process may grow beyond so many bytes, as on a full disk; RLIM_INFINITY ends it.
 */
static inline void test_limit_files(rlim_t bytes)
{
	struct rlimit limit;

	(void)signal(SIGXFSZ, SIG_IGN);
	(void)getrlimit(RLIMIT_FSIZE, &limit);
	limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
	(void)setrlimit(RLIMIT_FSIZE, &limit);
}

#endif
