/* SPDX-License-Identifier: Apache-2.0 */
#include "layer.h"

#include "../base/fd.h"
#include "../base/space.h"
#include "layer-file.h"
#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* What qemu-img writes for one, with room to spare. */
#define EMPTY_LAYER_BYTES (1024u * 1024)

int layer_create(const struct vm_host *host, int layers_dirfd, const char *id, uint64_t size_bytes,
	struct err *e)
{
	char name[LAYER_NAME_SIZE], size[32];
	int r = layer_name(id, name, e);

	if (r < 0 || (r = space_check(layers_dirfd, "a disk layer", EMPTY_LAYER_BYTES, e)) < 0)
		return r;
	(void)snprintf(size, sizeof(size), "%" PRIu64, size_bytes);
	cleanup_fd int fd = openat(
		layers_dirfd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 && errno == EEXIST)
		return err_set(e, ERR_EXISTS, 0, "there is a disk layer %s already", id);
	if (fd < 0)
		return err_errno(e, errno, "cannot make the disk layer %s", id);
	char *const argv[] = {
		(char *)host->qemu_img, "create", "-q", "-f", "qcow2", TOOL_FILE, size, NULL};
	if ((r = tool_run(argv, NULL, fd, "cannot make a disk layer", e)) >= 0)
		r = layer_check(fd, id, size_bytes, e);
	if (r < 0)
		(void)unlinkat(layers_dirfd, name, 0);
	return r < 0 ? r : 0;
}

int layer_size(int layers_dirfd, const char *id, uint64_t *ret, struct err *e)
{
	char name[LAYER_NAME_SIZE];
	struct stat st;
	int r = layer_name(id, name, e);

	if (r < 0)
		return r;
	if (fstatat(layers_dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_errno(e, errno, "the disk layer %s", id);
	*ret = (uint64_t)st.st_blocks * 512;
	return 0;
}

int layer_remove(int layers_dirfd, const char *id, struct err *e)
{
	char name[LAYER_NAME_SIZE];
	int r = layer_name(id, name, e);

	if (r < 0)
		return r;
	if (unlinkat(layers_dirfd, name, 0) < 0 && errno != ENOENT)
		return err_errno(e, errno, "cannot remove the disk layer %s", id);
	return 0;
}
