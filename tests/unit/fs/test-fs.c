/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel.h"
#include "tap.h"

#include "base/clock.h"
#include "base/file.h"
#include "fs/table.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static char top_path[] = "/tmp/kosa8-test-fs-XXXXXX";
static int top, root;

static void put(int dir, const char *name, const char *text)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		abort();
	close(fd);
}

static bool begin(struct kernel *k, struct fs *fs, bool read_only)
{
	struct err e = {0};

	*k = (struct kernel){.fs = fs};
	return OK(fs_init(fs, -1, root, read_only, &e) == 0 && hello(k) == 0, "a server starts");
}

static void test_names(void)
{
	static const char *const bad[] = {"", ".", "..", "a/b", "/", "/etc/passwd", "../canary"};
	char name[257];
	struct kernel k;
	struct fs fs;

	begin(&k, &fs, false);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct fuse_mkdir_in in = {.mode = 0755};
		struct fuse_rename_in to_root = {.newdir = 1};
		char two[64];

		EQ_INT(lookup(&k, 1, bad[i]), -EINVAL, "LOOKUP refuses a name that is none");
		EQ_INT(ask_name(&k, FUSE_MKDIR, 1, &in, sizeof(in), bad[i]), -EINVAL, "MKDIR too");
		EQ_INT(ask_name(&k, FUSE_UNLINK, 1, NULL, 0, bad[i]), -EINVAL, "UNLINK too");
		int n = snprintf(two, sizeof(two), "file%c%s", 0, bad[i]);
		unsigned char m[80];
		memcpy(m, &to_root, sizeof(to_root));
		memcpy(m + sizeof(to_root), two, (size_t)n + 1);
		EQ_INT(ask(&k, FUSE_RENAME, 1, m, sizeof(to_root) + (size_t)n + 1), -EINVAL,
			"RENAME too");
	}
	memset(name, 'n', 256);
	name[256] = '\0';
	EQ_INT(lookup(&k, 1, name), -ENAMETOOLONG, "256 bytes are too long");
	name[255] = '\0';
	uint64_t node;
	OK(create(&k, 1, name, O_RDWR, 0644, &node) > 0, "255 bytes are not");
	OK(create(&k, 1, "\xff\xfe\n\x01", O_RDWR, 0644, &node) > 0, "any bytes are a name");
	EQ_INT(ask(&k, FUSE_LOOKUP, 1, "file", 4), -EINVAL, "a name without end is refused");
	fs_release(&fs);
}

static void test_files(void)
{
	struct fuse_entry_out e;
	struct fuse_attr a;
	struct kernel k;
	struct fs fs;
	uint64_t node, other;

	begin(&k, &fs, false);
	int64_t fh = create(&k, 1, "w", O_RDWR, 04200, &node);
	OK(fh > 0, "a file is created that its mode forbids to read");
	EQ_INT(write_at(&k, node, fh, 0, 0, "hello"), 0, "it is written");
	EQ_INT(read_at(&k, node, fh, 1, 100), 0, "and read");
	OK(read_is(&k, "ello"), "what was written");
	EQ_INT(getattr(&k, node, &a), 0, "its attributes");
	EQ_INT(a.mode, S_IFREG | 0200, "no set-user-id bit reached the host");
	put(root, "w", " host");
	EQ_INT(write_at(&k, node, fh, 0, O_APPEND, " end"), 0, "appending");
	EQ_INT(read_at(&k, node, fh, 0, 100), 0, "after the host has appended");
	OK(read_is(&k, "hello host end"), "overwrites nothing");
	struct fuse_fallocate_in hole = {.fh = (uint64_t)fh,
		.offset = 0,
		.length = 5,
		.mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE};
	EQ_INT(ask(&k, FUSE_FALLOCATE, node, &hole, sizeof(hole)), 0, "a hole is punched");
	int64_t other_fh = create(&k, 1, "copy", O_RDWR, 0600, &other);
	struct fuse_copy_file_range_in copy = {.fh_in = (uint64_t)fh,
		.off_in = 6,
		.nodeid_out = other,
		.fh_out = (uint64_t)other_fh,
		.len = 4};
	EQ_INT(ask(&k, FUSE_COPY_FILE_RANGE, node, &copy, sizeof(copy)), 0, "a range is copied");
	EQ_INT(read_at(&k, other, other_fh, 0, 10), 0, "the copy is read");
	OK(read_is(&k, "host"), "and is right");
	EQ_INT(ask_name(&k, FUSE_UNLINK, 1, NULL, 0, "w"), 0, "the open file is unlinked");
	EQ_INT(getattr(&k, node, &a), 0, "and still has attributes");
	EQ_INT(a.nlink, 0, "but no name");
	EQ_INT(read_at(&k, node, fh, 6, 4), 0, "and is read by its handle");
	EQ_INT(release(&k, FUSE_RELEASE, node, fh), 0, "released");
	EQ_INT(getattr(&k, node, &a), -ESTALE, "it is no more");
	EQ_INT(release(&k, FUSE_RELEASE, node, fh), -EBADF, "a handle is released once");
	struct fuse_link_in link = {.oldnodeid = other};
	EQ_INT(ask_name(&k, FUSE_LINK, 1, &link, sizeof(link), "hard"), 0, "a hard link");
	e = entry(&k);
	EQ_INT(e.nodeid, other, "is the same node");
	EQ_INT(e.attr.nlink, 2, "with two names");
	EQ_INT(ask(&k, 999, 1, NULL, 0), -ENOSYS, "an unknown operation");
	struct fuse_getattr_in getattr_in = {0};
	EQ_INT(ask(&k, FUSE_GETATTR, 123456, &getattr_in, sizeof(getattr_in)), -ESTALE,
		"an unknown node");
	struct fuse_mknod_in dev = {.mode = S_IFCHR | 0600, .rdev = 0x103};
	EQ_INT(ask_name(&k, FUSE_MKNOD, 1, &dev, sizeof(dev), "null"), -EPERM, "no device");
	dev.mode = S_IFIFO | 0600;
	EQ_INT(ask_name(&k, FUSE_MKNOD, 1, &dev, sizeof(dev), "fifo"), 0, "a fifo is made");
	EQ_INT(open_file(&k, FUSE_OPEN, entry(&k).nodeid, O_RDONLY), -ENXIO, "and not opened here");
	fs_release(&fs);
}

static void test_links(void)
{
	struct kernel k;
	struct fs fs;

	begin(&k, &fs, false);
	int64_t link = lookup(&k, 1, "up"), f = lookup(&k, 1, "file");
	OK(link > 1 && f > 1, "a link of the host is seen");
	EQ_INT(ask(&k, FUSE_READLINK, (uint64_t)link, NULL, 0), 0, "it is read");
	OK(read_is(&k, ".."), "as it is");
	EQ_INT(lookup(&k, (uint64_t)link, "canary"), -ENOTDIR, "but not followed by LOOKUP");
	OK(open_file(&k, FUSE_OPENDIR, (uint64_t)link, 0) < 0, "nor by OPENDIR");
	EQ_INT(open_file(&k, FUSE_OPEN, (uint64_t)lookup(&k, 1, "out"), O_RDWR), -ELOOP,
		"nor by OPEN");
	uint64_t node;
	EQ_INT(create(&k, 1, "out", O_RDWR | O_TRUNC, 0600, &node), -ELOOP, "nor by CREATE");
	EQ_INT(create(&k, (uint64_t)link, "new", O_RDWR, 0600, &node), -ENOTDIR, "nor below it");
	/* Another file in a node's place. */
	if (renameat(root, "file", root, "moved") < 0)
		abort();
	put(root, "file", "another");
	struct fuse_attr a;
	EQ_INT(getattr(&k, (uint64_t)f, &a), -ESTALE, "another file is not taken for it");
	EQ_INT(open_file(&k, FUSE_OPEN, (uint64_t)f, O_RDONLY), -ESTALE, "nor opened");
	OK(lookup(&k, 1, "file") != f, "and has a number of its own");
	EQ_INT(lookup(&k, 1, "moved"), f, "the file is found where it is");
	EQ_INT(getattr(&k, (uint64_t)f, &a), 0, "and then has attributes");
	fs_release(&fs);
}

static void test_read_only(void)
{
	struct fuse_mkdir_in dir = {.mode = 0755};
	struct fuse_setattr_in set = {.valid = FATTR_MODE, .mode = 0777};
	struct kernel k;
	struct fs fs;
	uint64_t node;

	begin(&k, &fs, true);
	int64_t f = lookup(&k, 1, "file");
	OK(f > 1, "files are seen");
	int64_t fh = open_file(&k, FUSE_OPEN, (uint64_t)f, O_RDONLY);
	OK(fh > 0 && read_at(&k, (uint64_t)f, fh, 0, 7) == 0 && k.len > 0, "and read");
	EQ_INT(open_file(&k, FUSE_OPEN, (uint64_t)f, O_RDWR), -EROFS, "not opened for writing");
	EQ_INT(open_file(&k, FUSE_OPEN, (uint64_t)f, O_TRUNC), -EROFS, "nor to be emptied");
	EQ_INT(create(&k, 1, "x", O_RDWR, 0600, &node), -EROFS, "no CREATE");
	EQ_INT(ask_name(&k, FUSE_MKDIR, 1, &dir, sizeof(dir), "x"), -EROFS, "no MKDIR");
	EQ_INT(ask_name(&k, FUSE_UNLINK, 1, NULL, 0, "file"), -EROFS, "no UNLINK");
	EQ_INT(ask(&k, FUSE_SETATTR, (uint64_t)f, &set, sizeof(set)), -EROFS, "no SETATTR");
	EQ_INT(write_at(&k, (uint64_t)f, fh, 0, 0, "x"), -EROFS, "no WRITE");
	EQ_INT(ask2(&k, FUSE_SETXATTR, (uint64_t)f, "\1\0\0\0\0\0\0", 8, "user.a\0x", 8), -EROFS,
		"no SETXATTR");
	fs_release(&fs);
}

static int set_owner(struct kernel *k, const char *value)
{
	struct {
		uint32_t size, flags;
		char text[64];
	} m = {.size = (uint32_t)strlen(value), .text = "trusted.kosa8.owner"};

	memcpy(m.text + 20, value, strlen(value));
	return ask(k, FUSE_SETXATTR, 1, &m, 8 + 20 + strlen(value));
}

static void test_owner(void)
{
	struct fuse_setattr_in set = {.valid = FATTR_UID | FATTR_GID, .uid = 33, .gid = 44};
	struct fuse_attr a = {0};
	struct kernel k;
	struct fs fs;
	uint64_t node;

	begin(&k, &fs, false);
	OK(create(&k, 1, "mine", O_RDWR, 0600, &node) > 0 && getattr(&k, node, &a) == 0, "a file");
	EQ_INT(a.uid, 0, "belongs to guest root");
	EQ_INT(set_owner(&k, "1000:1001"), 0, "the mount gets another owner");
	OK(getattr(&k, node, &a) == 0 && a.uid == 1000 && a.gid == 1001, "and so do its files");
	EQ_INT(set_owner(&k, "1:2:3"), -EINVAL, "an owner is two numbers");
	EQ_INT(ask(&k, FUSE_SETATTR, node, &set, sizeof(set)), 0, "chown by root");
	OK(getattr(&k, node, &a) == 0 && a.uid == 33 && a.gid == 44, "is seen");
	struct stat st;
	OK(fstatat(root, "mine", &st, 0) == 0 && st.st_uid == geteuid(), "but not on the host");
	struct fuse_getxattr_in list = {.size = 4096};
	EQ_INT(ask(&k, FUSE_LISTXATTR, node, &list, sizeof(list)), 0, "attributes are listed");
	EQ_INT(k.len, 0, "without ours");
	EQ_INT(ask_name(&k, FUSE_GETXATTR, node, &list, sizeof(list), "user.kosa8.owner"), -ENODATA,
		"which cannot be had");
	k.uid = 5;
	set.uid = 5;
	EQ_INT(ask(&k, FUSE_SETATTR, node, &set, sizeof(set)), -EPERM, "no chown by others");
	OK(create(&k, 1, "theirs", O_RDWR, 0600, &node) > 0 && getattr(&k, node, &a) == 0,
		"another user creates a file");
	EQ_INT(a.uid, 5, "which is theirs");
	fs_release(&fs);
}

static void test_folder(void)
{
	enum { FILES = 20000 };
	struct fuse_mkdir_in in = {.mode = 0755};
	struct kernel k;
	struct fs fs;
	char name[32];

	begin(&k, &fs, false);
	EQ_INT(ask_name(&k, FUSE_MKDIR, 1, &in, sizeof(in), "many"), 0, "a folder");
	uint64_t dir = entry(&k).nodeid;
	int fd = openat(root, "many", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < FILES; i++) {
		(void)snprintf(name, sizeof(name), "f%d", i);
		int f = openat(fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		if (f < 0)
			abort();
		close(f);
	}
	int64_t fh = open_file(&k, FUSE_OPENDIR, dir, 0);
	struct fuse_read_in read = {.fh = (uint64_t)fh, .size = 65536};
	int removed = 0, failed = 0;
	while (ask(&k, FUSE_READDIRPLUS, dir, &read, sizeof(read)) == 0 && k.len > 0) {
		unsigned char *copy = malloc(k.len);
		size_t len = k.len, at = 0;
		memcpy(copy, k.reply, len);
		while (at < len) {
			struct fuse_dirent d;
			memcpy(&d, copy + at + sizeof(struct fuse_entry_out), FUSE_NAME_OFFSET);
			memset(name, 0, sizeof(name));
			memcpy(name, copy + at + sizeof(struct fuse_entry_out) + FUSE_NAME_OFFSET,
				d.namelen);
			at += FUSE_REC_ALIGN(
				sizeof(struct fuse_entry_out) + FUSE_NAME_OFFSET + d.namelen);
			read.offset = d.off;
			if (name[0] == '.')
				continue;
			removed++;
			failed += ask_name(&k, FUSE_UNLINK, dir, NULL, 0, name) != 0;
		}
		free(copy);
	}
	EQ_INT(removed, FILES, "all names are seen while they are removed");
	EQ_INT(failed, 0, "and removed");
	EQ_INT(release(&k, FUSE_RELEASEDIR, dir, fh), 0, "released");
	EQ_INT(notices(&k, 0), 0, "what the guest has removed is not told to it");
	EQ_INT(ask_name(&k, FUSE_RMDIR, 1, NULL, 0, "many"), 0, "the folder goes");
	close(fd);
	fs_release(&fs);
}

static void test_changes(void)
{
	struct kernel k;
	struct fs fs;
	uint64_t node;

	begin(&k, &fs, false);
	OK(lookup(&k, 1, "later") == 0, "a name is not there");
	OK(entry(&k).entry_valid > 60, "which the guest may keep for long");
	(void)notices(&k, 0);
	int64_t fh = create(&k, 1, "own", O_RDWR, 0600, &node);
	EQ_INT(write_at(&k, node, fh, 0, 0, "own"), 0, "own changes");
	watch_read(&fs);
	EQ_INT(notices(&k, 0), 0, "are not told");
	put(root, "later", "x");
	watch_read(&fs);
	OK(notices(&k, FUSE_NOTIFY_INVAL_ENTRY) >= 1, "a file of the host is told");
	OK(lookup(&k, 1, "later") > 1, "and found");
	put(root, "later", "y");
	watch_read(&fs);
	OK(notices(&k, FUSE_NOTIFY_INVAL_INODE) >= 1, "that it grows is told");
	if (unlinkat(root, "later", 0) < 0)
		abort();
	watch_read(&fs);
	OK(notices(&k, FUSE_NOTIFY_INVAL_ENTRY) >= 1, "its end is told");
	fs_release(&fs);
}

/* What the host's changes so far give the relay to do. */
static int told(struct kernel *k)
{
	watch_read(k->fs);
	k->fs->events.send_ms = k->fs->events.send_ms ? 1 : 0;
	events_send(k->fs);
	return notices(k, FS_EVENT);
}

static void test_relay(void)
{
	static const char relay[] = "\2\0\0\0\0\0\0\0trusted.kosa8.relay\00077";
	struct fuse_mknod_in in = {.mode = S_IFREG | 0600};
	struct fuse_setattr_in set = {.valid = FATTR_MODE | FATTR_SIZE, .mode = 0};
	struct kernel k;
	struct fs fs;

	begin(&k, &fs, false);
	EQ_INT(lookup(&k, 1, "told"), 0, "a name is not there");
	put(root, "told", "x");
	EQ_INT(told(&k), 0, "nothing is told while there is no relay");
	k.pid = 77;
	EQ_INT(ask(&k, FUSE_SETXATTR, 1, relay, sizeof(relay) - 1), 0, "the relay says who it is");
	put(root, "event", "text");
	EQ_INT(told(&k), 1, "a file of the host is told to it");
	EQ_INT(lookup(&k, 1, "event"), -ENOENT, "and not there for it");
	EQ_INT(ask_name(&k, FUSE_MKNOD, 1, &in, sizeof(in), "event"), 0, "until it has made it");
	uint64_t node = entry(&k).nodeid;
	EQ_INT(entry(&k).attr.size, 4, "which gives the file of the host");
	put(root, "event", "more");
	EQ_INT(told(&k), 1, "a change is told");
	EQ_INT(ask(&k, FUSE_SETATTR, node, &set, sizeof(set)), 0, "the relay's own");
	struct stat st;
	OK(fstatat(root, "event", &st, 0) == 0 && st.st_size == 8 && (st.st_mode & 0777) == 0644,
		"changes nothing");
	EQ_INT(ask_name(&k, FUSE_UNLINK, 1, NULL, 0, "event"), -EPERM, "nor does it remove");
	OK(faccessat(root, "event", F_OK, 0) == 0, "what is there");
	if (unlinkat(root, "event", 0) < 0)
		abort();
	EQ_INT(told(&k), 1, "its end is told");
	OK(lookup(&k, 1, "event") > 1, "the relay finds a ghost of it");
	EQ_INT(ask_name(&k, FUSE_UNLINK, 1, NULL, 0, "event"), 0, "and takes it away");
	EQ_INT(ask_name(&k, FUSE_UNLINK, 1, NULL, 0, "event"), -EPERM, "once");
	k.pid = 78;
	EQ_INT(lookup(&k, 1, "event"), 0, "others see that nothing is there");
	fs_release(&fs);
}

static void test_modes(void)
{
	struct fuse_mkdir_in in = {.mode = 0555};
	struct kernel k;
	struct fs fs;
	struct stat st;

	/* Root on the host is above modes: only a caller that is not can show the difference. */
	begin(&k, &fs, false);
	EQ_INT(ask_name(&k, FUSE_MKDIR, 1, &in, sizeof(in), "sealed"), 0, "a read-only folder");
	uint64_t dir = entry(&k).nodeid, node = 0;
	OK(create(&k, dir, "x", O_RDWR, 0, &node) > 0, "guest root creates in it");
	OK(open_file(&k, FUSE_OPEN, node, O_RDWR) > 0, "and opens what nobody may");
	OK(fstatat(root, "sealed", &st, 0) == 0 && (st.st_mode & 0777) == 0555, "its mode stays");
	OK(fstatat(root, "sealed/x", &st, 0) == 0 && (st.st_mode & 0777) == 0, "and the file's");
	k.uid = 1;
	if (geteuid() != 0) {
		EQ_INT(open_file(&k, FUSE_OPEN, node, O_RDWR), -EACCES, "another user does not");
	}
	k.uid = 0;
	struct fuse_attr attr;
	if (fchmodat(root, "sealed", 0, 0) < 0)
		abort();
	node_fd_forget(&fs.nodes, node_get(&fs.nodes, node));
	EQ_INT(getattr(&k, node, &attr), 0, "guest root sees what is in a folder of mode 0");
	OK(fstatat(root, "sealed", &st, 0) == 0 && (st.st_mode & 0777) == 0, "which keeps it");
	EQ_INT(ask_name(&k, FUSE_UNLINK, dir, NULL, 0, "x"), 0, "guest root removes in it");
	EQ_INT(ask_name(&k, FUSE_RMDIR, 1, NULL, 0, "sealed"), 0, "and the folder");
	fs_release(&fs);
}

static int saved_table(struct fs *fs)
{
	int fd = openat(top, "table", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	EQ_INT(table_save(fs, fd), 0, "the table is saved");
	lseek(fd, 0, SEEK_SET);
	return fd;
}

static void test_table(void)
{
	struct fuse_attr a;
	struct err e = {0};
	struct kernel k;
	struct fs fs;
	uint64_t kept, gone, next;

	begin(&k, &fs, false);
	int64_t kept_fh = create(&k, 1, "kept", O_RDWR, 0600, &kept);
	int64_t gone_fh = create(&k, 1, "gone", O_RDWR, 0600, &gone);
	EQ_INT(write_at(&k, kept, kept_fh, 0, 0, "before"), 0, "written");
	int fd = saved_table(&fs);
	fs_release(&fs);
	if (unlinkat(root, "gone", 0) < 0)
		abort();
	put(root, "gone", "another");

	k = (struct kernel){.fs = &fs};
	OK(fs_init(&fs, -1, root, false, &e) == 0 && table_restore(&fs, fd, &e) == 0, "restored");
	OK(notices(&k, FUSE_NOTIFY_INVAL_INODE) >= 3, "the guest is told to forget what it keeps");
	EQ_INT(read_at(&k, kept, kept_fh, 0, 100), 0, "an open file goes on");
	OK(read_is(&k, "before"), "with what is in it");
	EQ_INT(read_at(&k, gone, gone_fh, 0, 100), -ESTALE, "one that is gone is stale");
	EQ_INT(getattr(&k, gone, &a), -ESTALE, "so is its node");
	OK(create(&k, 1, "next", O_RDWR, 0600, &next) > gone_fh && next > gone, "no number twice");
	fs_release(&fs);

	struct stat st;
	int bad = 0;
	(void)fstat(fd, &st);
	for (off_t len = st.st_size - 1; len >= 0; len--) {
		if (ftruncate(fd, len) < 0 || lseek(fd, 0, SEEK_SET) < 0 ||
			fs_init(&fs, -1, root, false, &e) < 0)
			abort();
		bad += table_restore(&fs, fd, &e) < 0;
		fs_release(&fs);
	}
	EQ_INT(bad, st.st_size, "a table that was cut is refused");
	close(fd);
}

static atomic_bool swapping;

/* A folder and a link out of the tree take turns under one name. */
static void *swap(void *unused)
{
	while (swapping)
		(void)renameat2(root, "turn", root, "other", RENAME_EXCHANGE);
	return unused;
}

static void test_swap(void)
{
	int seen = 0, outside = 0;
	struct kernel k;
	struct fs fs;
	pthread_t t;
	uint64_t node;

	begin(&k, &fs, false);
	if (mkdirat(root, "turn", 0700) < 0 || symlinkat("..", root, "other") < 0)
		abort();
	put(root, "turn/canary", "inside");
	swapping = true;
	pthread_create(&t, NULL, swap, NULL);
	for (int64_t end = clock_mono_ms() + 2000; clock_mono_ms() < end;) {
		int64_t dir = lookup(&k, 1, "turn");
		int64_t f = dir > 1 ? lookup(&k, (uint64_t)dir, "canary") : 0;
		int64_t fh = f > 1 ? open_file(&k, FUSE_OPEN, (uint64_t)f, O_RDWR) : 0;
		if (fh > 0 && read_at(&k, (uint64_t)f, fh, 0, 100) == 0) {
			seen++;
			outside += !read_is(&k, "inside");
			(void)release(&k, FUSE_RELEASE, (uint64_t)f, fh);
		}
		if (dir > 1)
			(void)create(&k, (uint64_t)dir, "dropped", O_RDWR, 0600, &node);
		buf_reset(&fs.notices);
	}
	swapping = false;
	pthread_join(t, NULL);
	OK(seen > 0, "the folder's file was read at times");
	EQ_INT(outside, 0, "and never one outside");
	OK(faccessat(top, "dropped", F_OK, 0) < 0, "nor was one made outside");
	fs_release(&fs);
}

/* The host is far ahead: a guest's request waits for a piece of it only. */
static void test_flood(void)
{
	struct pollfd p = {.events = POLLIN};
	struct kernel k;
	int pieces = 0;
	struct fs fs;

	begin(&k, &fs, false);
	OK(lookup(&k, 1, "turn") > 1, "a folder is watched");
	for (int i = 0; i < 4000; i++)
		if (renameat2(root, "turn", root, "other", RENAME_EXCHANGE) < 0)
			abort();
	p.fd = fs.watches.fd;
	do {
		int64_t before = clock_mono_ms();
		watch_read(&fs);
		if (clock_mono_ms() - before > 1000)
			pieces = -1000;
		pieces++;
		buf_reset(&fs.notices);
	} while (poll(&p, 1, 0) == 1 && pieces < 16000);
	OK(pieces > 1 && pieces < 16000, "16,000 events are read in pieces, to the end");
	fs_release(&fs);
}

int main(void)
{
	(void)umask(0);
	if (!mkdtemp(top_path))
		return 1;
	top = open(top_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (mkdirat(top, "root", 0755) < 0)
		return 1;
	root = openat(top, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	put(top, "canary", "outside");
	put(root, "file", "content");
	if (symlinkat("..", root, "up") < 0 || symlinkat("../canary", root, "out") < 0)
		return 1;
	test_names();
	test_files();
	test_read_only();
	test_links();
	test_owner();
	test_folder();
	test_changes();
	test_relay();
	test_modes();
	test_table();
	test_swap();
	test_flood();
	EQ_INT(file_remove_tree(AT_FDCWD, top_path), 0, "the tree is removed");
	return tap_done();
}
