/* SPDX-License-Identifier: Apache-2.0 */
/* The sweep of the images' folder: what a row or a claim names stays, the rest goes, and what is
 * not known is left alone. */
#include "store-test.h"

#include "proto/images-dir.h"
#include "store/image-sweep.h"

#include <sys/file.h>
#include <time.h>

#define D(c) c c c c c c c c c c c c c c c c /* 4 digits to 64 */
#define ROW D("aaaa")
#define ROW_LAYER D("a1a1")
#define CLAIMED D("cccc")
#define RESUMABLE D("dddd")
#define NOBODY D("eeee")
#define RANDOM "x0123456789abcdef"

static struct home home;
static struct catalog *catalog;
static int images;

static void file(const char *path, const char *content)
{
	cleanup_fd int fd = openat(images, path, O_WRONLY | O_CREAT | O_EXCL, 0600);

	if (fd < 0 || fd_write_all(fd, content, strlen(content)) < 0)
		test_bail(path);
}

static bool there(const char *path)
{
	struct stat st;

	return fstatat(images, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static int sweep(bool all, struct image_sweep *s)
{
	cleanup_fd int lock = image_lock(&home, &test_err);

	if (lock < 0)
		test_bail("image_lock");
	s->all = all;
	return image_sweep(catalog, &home, s, &test_err);
}

/* A worker's claim, with its lock held. */
static int claim(const char *name, const char *content)
{
	char path[100];
	int fd;

	(void)snprintf(path, sizeof(path), IMAGES_CLAIMS "/%s", name);
	file(path, content);
	fd = lock_open(images, path, false);
	if (fd < 0)
		test_bail(path);
	return fd;
}

static void age(const char *path, time_t seconds)
{
	struct timespec t[2] = {{.tv_sec = time(NULL) - seconds}, {.tv_sec = time(NULL) - seconds}};

	if (utimensat(images, path, t, 0) < 0)
		test_bail(path);
}

static void fresh(void)
{
	static const char *const folders[] = {
		"blobs", IMAGES_BLOBS, IMAGES_PARTIAL, IMAGES_WORK, IMAGES_CLAIMS};
	struct image_blob blobs[] = {{"sha256:" ROW, 3}, {"sha256:" ROW_LAYER, 3}};
	struct image_new n = {.digest = "sha256:" ROW,
		.config = "{}",
		.platform = "linux/amd64",
		.blobs = blobs,
		.blobs_len = 2};

	if (catalog) {
		(void)fd_close(images);
		catalog_closep(&catalog);
		home_release(&home);
	}
	test_home(&home, &catalog);
	images = home_images_dir(&home, &test_err);
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
		if (mkdirat(images, folders[i], 0700) < 0)
			test_bail(folders[i]);
	if (catalog_image_put(catalog, &n, &test_err) < 0)
		test_bail("put");
	file(ROW IMAGES_SUFFIX, "abc");
	file(IMAGES_BLOBS "/" ROW, "abc");
	file(IMAGES_BLOBS "/" ROW_LAYER, "abc");
	file(NOBODY IMAGES_SUFFIX, "abc");
	file(IMAGES_BLOBS "/" NOBODY, "abc");
	file(IMAGES_PARTIAL "/" NOBODY, "abc");
}

static void test_rows(void)
{
	struct image_sweep s = {0};

	fresh();
	EQ_INT(sweep(false, &s), 0, "swept");
	OK(there(ROW IMAGES_SUFFIX) && there(IMAGES_BLOBS "/" ROW) &&
			there(IMAGES_BLOBS "/" ROW_LAYER),
		"what a row names stays");
	OK(!there(NOBODY IMAGES_SUFFIX) && !there(IMAGES_BLOBS "/" NOBODY) &&
			!there(IMAGES_PARTIAL "/" NOBODY),
		"the rest goes");
	EQ_INT(s.removed, 3, "three files");
	OK(s.freed_bytes > 0, "and their space");
	EQ_INT(sweep(true, &s), 0, "swept again");
	EQ_INT(s.removed + s.freed_bytes, 0, "there is nothing to do");
}

static void test_claims(void)
{
	struct image_sweep s = {0};

	fresh();
	int alive = claim(CLAIMED, "sha256:" CLAIMED "\nsha256:" NOBODY "\n");
	file(CLAIMED IMAGES_SUFFIX, "abc");
	EQ_INT(sweep(true, &s), 0, "swept");
	OK(there(CLAIMED IMAGES_SUFFIX) && there(IMAGES_BLOBS "/" NOBODY) &&
			there(NOBODY IMAGES_SUFFIX) && there(IMAGES_PARTIAL "/" NOBODY),
		"what a worker claims stays, also for prune");
	EQ_INT(s.removed, 0, "nothing went");
	alive = fd_close(alive);
	EQ_INT(sweep(false, &s), 0, "its worker was killed");
	OK(there(IMAGES_CLAIMS "/" CLAIMED) && there(IMAGES_PARTIAL "/" NOBODY),
		"the next pull may continue");
	age(IMAGES_CLAIMS "/" CLAIMED, IMAGES_RESUME_S - 60);
	EQ_INT(sweep(false, &s), 0, "a day less a minute later");
	OK(there(IMAGES_PARTIAL "/" NOBODY), "still");
	age(IMAGES_CLAIMS "/" CLAIMED, IMAGES_RESUME_S + 60);
	EQ_INT(sweep(false, &s), 0, "a day and a minute later");
	OK(!there(IMAGES_CLAIMS "/" CLAIMED) && !there(IMAGES_PARTIAL "/" NOBODY) &&
			!there(CLAIMED IMAGES_SUFFIX),
		"not any more");
	(void)alive;
}

static void test_dead_claims(void)
{
	struct image_sweep s = {0};

	fresh();
	int fd = claim(RANDOM, "sha256:" NOBODY "\n");
	EQ_INT(sweep(true, &s), 0, "swept");
	OK(there(NOBODY IMAGES_SUFFIX), "a load that is at work keeps its own");
	(void)fd_close(fd);
	EQ_INT(sweep(false, &s), 0, "it was killed");
	OK(!there(IMAGES_CLAIMS "/" RANDOM) && !there(NOBODY IMAGES_SUFFIX),
		"its claim is garbage");
	fresh();
	(void)fd_close(claim(RESUMABLE, "sha256:" NOBODY "\n"));
	EQ_INT(sweep(true, &s), 0, "pruned");
	OK(!there(IMAGES_CLAIMS "/" RESUMABLE) && !there(IMAGES_PARTIAL "/" NOBODY),
		"what could be continued goes, too");
	fresh();
	(void)fd_close(claim(RESUMABLE, "sha256:" NOBODY "\nsha256:" ROW "\nsha256:12"));
	EQ_INT(sweep(false, &s), 0, "a line that was cut off");
	OK(there(IMAGES_PARTIAL "/" NOBODY), "the lines before it count");
	fresh();
	(void)fd_close(claim(RESUMABLE, "sha256:" NOBODY "junk\nnonsense\n"));
	EQ_INT(sweep(false, &s), 0, "a claim that is none");
	OK(!there(IMAGES_PARTIAL "/" NOBODY), "names nothing");
}

static void test_folders_of_workers(void)
{
	struct image_sweep s = {0};

	fresh();
	if (mkdirat(images, IMAGES_WORK "/" NOBODY, 0700) < 0 ||
		mkdirat(images, IMAGES_WORK "/" RANDOM, 0700) < 0 ||
		mkdirat(images, IMAGES_WORK "/somebody's", 0700) < 0)
		test_bail("mkdir");
	file(IMAGES_WORK "/" NOBODY "/image", "abc");
	cleanup_fd int busy = openat(images, IMAGES_WORK "/" RANDOM, O_RDONLY);
	if (busy < 0 || flock(busy, LOCK_EX) < 0)
		test_bail("flock");
	EQ_INT(sweep(false, &s), 0, "swept");
	OK(!there(IMAGES_WORK "/" NOBODY), "a dead worker's folder goes");
	OK(there(IMAGES_WORK "/" RANDOM), "one that is locked stays");
	OK(there(IMAGES_WORK "/somebody's"), "and one that is not kosa8's");
	EQ_INT(s.removed, 5, "folder and file are counted");
}

static void test_what_is_not_known(void)
{
	static const char *const unknown[] = {"README", "notes.sqfs", IMAGES_BLOBS "/notes",
		IMAGES_PARTIAL "/notes", IMAGES_CLAIMS "/notes", NOBODY ".txt",
		IMAGES_BLOBS "/" ROW ".bak"};
	struct image_sweep s = {0};
	char canary[200];

	fresh();
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
		file(unknown[i], "abc");
	file(IMAGES_BLOBS "/" ROW ".0123456789abcdef.tmp", "abc");
	EQ_INT(sweep(true, &s), 0, "swept");
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
		OK(there(unknown[i]), unknown[i]);
	OK(!there(IMAGES_BLOBS "/" ROW ".0123456789abcdef.tmp"),
		"a temporary file of a dead writer goes");
	(void)snprintf(canary, sizeof(canary), "%s/canary", test_dir);
	if (mkdir(canary, 0700) < 0 || symlinkat(canary, images, NOBODY IMAGES_SUFFIX) < 0 ||
		symlinkat(canary, images, IMAGES_WORK "/" RESUMABLE) < 0)
		test_bail("symlink");
	(void)snprintf(canary, sizeof(canary), "%s/canary/" NOBODY, test_dir);
	cleanup_fd int fd = open(canary, O_WRONLY | O_CREAT, 0600);
	EQ_INT(sweep(true, &s), 0, "links");
	OK(fd >= 0 && access(canary, F_OK) == 0, "are not followed");
	(void)snprintf(canary, sizeof(canary), "%s/canary", test_dir);
	if (file_remove_tree(images, "blobs") < 0 || symlinkat(canary, images, "blobs") < 0)
		test_bail("symlink");
	(void)!sweep(true, &s);
	(void)snprintf(canary, sizeof(canary), "%s/canary/" NOBODY, test_dir);
	OK(access(canary, F_OK) == 0, "nor one in the place of a folder");
}

static void test_open_files(void)
{
	struct image_sweep s = {0};
	char data[4] = "";

	fresh();
	cleanup_fd int fd = openat(images, NOBODY IMAGES_SUFFIX, O_RDONLY);
	EQ_INT(sweep(false, &s), 0, "swept");
	OK(!there(NOBODY IMAGES_SUFFIX) && read(fd, data, 3) == 3 && strcmp(data, "abc") == 0,
		"who has it open can read on");
}

/* The second waits until the first lets go. */
static int take_lock(int n)
{
	struct home h;

	(void)fd_close(n); /* inherited, and with it the lock */
	return home_open(false, &h, &test_err) == 0 && image_lock(&h, &test_err) >= 0 ? 0 : 1;
}

static void test_lock(void)
{
	cleanup_fd int lock = image_lock(&home, &test_err);
	pid_t pid = test_fork(take_lock, lock);

	OK(waitpid(pid, NULL, WNOHANG) == 0, "the lock is waited for");
	lock = fd_close(lock);
	EQ_INT(test_wait(pid), 0, "and taken when it is free");
}

int main(void)
{
	test_setup();
	test_rows();
	test_claims();
	test_dead_claims();
	test_folders_of_workers();
	test_what_is_not_known();
	test_open_files();
	test_lock();
	catalog_close(catalog);
	home_release(&home);
	return tap_done();
}
