/* SPDX-License-Identifier: Apache-2.0 */
/* Guest root expects what CAP_DAC_OVERRIDE gives: `rm -rf` of folders without write permission. An
 * operation that a mode forbids, of a file that is the caller's, is done with the mode widened for
 * that moment. */
#include "server.h"

#include "../base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

bool widen(struct fs *fs, const struct request *q, int error, struct node *node, int fd,
	struct widened *w)
{
	struct stat st;

	if ((error != -EACCES && error != -EPERM) || q->h.uid != 0 || fs->read_only)
		return false;
	if (fstat(fd, &st) < 0 || st.st_uid != fs->caller)
		return false;
	mode_t all = S_ISDIR(st.st_mode) ? 0700 : 0600;
	if ((!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)) || (st.st_mode & all) == all)
		return false;
	*w = (struct widened){.fd = fd, .mode = st.st_mode & 07777};
	proc_path(fd, w->proc);
	watch_own_node(fs, node);
	if (fchmodat(fs->proc_fd, w->proc, w->mode | all, 0) < 0) {
		w->fd = -1;
		return false;
	}
	return true;
}

void narrow(struct fs *fs, struct widened *w)
{
	if (w->fd >= 0 && fchmodat(fs->proc_fd, w->proc, w->mode, 0) < 0)
		log_warn("a file's mode could not be set back to %04o", w->mode);
	w->fd = -1;
}
