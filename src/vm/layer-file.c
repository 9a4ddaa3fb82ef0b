/* SPDX-License-Identifier: Apache-2.0 */
#include "layer-file.h"

#include "../base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* QEMU docs/interop/qcow2.txt, "Header"; big-endian. */
#define QCOW2_MAGIC 0x514649fbu
#define QCOW2_VERSION 3u
#define AT_VERSION 4
#define AT_BACKING_SIZE 16
#define AT_SIZE 24
#define AT_CRYPT 32
#define AT_SNAPSHOTS 60
#define AT_INCOMPATIBLE 72
#define HEADER_SIZE 104
/* Incompatible features: dirty refcounts may be there after a crash. Not among them: an external
 * data file (bit 2), which would be opened by the name in the header. */
#define FEATURE_DIRTY 1u
#define FEATURE_CORRUPT 2u

int layer_name(const char *id, char ret[static LAYER_NAME_SIZE], struct err *e)
{
	size_t n = strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789");

	if (n == 0 || id[n] || n >= LAYER_ID_SIZE)
		return err_set(e, ERR_INVALID, 0, "\"%.40s\" is not the id of a disk layer", id);
	(void)snprintf(ret, LAYER_NAME_SIZE, "%s.qcow2", id);
	return 0;
}

static uint64_t be(const unsigned char *p, size_t bytes)
{
	uint64_t v = 0;

	for (size_t i = 0; i < bytes; i++)
		v = v << 8 | p[i];
	return v;
}

int layer_check(int fd, const char *id, uint64_t size_bytes, struct err *e)
{
	unsigned char h[HEADER_SIZE];
	ssize_t n = fd_pread_full(fd, h, sizeof(h), 0);

	if (n < 0)
		return err_errno(e, (int)-n, "reading the disk layer %s", id);
	if (n != sizeof(h) || be(h, 4) != QCOW2_MAGIC || be(h + AT_VERSION, 4) != QCOW2_VERSION)
		return err_set(
			e, ERR_CORRUPT, 0, "the disk layer %s is damaged: no qcow2 header", id);
	uint64_t features = be(h + AT_INCOMPATIBLE, 8);
	if (features & FEATURE_CORRUPT)
		return err_set(e, ERR_CORRUPT, 0, "the disk layer %s is marked as damaged", id);
	if (be(h + AT_BACKING_SIZE, 4) != 0 || be(h + AT_CRYPT, 4) != 0 ||
		be(h + AT_SNAPSHOTS, 4) != 0 || (features & ~(uint64_t)FEATURE_DIRTY) != 0)
		return err_set(e, ERR_CORRUPT, 0,
			"the disk layer %s was tampered with: its header has what kosa8 never "
			"writes",
			id);
	if (size_bytes != 0 && be(h + AT_SIZE, 8) != size_bytes)
		return err_set(e, ERR_CORRUPT, 0, "the disk layer %s has another size", id);
	return 0;
}

int layer_open(int layers_dirfd, const char *id, bool writable, uint64_t size_bytes, int *ret_fd,
	struct err *e)
{
	char name[LAYER_NAME_SIZE];
	struct stat st;
	int r = layer_name(id, name, e);

	if (r < 0)
		return r;
	cleanup_fd int fd = openat(layers_dirfd, name,
		(writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return err_errno(e, errno, "cannot open the disk layer %s", id);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(e, ERR_CORRUPT, 0, "the disk layer %s is not a file", id);
	if ((r = layer_check(fd, id, size_bytes, e)) < 0)
		return r;
	*ret_fd = fd_take(&fd);
	return 0;
}
