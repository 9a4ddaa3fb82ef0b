/* SPDX-License-Identifier: Apache-2.0 */
/* kosa8-tar (archive/tree-tar.h). What comes is untrusted, so it reads nothing before it can only
 * read and write the descriptors it has. */
#include "archive/tree-tar.h"

#include "unpack/confine.h"

#include "../base/fd.h"
#include "../base/json.h"
#include "../base/log.h"
#include "../proto/client.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int confine(struct err *e)
{
	int r = confine_start(TREE_TAR_REPORT_FD + 1, e);

	if (r == 0)
		r = confine_landlock(CONFINE_WORKER, e);
	if (r >= 0)
		r = confine_capabilities(e);
	return r < 0 ? r : confine_syscalls(CONFINE_WORKER, 0, e);
}

static void report(const struct err *what)
{
	cleanup_json *j = client_error_encode(what);
	cleanup_buf struct buf b = {0};

	buf_init(&b, 65536);
	if (j)
		json_put_canonical(&b, j);
	if (fd_write_all(TREE_TAR_REPORT_FD, b.data, b.len) < 0)
		log_debug("the error could not be reported");
}

int main(int argc, char **argv)
{
	bool to_tree = argc == 2 && strcmp(argv[1], "--to-tree") == 0;
	bool from_tree = argc == 3 && strcmp(argv[1], "--from-tree") == 0;
	struct err e = {0};
	int r;

	log_init("kosa8-tar", NULL);
	if (!to_tree && !from_tree) {
		(void)fprintf(stderr, "usage: kosa8-tar, started by kosa8 sandbox cp\n");
		return 2;
	}
	r = confine(&e);
	if (r == 0)
		r = to_tree ? tree_from_tar(STDIN_FILENO, STDOUT_FILENO, &e)
			    : tree_to_tar(STDIN_FILENO, STDOUT_FILENO, argv[2], &e);
	if (r < 0)
		report(&e);
	_exit(r < 0 ? 1 : 0); /* confined: exit handlers of libraries are not ours to run */
}
