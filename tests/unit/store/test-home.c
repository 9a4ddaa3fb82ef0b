/* SPDX-License-Identifier: Apache-2.0 */
#include "store-test.h"

#include <errno.h>
#include <sys/mount.h>
#include <sched.h>

#define ID "0123456789abcdef"

static struct home home;
static char path[600];

static const char *below(const char *name)
{
	(void)snprintf(path, sizeof(path), "%s/%s", test_dir, name);
	return path;
}

static int open_home(const char *value, bool create)
{
	home_release(&home);
	(void)setenv("KOSA8_HOME", value, 1);
	return home_open(create, &home, &test_err);
}

static void test_made(void)
{
	static const char *const names[] = {".", "audit", "images", "sandboxes", "templates"};
	struct stat st;
	int good = 0;

	OK(open_home(below("new"), false) < 0 && test_err.kind == ERR_NOT_FOUND,
		"a missing one is not made unless asked");
	OK(access(path, F_OK) < 0, "and nothing is left");
	EQ_INT(open_home(below("new"), true), 0, "made");
	EQ_STR(home.path, path, "its path");
	for (size_t i = 0; i < 5; i++)
		good += fstatat(home.dirfd, names[i], &st, 0) == 0 && S_ISDIR(st.st_mode) &&
			(st.st_mode & 07777) == 0700;
	EQ_INT(good, 5, "with its folders, all 0700");
	EQ_INT(open_home(below("new"), false), 0, "opened again");
	EQ_INT(open_home(below("a/b//c/"), true), 0, "folders above it are made");
}

static void test_default(void)
{
	(void)unsetenv("KOSA8_HOME");
	(void)setenv("HOME", test_dir, 1);
	home_release(&home);
	OK(home_open(true, &home, &test_err) == 0 && strcmp(home.path, below(".kosa8")) == 0,
		"~/.kosa8 is the default");
	OK(open_home("", true) == 0 && strcmp(home.path, below(".kosa8")) == 0,
		"also when KOSA8_HOME is empty");
}

static void test_relative(void)
{
	if (chdir(test_dir) < 0)
		test_bail("chdir");
	EQ_INT(open_home("rel/home", true), 0, "a relative path");
	EQ_STR(home.path, below("rel/home"), "is made absolute");
}

static void test_long(void)
{
	char name[600];
	cleanup_fd int dir = -1;

	memset(name, 'x', sizeof(name));
	(void)snprintf(path, sizeof(path), "%s/%.90s/%.90s", test_dir, name, name);
	EQ_INT(open_home(path, true), 0, "a path of more than 180 characters");
	struct catalog *c;
	OK(catalog_open(&home, &c, &test_err) == 0, "with a catalog");
	catalog_close(c);
	dir = home_sandbox_dir(&home, ID, true, &test_err);
	OK(dir >= 0, "and a sandbox");
	int rest = 450 - snprintf(path, sizeof(path), "%s/%.200s/", test_dir, name);
	(void)snprintf(path, sizeof(path), "%s/%.200s/%.*s", test_dir, name, rest, name);
	OK(open_home(path, true) == 0 && catalog_open(&home, &c, &test_err) == 0,
		"the longest path, with a catalog");
	catalog_close(c);
	(void)snprintf(path, sizeof(path), "%s/%.200s/%.*s", test_dir, name, rest + 1, name);
	OK(open_home(path, true) < 0 && test_err.kind == ERR_LIMIT && test_err.hint[0],
		"one that SQLite cannot take is refused");
	(void)snprintf(path, sizeof(path), "%s/%.300s", test_dir, name);
	OK(open_home(path, true) < 0 && test_err.kind == ERR_LIMIT, "a name too long");
}

static void test_not_folders(void)
{
	cleanup_fd int fd = open(below("file"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	char want[300];

	OK(fd >= 0 && open_home(below("file"), true) < 0 && test_err.kind == ERR_INVALID,
		"a file in its place");
	(void)snprintf(want, sizeof(want), "%s/file is not a folder", test_dir);
	OK(strstr(test_err.what, want) && test_err.hint[0], "says so");
	OK(open_home(below("file/a/b"), true) < 0 && strstr(test_err.what, want),
		"a file above it is named");
	if (mkdir(below("half"), 0700) < 0)
		test_bail("mkdir");
	fd_closep(&fd);
	fd = open(below("half/images"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	OK(open_home(below("half"), true) < 0 && strstr(test_err.what, "half/images is not a fol"),
		"a file where a folder of its own should be");
}

static void test_others(void)
{
	if (mkdir(below("shared"), 0700) < 0)
		test_bail("mkdir");
	EQ_INT(open_home(path, true), 0, "control: a folder of one's own");
	if (chmod(below("shared"), 0770) < 0)
		test_bail("chmod");
	OK(open_home(path, true) < 0 && test_err.kind == ERR_DENIED && test_err.hint[0],
		"the group can write to it: refused");
	if (chmod(below("shared"), 0702) < 0)
		test_bail("chmod");
	OK(open_home(path, true) < 0 && test_err.kind == ERR_DENIED,
		"all can write to it: refused");
	if (chmod(below("shared"), 0755) < 0)
		test_bail("chmod");
	EQ_INT(open_home(path, true), 0, "others may read it");
	/* Another user's: of root for a user, of nobody for root. */
	if (geteuid() == 0 && chown(below("shared"), 65534, 65534) < 0)
		test_bail("chown");
	OK(open_home(geteuid() == 0 ? path : "/", true) < 0 && test_err.kind == ERR_DENIED &&
			strstr(test_err.what, "belongs to another user"),
		"another user's: refused");
	OK(test_err.hint[0], "with a hint");
}

/* In a mount namespace of its own, where that is allowed: user namespaces may be switched off. */
static int in_namespace(int n)
{
	uid_t uid = geteuid();
	char map[64];
	int good = 0;

	(void)n;
	if (unshare(uid == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return 77;
	if (uid != 0) {
		(void)snprintf(map, sizeof(map), "%u %u 1", (unsigned)uid, (unsigned)uid);
		cleanup_fd int fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
		if (fd < 0 || fd_write_all(fd, map, strlen(map)) < 0)
			return 77;
	}
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("t", below("mnt"), "tmpfs", 0, "nr_inodes=3,mode=700") < 0)
		return 77;
	if (open_home(below("mnt/home"), true) < 0 && test_err.kind == ERR_NO_SPACE &&
		strstr(test_err.what, "no space") && test_err.hint[0])
		good |= 1;
	if (mount("t", below("mnt"), "tmpfs", 0, "mode=700") < 0 ||
		open_home(below("mnt/old"), true) < 0 ||
		mount(NULL, below("mnt"), NULL, MS_REMOUNT | MS_RDONLY, NULL) < 0)
		return 77;
	if (open_home(below("mnt/new"), true) < 0 && test_err.kind == ERR_DENIED &&
		strstr(test_err.what, "read-only") && test_err.hint[0])
		good |= 2;
	if (open_home(below("mnt/old"), true) < 0 && strstr(test_err.what, "read-only"))
		good |= 4;
	return good;
}

static void test_file_systems(void)
{
	if (mkdir(below("mnt"), 0700) < 0)
		test_bail("mkdir");
	int r = test_wait(test_fork(in_namespace, 0));

	if (r == 77) {
		printf("ok %d - full and read-only file systems # SKIP no namespaces here\n",
			++tap_count);
		return;
	}
	OK(r & 1, "a full file system: a clear error");
	OK(r & 2, "a read-only file system: a clear error");
	OK(r & 4, "also when the folder is there");
}

static int hold(int fd)
{
	char byte;

	/* The lock is inherited with the descriptor; it ends with this process. */
	return read(fd, &byte, 1) == 0 ? 0 : 1;
}

static void test_lock(void)
{
	cleanup_fd int dir = -1, lock = -1, again = -1;
	int p[2];

	EQ_INT(open_home(below("locks"), true), 0, "a state directory for locks");
	OK(home_sandbox_dir(&home, ID, false, &test_err) < 0 && test_err.kind == ERR_NOT_FOUND,
		"a sandbox's folder that is missing");
	dir = home_sandbox_dir(&home, ID, true, &test_err);
	OK(dir >= 0, "made");
	EQ_INT(home_sandbox_alive(dir), 0, "nobody holds its lock");
	EQ_INT(home_sandbox_lock(dir, &lock, &test_err), 0, "taken");
	EQ_INT(home_sandbox_alive(dir), 1, "now somebody does");
	OK(home_sandbox_lock(dir, &again, &test_err) < 0 && test_err.kind == ERR_WRONG_STATE &&
			strstr(test_err.what, "busy"),
		"it cannot be taken twice");
	if (pipe(p) < 0)
		test_bail("pipe");
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		(void)close(p[1]);
		_exit(hold(p[0]));
	}
	(void)close(p[0]);
	fd_closep(&lock);
	EQ_INT(home_sandbox_alive(dir), 1, "a child that inherited it holds it");
	(void)close(p[1]);
	EQ_INT(test_wait(pid), 0, "until it ends");
	EQ_INT(home_sandbox_alive(dir), 0, "then it is free");
	EQ_INT(home_sandbox_lock(dir, &lock, &test_err), 0, "and can be taken");
}

static int ask(int rounds)
{
	cleanup_fd int dir = home_sandbox_dir(&home, ID, false, &test_err);

	for (int i = 0; i < rounds; i++)
		if (home_sandbox_alive(dir) < 0)
			return 1;
	return 0;
}

/* Asking takes nothing: who locks meanwhile is never told "busy" because of it. */
static void test_ask_race(void)
{
	cleanup_fd int dir = home_sandbox_dir(&home, ID, false, &test_err);
	pid_t pid = test_fork(ask, 20000);
	int busy = 0;

	for (int i = 0; i < 5000; i++) {
		cleanup_fd int lock = -1;
		busy += home_sandbox_lock(dir, &lock, &test_err) < 0;
	}
	EQ_INT(busy, 0, "asking whether a sandbox lives does not disturb who locks it");
	EQ_INT(test_wait(pid), 0, "and asking works meanwhile");
}

static void test_remove(void)
{
	cleanup_fd int dir = home_sandbox_dir(&home, ID, false, &test_err), lock = -1, fd = -1;

	fd = openat(dir, "layers/x.qcow2", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	OK(dir >= 0 && fd >= 0, "control: a sandbox's folder with a file");
	EQ_INT(home_sandbox_remove(&home, ID, &test_err), 0, "removed");
	OK(faccessat(home.dirfd, "sandboxes/" ID, F_OK, 0) < 0, "and gone");
	OK(home_sandbox_lock(dir, &lock, &test_err) < 0 && test_err.kind == ERR_NOT_FOUND,
		"who still has the folder open cannot lock it");
	EQ_INT(home_sandbox_alive(dir), 0, "and it is not alive");
	EQ_INT(home_sandbox_remove(&home, ID, &test_err), 0, "removing it again is no error");
	OK(home_sandbox_remove(&home, "../locks", &test_err) < 0, "an id is not a path");
	OK(home_sandbox_dir(&home, "..", true, &test_err) < 0, "nor is it elsewhere");
	cleanup_fd int images = home_images_dir(&home, &test_err);
	cleanup_fd int templates = home_templates_dir(&home, &test_err);
	OK(images >= 0 && templates >= 0, "images and templates");
}

int main(void)
{
	test_setup();
	test_made();
	test_default();
	test_relative();
	test_long();
	test_not_folders();
	test_others();
	test_file_systems();
	test_lock();
	test_ask_race();
	test_remove();
	home_release(&home);
	return tap_done();
}
