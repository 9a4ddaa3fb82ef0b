/* SPDX-License-Identifier: Apache-2.0 */
/* kosa8-fs: see proto/fs.h. */
#include "confine.h"
#include "server.h"
#include "table.h"

#include "../base/fd.h"
#include "../base/frame.h"
#include "../base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

struct options {
	bool read_only, restore, memory;
};

static int parse_options(int argc, char **argv, struct options *ret, struct err *e)
{
	static const struct option known[] = {{"read-only", no_argument, NULL, 'r'},
		{"restore", no_argument, NULL, 'R'}, {"memory", no_argument, NULL, 'm'}, {0}};
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
		if (c == 'r')
			ret->read_only = true;
		else if (c == 'R')
			ret->restore = true;
		else if (c == 'm')
			ret->memory = true;
		else
			break;
	}
	if (c != -1 || optind != argc) {
		(void)err_set(e, ERR_USAGE, EINVAL, "wrong arguments for kosa8-fs");
		return err_hint(e, "kosa8-fs [--read-only] [--restore] [--memory]");
	}
	return 0;
}

static int tell(int type, const char *text)
{
	struct buf b;

	buf_init(&b, FRAME_HEADER_SIZE + ERR_WHAT_MAX);
	frame_put(&b, (uint16_t)type, 0, 0, text, strlen(text));
	int r = fd_write_all(FS_SOCKET_FD, b.data, b.len);
	buf_release(&b);
	return r;
}

/* Handles and the table's descriptors: as many as may be. */
static void raise_descriptors(struct fs *fs)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0)
		return;
	l.rlim_cur = l.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &l);
	if (l.rlim_cur / 4 < fs->nodes.fds_max)
		fs->nodes.fds_max = l.rlim_cur / 4;
}

static int run(const struct options *o, struct fs *fs, struct err *e)
{
	int r = fs_init(fs, FS_SOCKET_FD, FS_ROOT_FD, o->read_only, e);

	if (r < 0)
		return r;
	if (o->memory && (r = fs_map_slots(fs, FS_MEMORY_FD)) < 0)
		return err_errno(e, -r, "the memory that is shared with the supervisor");
	raise_descriptors(fs);
	if ((r = confine_fs(FS_ROOT_FD, o->read_only, e)) < 0)
		return r;
	if (o->restore && (r = table_restore(fs, FS_TABLE_FD, e)) < 0)
		return r;
	if ((r = tell(FS_READY, "")) < 0)
		return err_errno(e, -r, "the supervisor is gone");
	return fs_serve(fs, e);
}

int main(int argc, char **argv)
{
	struct options o = {0};
	struct err e = {0};
	struct fs fs = {.proc_fd = -1, .watches.fd = -1};

	log_init("kosa8-fs", NULL);
	(void)umask(0);
	int r = parse_options(argc, argv, &o, &e);
	if (r == 0) {
		(void)close_range(FS_MEMORY_FD + 1, ~0u, 0);
		if (!o.restore)
			(void)close(FS_TABLE_FD);
		r = run(&o, &fs, &e);
		fs_release(&fs);
	}
	if (r < 0) {
		log_warn("%s", e.what);
		(void)tell(FS_FAILED, e.what);
	}
	return r < 0 ? 1 : 0;
}
