/* SPDX-License-Identifier: Apache-2.0 */
#include "terminal.h"

#include "../base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#define PTMX "/dev/pts/ptmx" /* this instance's own, whatever /dev/ptmx is by now */

int terminal_resize(int master, const struct agent_size *size)
{
	struct winsize ws = {.ws_row = size->rows, .ws_col = size->columns};

	return ioctl(master, TIOCSWINSZ, &ws) < 0 ? -errno : 0;
}

/* Terminals of today send UTF-8: the line editing of the kernel has to know it. */
static int expect_utf8(int slave)
{
	struct termios tio;

	if (tcgetattr(slave, &tio) < 0)
		return -errno;
	tio.c_iflag |= IUTF8;
	return tcsetattr(slave, TCSANOW, &tio) < 0 ? -errno : 0;
}

static int set_up(struct terminal *t, const struct agent_size *size, uid_t owner)
{
	int unlock = 0;

	if (ioctl(t->master, TIOCSPTLCK, &unlock) < 0 || ioctl(t->master, TIOCGPTN, &t->number) < 0)
		return -errno;
	/* By the master, not by a path that somebody could change. */
	t->slave = ioctl(t->master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (t->slave < 0 || fchown(t->slave, owner, (gid_t)-1) < 0 || fchmod(t->slave, 0620) < 0)
		return -errno;
	int r = expect_utf8(t->slave);
	return r < 0 ? r : terminal_resize(t->master, size);
}

int terminal_open(const struct agent_size *size, uid_t owner, struct terminal *ret, struct err *e)
{
	struct terminal t = {.slave = -1, .number = -1};

	t.master = open(PTMX, O_RDWR | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);
	int r = t.master < 0 ? -errno : set_up(&t, size, owner);
	if (r < 0) {
		terminal_close(&t);
		return err_errno(e, -r, "open a terminal");
	}
	*ret = t;
	return 0;
}

void terminal_close(struct terminal *t)
{
	t->master = fd_close(t->master);
	t->slave = fd_close(t->slave);
}

int terminal_take(int slave)
{
	if (syscall(SYS_ioctl, slave, TIOCSCTTY, 0) < 0)
		return -errno;
	for (int i = 0; i < 3; i++)
		if (syscall(SYS_dup3, slave, i, 0) < 0)
			return -errno;
	return 0;
}
