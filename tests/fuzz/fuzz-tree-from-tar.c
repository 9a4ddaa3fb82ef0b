/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever comes as a tar: what is taken is a tree whose every name is safe, and it comes back. */
#include "image/archive/tree-tar.h"

#include "base/fd.h"
#include "proto/tree-stream.h"

#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define OUTPUT_MAX (8u << 20) /* a sparse file, and zeros that compress well, have no end */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int entry(void *ctx, const struct tree_entry *m, struct err *e)
{
	(void)ctx;
	(void)e;
	assert(tree_path_is_safe(m->path));
	return 0;
}

static int content(void *ctx, const void *data, size_t len, struct err *e)
{
	(void)ctx;
	(void)data;
	(void)len;
	(void)e;
	return 0;
}

static int end(void *ctx, struct err *e)
{
	(void)ctx;
	(void)e;
	return 0;
}

static void check_tree(int fd)
{
	static const struct tree_sink sink = {entry, content, end, end, NULL};
	static struct tree_stream s;
	unsigned char chunk[4096];
	struct err e;
	ssize_t n;

	tree_stream_init(&s, &sink);
	for (off_t at = 0; (n = fd_pread_full(fd, chunk, sizeof(chunk), at)) > 0; at += n)
		assert(tree_stream_put(&s, chunk, (size_t)n, &e) == 0);
	assert(s.ended);
	tree_stream_release(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct rlimit limit = {OUTPUT_MAX, RLIM_INFINITY};
	struct err e;

	(void)signal(SIGXFSZ, SIG_IGN);
	assert(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	cleanup_fd int in = memfd_create("tar", MFD_CLOEXEC);
	cleanup_fd int tree = memfd_create("tree", MFD_CLOEXEC);
	cleanup_fd int back = memfd_create("back", MFD_CLOEXEC);
	assert(in >= 0 && tree >= 0 && back >= 0);
	if (fd_write_all(in, data, size) < 0 || lseek(in, 0, SEEK_SET) != 0 ||
		tree_from_tar(in, tree, &e) < 0)
		return 0;
	check_tree(tree);
	assert(lseek(tree, 0, SEEK_SET) == 0);
	/* It is larger than the tree, and may not fit. */
	(void)!tree_to_tar(tree, back, "x", &e);
	return 0;
}
