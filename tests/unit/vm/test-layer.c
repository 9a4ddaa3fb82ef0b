/* SPDX-License-Identifier: Apache-2.0 */
/* Disk layers without a VM: made, checked, merged; with the real qemu-img, qemu-io and QEMU. */
#include "vm/layer.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/hash.h"
#include "vm/layer-file.h"
#include "vm/tool.h"

#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE (256ull << 20)

static struct err e;
static char dir_path[] = "/tmp/kosa8-layers.XXXXXX";
static int dirfd_ = -1;
static struct vm_host host = {.qemu = "/usr/bin/qemu-system-x86_64", .qemu_img = "qemu-img"};

static void options(char *ret, size_t size, const char *const *ids, size_t len)
{
	size_t at = 0;
	char prefix[128] = "";

	for (size_t i = len; i-- > 0;) {
		at += (size_t)snprintf(ret + at, size - at,
			"%s%sdriver=qcow2,%sfile.driver=file,%sfile.filename=%s/%s.qcow2",
			at ? "," : "", prefix, prefix, prefix, dir_path, ids[i]);
		(void)snprintf(
			prefix + strlen(prefix), sizeof(prefix) - strlen(prefix), "backing.");
	}
}

/* The hash of what a guest reads through this chain (bottom first). */
static void view(const char *const *ids, size_t len, char ret[static SHA256_HEX_SIZE])
{
	char opts[2048], out[128];

	ret[0] = '\0';
	options(opts, sizeof(opts), ids, len);
	(void)snprintf(out, sizeof(out), "%s/view.raw", dir_path);
	char *const argv[] = {
		host.qemu_img, "convert", "-O", "raw", "--image-opts", opts, out, NULL};
	if (tool_run(argv, NULL, -1, "convert", &e) < 0) {
		printf("# %s\n", e.what);
		return;
	}
	cleanup_fd int fd = open(out, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || sha256_hex_of_fd(fd, ret) < 0)
		ret[0] = '\0';
}

static bool io(const char *const *ids, size_t len, const char *command)
{
	char opts[2048];

	options(opts, sizeof(opts), ids, len);
	char *const argv[] = {"qemu-io", "--image-opts", opts, "-c", (char *)command, NULL};
	bool ok = tool_run(argv, NULL, -1, "qemu-io", &e) == 0;
	if (!ok)
		printf("# %s\n", e.what);
	return ok;
}

static bool create(const char *id)
{
	return layer_create(&host, dirfd_, id, SIZE, &e) == 0;
}

static void creating(void)
{
	uint64_t bytes = 0;
	int fd;

	OK(create("a1"), "a layer is made");
	OK(!create("a1") && e.kind == ERR_EXISTS, "once");
	EQ_INT(layer_size(dirfd_, "a1", &bytes, &e), 0, "its size");
	OK(bytes > 0 && bytes < 1 << 20, "is small");
	EQ_INT(layer_open(dirfd_, "a1", false, SIZE, &fd, &e), 0, "it can be opened");
	(void)close(fd);
	OK(layer_open(dirfd_, "a1", false, SIZE * 2, &fd, &e) < 0 && e.kind == ERR_CORRUPT,
		"not as one of another size");
	OK(layer_open(dirfd_, "none", false, 0, &fd, &e) < 0 && e.kind == ERR_NOT_FOUND,
		"a missing one");
	static const char *const bad[] = {"", "..", "a/b", "a.b", "A", "0123456789012345678901234"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		OK(!create(bad[i]) && e.kind == ERR_INVALID, "not an id");
	EQ_INT(symlinkat("a1.qcow2", dirfd_, "link.qcow2"), 0, "a symbolic link");
	OK(layer_open(dirfd_, "link", false, 0, &fd, &e) < 0, "is not followed");
	EQ_INT(layer_remove(dirfd_, "a1", &e), 0, "removed");
	EQ_INT(layer_remove(dirfd_, "a1", &e), 0, "a second time is no error");
}

static void headers(void)
{
	static const struct {
		off_t at;
		unsigned char value;
		const char *what;
	} cases[] = {
		{0, 'X', "no qcow2"},
		{7, 2, "an older version"},
		{19, 9, "a backing file's name"},
		{35, 1, "encryption"},
		{63, 1, "an internal snapshot"},
		{79, 2, "the mark for damage"},
		{79, 4, "a data file elsewhere"},
		{72, 1, "an unknown feature"},
	};
	int fd = -1;

	OK(create("h1"), "a layer");
	cleanup_fd int raw = openat(dirfd_, "h1.qcow2", O_RDWR | O_CLOEXEC);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		unsigned char was;
		EQ_INT(pread(raw, &was, 1, cases[i].at), 1, "a byte of the header");
		EQ_INT(pwrite(raw, &cases[i].value, 1, cases[i].at), 1, "is changed");
		OK(layer_open(dirfd_, "h1", false, 0, &fd, &e) < 0 && e.kind == ERR_CORRUPT,
			cases[i].what);
		EQ_INT(pwrite(raw, &was, 1, cases[i].at), 1, "and back");
	}
	EQ_INT(layer_open(dirfd_, "h1", false, 0, &fd, &e), 0, "control: unharmed it opens");
	(void)fd_close(fd);
}

static const char *const chain[] = {"base", "parent", "child"};
static const char *const merged[] = {"base", "child"};

/* base is full of 1; parent has data, a hole cut into base, and zeros; child some of each. */
static bool make_chain(void)
{
	return create("base") && create("parent") && create("child") &&
	       io(chain, 1, "write -P 1 0 200M") && io(chain, 2, "write -P 2 10M 60M") &&
	       io(chain, 2, "write -z 90M 10M") && io(chain, 2, "write -P 3 199M 20M") &&
	       io(chain, 3, "write -P 4 20M 1M") && io(chain, 3, "write -P 5 95M 64k") &&
	       io(chain, 3, "write -z 15M 1M") && io(chain, 3, "write -P 6 240M 512");
}

static void remove_chain(void)
{
	for (size_t i = 0; i < 3; i++)
		(void)!layer_remove(dirfd_, chain[i], &e);
}

static void merging(void)
{
	char before[SHA256_HEX_SIZE], after[SHA256_HEX_SIZE], parent_was[SHA256_HEX_SIZE],
		parent_is[SHA256_HEX_SIZE];
	cleanup_fd int parent = -1;

	OK(make_chain(), "three layers");
	parent = openat(dirfd_, "parent.qcow2", O_RDONLY | O_CLOEXEC);
	EQ_INT(sha256_hex_of_fd(parent, parent_was), 0, "parent's file");
	view(chain, 3, before);
	view(merged, 2, after);
	OK(before[0] && strcmp(before, after) != 0, "control: parent matters");
	EQ_INT(layer_merge(&host, dirfd_, "child", "parent", &e), 0, "child takes parent in");
	EQ_INT(sha256_hex_of_fd(parent, parent_is), 0, "parent's file");
	EQ_STR(parent_is, parent_was, "is the same");
	view(chain, 3, after);
	EQ_STR(after, before, "child reads the same over parent");
	view(merged, 2, after);
	EQ_STR(after, before, "and without it");
	OK(layer_merge(&host, dirfd_, "child", "none", &e) < 0 && e.kind == ERR_NOT_FOUND,
		"a parent that is not there");
	remove_chain();
}

/* The merge is killed as soon as it has written to child. */
static bool kill_a_merge(void)
{
	char event[4096], path[128];
	cleanup_fd int watch = inotify_init1(IN_CLOEXEC);

	(void)snprintf(path, sizeof(path), "%s/child.qcow2", dir_path);
	if (watch < 0 || inotify_add_watch(watch, path, IN_MODIFY) < 0)
		return false;
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	pid_t pid = fork();
	if (pid == 0)
		_exit(layer_merge(&host, dirfd_, "child", "parent", &e) < 0);
	bool wrote = read(watch, event, sizeof(event)) > 0;
	(void)kill(pid, SIGKILL);
	/* Both: the one that asked for it, and its QEMU, which is ours to wait for now. */
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
	return wrote;
}

static void killed(void)
{
	char before[SHA256_HEX_SIZE], after[SHA256_HEX_SIZE];

	OK(make_chain(), "three layers");
	view(chain, 3, before);
	for (int i = 0; i < 3; i++) {
		OK(kill_a_merge(), "a merge is killed while it writes");
		view(chain, 3, after);
		EQ_STR(after, before, "child reads the same");
	}
	EQ_INT(layer_merge(&host, dirfd_, "child", "parent", &e), 0, "the next merge ends it");
	view(merged, 2, after);
	EQ_STR(after, before, "with the same content");
	remove_chain();
}

static void no_program(void)
{
	struct vm_host none = host;

	(void)snprintf(none.qemu_img, sizeof(none.qemu_img), "/nonexistent/qemu-img");
	OK(layer_create(&none, dirfd_, "n1", SIZE, &e) < 0, "without qemu-img no layer is made");
	OK(faccessat(dirfd_, "n1.qcow2", F_OK, 0) < 0, "and none is left");
}

int main(void)
{
	if (!mkdtemp(dir_path) || (dirfd_ = open(dir_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		return 1;
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	creating();
	headers();
	merging();
	killed();
	no_program();
	(void)close(dirfd_);
	OK(file_remove_tree(AT_FDCWD, dir_path) == 0, "cleaned up");
	return tap_done();
}
