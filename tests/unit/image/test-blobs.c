/* SPDX-License-Identifier: Apache-2.0 */
#include "image/blobs.h"
#include "proto/images-dir.h"
#include "store-folder.h"
#include "tap.h"

static struct store_folder f;
static char digest[REFERENCE_DIGEST_SIZE];
static const char *hex;

static int put(const char *content)
{
	struct err e;

	store_folder_digest(content, digest);
	hex = digest + strlen("sha256:");
	return blobs_put(&f.images, digest, content, strlen(content), &e);
}

static enum err_kind open_kind(void)
{
	struct err e = {0};
	uint64_t size = 0;
	cleanup_fd int fd = blobs_open(&f.images, digest, &size, &e);

	return fd >= 0 ? ERR_NONE : e.kind;
}

static void damage(mode_t mode)
{
	if (fchmodat(f.images.blobsfd, hex, 0600, 0) < 0)
		abort();
	store_folder_write(f.images.blobsfd, hex, "Damaged", 0);
	if (fchmodat(f.images.blobsfd, hex, mode, 0) < 0)
		abort();
}

static void test_put_and_read(void)
{
	cleanup_buf struct buf b = {0}, small = {0};
	struct err e = {0};

	OK(!blobs_any(&f.images), "an empty store");
	EQ_INT(put("content"), 0, "put");
	EQ_INT(put("content"), 0, "put again");
	OK(blobs_any(&f.images), "no longer empty");
	EQ_INT(store_folder_mode(f.images.blobsfd, hex), 0600, "not known to be on disk");
	EQ_INT(blobs_read(&f.images, digest, 100, &b, &e), 0, "read");
	EQ_STR(buf_cstr(&b), "content", "what was put");
	OK(blobs_read(&f.images, digest, 6, &small, &e) < 0 && e.kind == ERR_LIMIT, "too large");
	const char *list[] = {digest};
	EQ_INT(blobs_sync(&f.images, list, 1, &e), 0, "sync");
	EQ_INT(store_folder_mode(f.images.blobsfd, hex), 0400, "known to be on disk");
	EQ_INT(blobs_sync(&f.images, list, 1, &e), 0, "sync again");
	EQ_INT(blobs_verify(&f.images, digest, &e), 0, "verify");
	store_folder_digest("another", digest);
	list[0] = digest;
	OK(blobs_sync(&f.images, list, 1, &e) < 0 && e.kind == ERR_NOT_FOUND,
		"sync of a missing one");
}

static void test_damage(void)
{
	cleanup_buf struct buf b = {0};
	struct err e = {0};

	EQ_INT(put("CONTENT"), 0, "put");
	EQ_INT(open_kind(), ERR_NONE, "control: it can be opened");
	damage(0600);
	EQ_INT(open_kind(), ERR_NOT_FOUND, "a damaged one is not there");
	EQ_INT(store_folder_size(f.images.blobsfd, hex), -1, "and removed");

	EQ_INT(put("CONTENT"), 0, "put");
	damage(0400);
	EQ_INT(open_kind(), ERR_NONE, "one that was synced is believed");
	OK(blobs_verify(&f.images, digest, &e) < 0 && e.kind == ERR_CORRUPT,
		"until it is verified");
	EQ_INT(open_kind(), ERR_NOT_FOUND, "then it is removed");

	EQ_INT(put("CONTENT"), 0, "put");
	damage(0400);
	OK(blobs_read(&f.images, digest, 100, &b, &e) < 0 && e.kind == ERR_CORRUPT,
		"a document is always checked");
	EQ_INT(open_kind(), ERR_NOT_FOUND, "and removed");
}

static void test_adopt(void)
{
	const char *digest_ptr = digest;
	struct err e = {0};
	struct stat st;

	store_folder_digest("whole", digest);
	hex = digest + strlen("sha256:");
	store_folder_write(f.images.partialfd, hex, "whole", 0);
	EQ_INT(blobs_adopt(&f.images, f.images.partialfd, hex, digest, &e), 0, "adopt");
	EQ_INT(store_folder_size(f.images.partialfd, hex), -1, "moved");
	EQ_INT(open_kind(), ERR_NONE, "it is there");
	OK(blobs_adopt(&f.images, f.images.partialfd, hex, digest, &e) < 0, "nothing to adopt");
	EQ_INT(blobs_sync(&f.images, &digest_ptr, 1, &e), 0, "on disk for sure");
	store_folder_write(f.images.partialfd, hex, "whole", 0);
	EQ_INT(blobs_adopt(&f.images, f.images.partialfd, hex, digest, &e), 0, "another one");
	EQ_INT(store_folder_size(f.images.partialfd, hex), -1, "is dropped");
	EQ_INT(fstatat(f.images.blobsfd, hex, &st, AT_SYMLINK_NOFOLLOW), 0, "the first");
	EQ_INT(st.st_mode & 0777, IMAGES_BLOB_SYNCED, "stays");
	store_folder_write(f.images.blobsfd, hex, "damaged", 0);
	store_folder_write(f.images.partialfd, hex, "whole", 0);
	EQ_INT(blobs_adopt(&f.images, f.images.partialfd, hex, digest, &e), 0, "a good one");
	EQ_INT(open_kind(), ERR_NONE, "replaces a damaged one");
	if (unlinkat(f.images.blobsfd, hex, 0) < 0 ||
		symlinkat("/etc/passwd", f.images.blobsfd, hex) < 0)
		abort();
	OK(open_kind() != ERR_NONE, "a symbolic link is not followed");
}

int main(void)
{
	store_folder_make(&f);
	test_put_and_read();
	test_damage();
	test_adopt();
	store_folder_remove(&f);
	return tap_done();
}
