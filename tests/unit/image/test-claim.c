/* SPDX-License-Identifier: Apache-2.0 */
#include "image/blobs.h"
#include "image/claim.h"
#include "proto/images-dir.h"
#include "store-folder.h"
#include "tap.h"

#include <errno.h>

#define MB (1024 * 1024)

static struct store_folder f;
static char image[REFERENCE_DIGEST_SIZE], a[REFERENCE_DIGEST_SIZE], b[REFERENCE_DIGEST_SIZE],
	c[REFERENCE_DIGEST_SIZE];

static const char *hex(const char *digest)
{
	return digest + strlen("sha256:");
}

static struct claim take(const char *digest)
{
	struct claim x = CLAIM_NONE;
	struct err e;

	if (claim_take(&f.images, digest, NULL, &x, &e) < 0)
		abort();
	return x;
}

static void add(struct claim *x, const char *one, const char *two)
{
	const char *list[] = {one, two};
	struct err e;

	if (claim_add(x, list, two ? 2 : 1, &e) < 0)
		abort();
}

static long claim_size(const char *name)
{
	return store_folder_size(f.images.claimsfd, name);
}

static void put(const char *digest, const char *content)
{
	struct err e;

	if (blobs_put(&f.images, digest, content, 1, &e) < 0)
		abort();
}

static void test_take_and_add(void)
{
	struct claim x = take(image);

	EQ_STR(x.name, hex(image), "named after the image");
	EQ_INT(claim_size(x.name), 72, "it claims the image");
	EQ_INT(lock_test(f.images.claimsfd, x.name), 1, "it is held");
	add(&x, a, b);
	add(&x, b, a);
	EQ_INT(claim_size(x.name), 3 * 72, "each digest once");
	struct claim own = take(NULL);
	OK(own.name[0] == 'x' && strlen(own.name) == 17, "a name of its own");
	claim_release(&own, CLAIM_DONE);
	EQ_INT(claim_size(own.name), -1, "removed");
	EQ_INT(own.fd, -1, "and let go");
	claim_release(&own, CLAIM_DONE);
	claim_release(&x, CLAIM_DONE);
	EQ_INT(claim_size(hex(image)), -1, "removed");
}

static void test_of_a_killed_worker(void)
{
	struct claim x = take(image);

	add(&x, a, NULL);
	if (fd_pwrite_all(x.fd, "sha256:half", 11, 144) < 0)
		abort();
	x.fd = fd_close(x.fd); /* as a kill does */
	EQ_INT(lock_test(f.images.claimsfd, hex(image)), 0, "it is free");
	x = take(image);
	EQ_INT(claim_size(x.name), 144 + 11, "what it names stays");
	add(&x, a, b);
	EQ_INT(claim_size(x.name), 3 * 72, "half a line is overwritten");
	claim_release(&x, CLAIM_DONE);
}

static void test_discard(void)
{
	const int blobs = f.images.blobsfd, partial = f.images.partialfd;
	struct claim x = take(image), other = take(NULL);
	struct err e;

	put(a, "a");
	put(b, "b");
	put(c, "c");
	EQ_INT(blobs_sync(&f.images, (const char *const[]){c}, 1, &e), 0, "sync");
	store_folder_write(partial, hex(a), "x", 2 * MB);
	store_folder_write(partial, hex(b), "x", 2 * MB);
	add(&x, a, b);
	add(&x, c, NULL);
	add(&other, b, NULL);
	claim_release(&x, CLAIM_DISCARD);
	EQ_INT(store_folder_size(blobs, hex(a)), -1, "nobody else's blob goes");
	EQ_INT(store_folder_size(partial, hex(a)), -1, "and its partial download");
	EQ_INT(store_folder_size(blobs, hex(b)), 1, "what another claims stays");
	EQ_INT(store_folder_size(partial, hex(b)), 2 * MB, "also partial");
	EQ_INT(store_folder_size(blobs, hex(c)), 1, "what a catalog may have stays");
	EQ_INT(claim_size(hex(image)), -1, "the claim goes");
	claim_release(&other, CLAIM_DISCARD);
	EQ_INT(store_folder_size(blobs, hex(b)), -1, "the last one to claim it discards it");
	EQ_INT(store_folder_size(partial, hex(b)), -1, "also partial");
	(void)unlinkat(blobs, hex(c), 0);
}

static void test_discard_leaves_what_is_locked(void)
{
	struct claim x = take(image);

	store_folder_write(f.images.partialfd, hex(a), "x", 2 * MB);
	cleanup_fd int fd = lock_open(f.images.partialfd, hex(a), false);
	add(&x, a, NULL);
	claim_release(&x, CLAIM_DISCARD);
	OK(fd >= 0 && store_folder_size(f.images.partialfd, hex(a)) == 2 * MB,
		"its writer is alive");
	(void)unlinkat(f.images.partialfd, hex(a), 0);
}

static void test_keep(void)
{
	struct claim x = take(image);

	store_folder_write(f.images.partialfd, hex(a), "x", 2 * MB);
	store_folder_write(f.images.partialfd, hex(b), "x", MB - 1);
	add(&x, a, b);
	claim_release(&x, CLAIM_KEEP);
	EQ_INT(store_folder_size(f.images.partialfd, hex(a)), 2 * MB, "worth to be continued");
	EQ_INT(store_folder_size(f.images.partialfd, hex(b)), -1, "too small");
	EQ_INT(claim_size(hex(image)), 3 * 72, "the claim stays");
	EQ_INT(lock_test(f.images.claimsfd, hex(image)), 0, "free");
	(void)unlinkat(f.images.partialfd, hex(a), 0);
	x = take(image);
	claim_release(&x, CLAIM_KEEP);
	EQ_INT(claim_size(hex(image)), -1, "with nothing left it goes too");
}

static uint64_t growing;
static uint64_t seen(const struct wait *w)
{
	(void)w;
	growing += growing > 0 && growing < 4 * WAIT_BYTES_MIN ? WAIT_BYTES_MIN : 0;
	return growing;
}

static void test_wait(void)
{
	const struct wait w = {seen};
	struct claim x = take(image), mine = CLAIM_NONE;
	struct err e;

	if (setenv("KOSA8_PULL_WAIT_MS", "30", 1) < 0)
		abort();
	EQ_INT(claim_take(&f.images, image, &w, &mine, &e), 0, "gives up waiting");
	OK(mine.name[0] == 'x', "under a name of its own");
	EQ_INT(claim_size(mine.name), 72, "but it claims the image");
	claim_release(&mine, CLAIM_DONE);
	growing = 1;
	EQ_INT(claim_take(&f.images, image, &w, &mine, &e), 0,
		"waits as long as the other gets on");
	OK(growing >= 4 * WAIT_BYTES_MIN, "it looked");
	claim_release(&mine, CLAIM_DONE);
	claim_release(&x, CLAIM_DONE);
	EQ_INT(claim_take(&f.images, image, &w, &mine, &e), 0, "free");
	EQ_STR(mine.name, hex(image), "then it is the image's");
	claim_release(&mine, CLAIM_DONE);
}

int main(void)
{
	store_folder_make(&f);
	store_folder_digest("image", image);
	store_folder_digest("a", a);
	store_folder_digest("b", b);
	store_folder_digest("c", c);
	test_take_and_add();
	test_of_a_killed_worker();
	test_discard();
	test_discard_leaves_what_is_locked();
	test_keep();
	test_wait();
	store_folder_remove(&f);
	return tap_done();
}
