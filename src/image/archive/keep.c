/* SPDX-License-Identifier: Apache-2.0 */
#include "keep.h"

#include "../blobs.h"

#include "../../base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct keep_blob {
	char digest[REFERENCE_DIGEST_SIZE];
	char file[24]; /* in the work folder; "": in the store, or not given yet */
	bool here;
};

void keep_release(struct keep *k)
{
	free(k->blobs);
	k->blobs = NULL;
	k->len = 0;
}

static struct keep_blob *find(const struct keep *k, const char *digest)
{
	for (size_t i = 0; i < k->len; i++)
		if (strcmp(k->blobs[i].digest, digest) == 0)
			return &k->blobs[i];
	return NULL;
}

int keep_wants(struct keep *k, const char *digest, struct err *e)
{
	struct keep_blob *b = find(k, digest);

	if (b)
		return !b->here;
	b = reallocarray(k->blobs, k->len + 1, sizeof(*b));
	if (!b)
		return err_errno(e, ENOMEM, "a note of what is needed");
	k->blobs = b;
	b += k->len++;
	*b = (struct keep_blob){0};
	(void)snprintf(b->digest, sizeof(b->digest), "%s", digest);
	b->here = blobs_have(k->workdir->images, digest);
	return !b->here;
}

void keep_file(struct keep *k, const char *digest, const char *file)
{
	struct keep_blob *b = find(k, digest);

	if (!b || b->here)
		return;
	(void)snprintf(b->file, sizeof(b->file), "%s", file);
	b->here = true;
}

int keep_open(const struct keep *k, const char *digest, uint64_t *ret_size, struct err *e)
{
	const struct keep_blob *b = find(k, digest);
	struct stat st;

	if (!b || !b->file[0])
		return blobs_open(k->workdir->images, digest, ret_size, e);
	cleanup_fd int fd = openat(k->workdir->fd, b->file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(e, errno, "cannot open the blob %s", digest);
	*ret_size = (uint64_t)st.st_size;
	return fd_take(&fd);
}

int keep_publish(struct keep *k, struct err *e)
{
	for (size_t n = 0; n < k->len; n++) {
		struct keep_blob *b = &k->blobs[n];
		if (!b->file[0])
			continue;
		int r = blobs_adopt(k->workdir->images, k->workdir->fd, b->file, b->digest, e);
		if (r < 0)
			return r;
		b->file[0] = '\0';
	}
	return 0;
}
