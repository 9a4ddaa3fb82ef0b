/* SPDX-License-Identifier: Apache-2.0 */
/* Trees out of one folder and into another, both below a root folder of the test's. */
#include "guest/copy-tree.h"

#include "base/fd.h"
#include "base/file.h"
#include "proto/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"

static char folder[] = "/tmp/test-copy.XXXXXX";
static struct copy_root root = {.fd = -1, .what = "container"};
static struct err fault;

static void must(bool ok, const char *what)
{
	if (!ok)
		OK(false, what);
}

static void make_file(const char *path, const char *text, mode_t mode)
{
	cleanup_fd int fd = openat(root.fd, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	must(fd >= 0 && fd_write_all(fd, text, strlen(text)) == 0 && fchmod(fd, mode) == 0, path);
}

static void make_dir(const char *path)
{
	must(mkdirat(root.fd, path, 0755) == 0, path);
}

static void set_time(const char *path, time_t seconds)
{
	const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {seconds, 123456789}};

	must(utimensat(root.fd, path, times, AT_SYMLINK_NOFOLLOW) == 0, path);
}

static const char *text_of(const char *path)
{
	static struct buf b;

	buf_release(&b);
	buf_init(&b, 4096);
	return file_read(root.fd, path, &b) < 0 ? NULL : buf_cstr(&b);
}

static struct stat stat_of(const char *path)
{
	struct stat st = {0};

	(void)fstatat(root.fd, path, &st, AT_SYMLINK_NOFOLLOW);
	return st;
}

static bool exists(const char *path)
{
	return stat_of(path).st_mode != 0;
}

static size_t count_names(const char *path)
{
	int fd = openat(root.fd, path, O_RDONLY | O_DIRECTORY);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	size_t n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		(void)closedir(d);
	return n < 2 ? n : n - 2;
}

/* The stream of what path is, in an unnamed file. */
static int send(const char *path, bool upper)
{
	struct copy_place_at at;
	int fd = open(folder, O_TMPFILE | O_RDWR, 0600);

	fault = (struct err){0};
	int r = copy_out_find(&root, path, &at, &fault);
	if (r == 0) {
		r = copy_out_send(&at, upper, fd, &fault);
		(void)fd_close(at.fd);
	}
	if (r < 0) {
		(void)fd_close(fd);
		return r;
	}
	(void)lseek(fd, 0, SEEK_SET);
	return fd;
}

/* Takes fd. */
static int receive(int fd, const char *path, const char *name, bool contents)
{
	struct copy_place_at at;

	fault = (struct err){0};
	int r = copy_in_find(&root, path, name, contents, &at, &fault);
	if (r == 0) {
		r = copy_in_receive(&at, getuid(), getgid(), fd, &fault);
		(void)fd_close(at.fd);
	}
	(void)fd_close(fd);
	return r;
}

static int copy(const char *from, const char *to, const char *name, bool contents)
{
	int fd = send(from, false);

	return fd < 0 ? fd : receive(fd, to, name, contents);
}

/* A stream of our own. */
struct stream {
	struct buf b;
};

static void put(struct stream *s, enum tree_type type, const char *path, const char *extra)
{
	static struct tree_entry m;

	if (!s->b.max)
		buf_init(&s->b, 1 << 20);
	m = (struct tree_entry){.type = type, .mode = 0644};
	(void)snprintf(m.path, sizeof(m.path), "%s", path);
	if (type == TREE_FILE)
		m.size = strlen(extra);
	else
		(void)snprintf(m.target, sizeof(m.target), "%s", extra);
	tree_entry_encode(&s->b, &m);
	if (type == TREE_FILE)
		buf_put(&s->b, extra, strlen(extra));
}

static int receive_cut(const struct stream *s, size_t len, const char *path)
{
	int fd = open(folder, O_TMPFILE | O_RDWR, 0600);

	must(!buf_failed(&s->b) && fd_write_all(fd, s->b.data, len) == 0, "stream");
	(void)lseek(fd, 0, SEEK_SET);
	return receive(fd, path, "t", false);
}

static int receive_stream(struct stream *s, const char *path)
{
	int r = receive_cut(s, s->b.len, path);

	buf_release(&s->b);
	return r;
}

static void make_tree(void)
{
	make_dir("from");
	make_dir("from/empty");
	make_dir("from/sub");
	make_file("from/program", "#!\n", 04755);
	make_file("from/sub/\x01\xff name", "odd\n", 0640);
	make_file("from/zero", "", 0);
	must(linkat(root.fd, "from/program", root.fd, "from/sub/twin", 0) == 0, "hard link");
	must(symlinkat("/no/where", root.fd, "from/link") == 0, "symbolic link");
	must(mkfifoat(root.fd, "from/pipe", 0600) == 0, "pipe");
	set_time("from/program", 1000000000);
	set_time("from/link", 1100000000);
	set_time("from/empty", 1200000000);
	set_time("from/sub", 1300000000);
	set_time("from", 1400000000);
	must(fchmodat(root.fd, "from/empty", 01777, 0) == 0, "mode");
	make_dir("to");
}

static void test_tree(void)
{
	EQ_INT(copy("from", "to/copy", "", false), 0, "a tree to a new name");
	struct stat st = stat_of("to/copy/program");
	OK((st.st_mode & 07777) == 04755 && st.st_mtim.tv_sec == 1000000000 &&
			st.st_mtim.tv_nsec == 123456789 && st.st_size == 3,
		"mode with setuid, time and size");
	OK(st.st_nlink == 2 && st.st_ino == stat_of("to/copy/sub/twin").st_ino, "two names");
	EQ_STR(text_of("to/copy/sub/\x01\xff name"), "odd\n", "any bytes in a name");
	st = stat_of("to/copy/link");
	OK(S_ISLNK(st.st_mode) && st.st_mtim.tv_sec == 1100000000, "a link to nothing");
	st = stat_of("to/copy/empty");
	OK((st.st_mode & 07777) == 01777 && st.st_mtim.tv_sec == 1200000000, "an empty folder");
	EQ_INT(stat_of("to/copy/sub").st_mtim.tv_sec, 1300000000,
		"the time of a folder with files");
	EQ_INT(stat_of("to/copy").st_mtim.tv_sec, 1400000000, "and of the root");
	OK(!exists("to/copy/pipe") && exists("to/copy/zero"), "no pipe, but an empty file");
	EQ_INT(count_names("to/copy"), 5, "nothing else");
}

static void test_destination(void)
{
	make_file("file", "one", 0600);
	make_file("other", "two", 0600);
	EQ_INT(copy("file", "to", "named", false), 0, "a file into a folder");
	EQ_STR(text_of("to/named"), "one", "gets its name");
	EQ_INT(copy("other", "to/named", "x", false), 0, "a file over a file");
	EQ_STR(text_of("to/named"), "two", "replaces it");
	EQ_INT(copy("file", "none/named", "x", false), -ENOENT, "a folder that is not there");
	EQ_STR(fault.what, "no such folder in the container: none/", "is named");
	EQ_INT(copy("file", "to/new/", "x", false), -ENOTDIR, "a file to a folder to be");
	EQ_INT(copy("from", "to/named", "x", false), -ENOTDIR, "a folder over a file");
	EQ_STR(text_of("to/named"), "two", "which stays");
	make_dir("to/x");
	EQ_INT(copy("file", "to", "x", false), -EISDIR, "a file over a folder");
	EQ_INT(count_names("to/x"), 0, "which stays");
	EQ_INT(copy("from/link", "to", "x", false), -EISDIR, "nor a link over it");
	EQ_INT(copy("from", "to/x", "", true), 0, "the contents of a folder into one");
	OK(exists("to/x/program") && !exists("to/x/from"), "are directly in it");
	EQ_INT(stat_of("to/x").st_mode & 07777, 0755, "which stays what it is");
	make_file("to/x/more", "kept", 0600);
	EQ_INT(copy("from", "to", "x", false), 0, "a folder into one with its name");
	EQ_STR(text_of("to/x/more"), "kept", "is merged");
	EQ_INT(copy("file", "to/x", "", true), -ENOTDIR, "a file has no contents");
	EQ_INT(copy("file", "to", "../out", false), -EINVAL, "a name is one name");
	EQ_INT(copy("nothing", "to", "x", false), -ENOENT, "what is not there");
	EQ_STR(fault.what, "no such file in the container: nothing", "is named");
}

static void test_links(void)
{
	must(symlinkat("/to", root.fd, "absolute") == 0 &&
			symlinkat("../../../to/y", root.fd, "up") == 0 &&
			symlinkat("/../../../../tmp", root.fd, "out") == 0,
		"links");
	EQ_INT(copy("absolute/named", "to/n1", "", false), 0, "a link on the way");
	EQ_STR(text_of("to/n1"), "two", "is the root's own");
	EQ_INT(copy("file", "up", "x", false), 0, "to where a link to nothing leads");
	EQ_STR(text_of("to/y"), "one", "below the root");
	OK(S_ISLNK(stat_of("up").st_mode), "the link stays");
	EQ_INT(copy("file", "out/evil", "x", false), -ENOENT, "a link out of the root");
	EQ_INT(copy("out/", "to/n2", "x", false), -ENOENT, "either way");
	EQ_INT(copy("up", "to/n3", "x", false), 0, "a last link");
	OK(S_ISLNK(stat_of("to/n3").st_mode), "is copied as one");
	EQ_INT(copy("from/../../../../file", "to/n4", "x", false), 0, "more .. than there are");
	must(symlinkat("loop", root.fd, "loop") == 0, "loop");
	EQ_INT(copy("file", "loop", "x", false), -ELOOP, "a link to itself");
	struct stream s = {0};
	put(&s, TREE_DIR, "", "");
	put(&s, TREE_SYMLINK, "l", "/to");
	put(&s, TREE_FILE, "l/evil", "evil");
	put(&s, TREE_END, "", "");
	EQ_INT(receive_stream(&s, "to/tree1"), -ENOTDIR, "a file below a link of the stream");
	OK(S_ISLNK(stat_of("to/tree1/l").st_mode) && !exists("to/evil"), "is not made");
	make_file("precious", "precious", 0600);
	make_dir("to/x/t");
	must(symlinkat("../../../precious", root.fd, "to/x/t/entry") == 0, "link");
	EQ_STR(text_of("to/x/t/entry"), "precious", "control: a link to a file");
	put(&s, TREE_DIR, "", "");
	put(&s, TREE_FILE, "entry", "new");
	put(&s, TREE_END, "", "");
	EQ_INT(receive_stream(&s, "to/x"), 0, "and a file over it");
	OK(S_ISREG(stat_of("to/x/t/entry").st_mode), "takes its place");
	EQ_STR(text_of("precious"), "precious", "and not its target's");
}

static void refuse_stream(
	enum tree_type type, const char *path, const char *extra, int want, const char *what)
{
	struct stream s = {0};

	put(&s, TREE_DIR, "", "");
	put(&s, type, path, extra);
	put(&s, TREE_END, "", "");
	EQ_INT(receive_stream(&s, "to/hostile"), want, what);
	EQ_INT(count_names("to/hostile"), 0, "and made nothing");
	(void)file_remove_tree(root.fd, "to/hostile");
}

static void test_hostile(void)
{
	struct stream s = {0};

	refuse_stream(TREE_FILE, "../evil", "x", -EPROTO, "a path upwards");
	refuse_stream(TREE_FILE, "/evil", "x", -EPROTO, "an absolute path");
	refuse_stream(TREE_FILE, "a/b", "x", -ENOENT, "a file without its folder");
	refuse_stream(TREE_HARDLINK, "a", "../../precious", -EPROTO, "a link upwards");
	refuse_stream(TREE_HARDLINK, "a", "missing", -ENOENT, "a link to nothing");
	refuse_stream(TREE_WHITEOUT, "a", "", -EPROTO, "a whiteout");
	refuse_stream(TREE_DIR, "", "", -EPROTO, "a second root");
	put(&s, TREE_FILE, "x", "x");
	EQ_INT(receive_stream(&s, "to/hostile"), -EPROTO, "no root");
	put(&s, TREE_FILE, "", "root");
	put(&s, TREE_FILE, "x", "x");
	EQ_INT(receive_stream(&s, "to/hostile"), -EPROTO, "a file below a file");
	put(&s, TREE_END, "", "");
	EQ_INT(receive_stream(&s, "to/hostile2"), -EPROTO, "no tree at all");
}

static void test_broken_stream(void)
{
	struct stream s = {0};
	size_t bad = 0;

	make_dir("cut");
	put(&s, TREE_FILE, "", "0123456789");
	size_t entry = s.b.len;
	for (size_t cut = 0; cut < entry; cut++)
		bad += receive_cut(&s, cut, "cut/file") != -ECANCELED || count_names("cut") != 0;
	EQ_INT(bad, 0, "a stream that breaks off anywhere leaves nothing");
	make_file("cut/file", "old", 0600);
	EQ_INT(receive_cut(&s, entry - 1, "cut/file"), -ECANCELED, "nor does it");
	EQ_STR(text_of("cut/file"), "old", "touch what is there");
	put(&s, TREE_END, "", "");
	EQ_INT(receive_stream(&s, "cut/file"), 0, "control: all of it");
	EQ_STR(text_of("cut/file"), "0123456789", "replaces it");
}

/* The limit on a file's size stands for a full disk. */
static void test_no_space(void)
{
	struct rlimit limit;
	struct stream s = {0};

	put(&s, TREE_FILE, "", "too much for the limit");
	put(&s, TREE_END, "", "");
	int fd = open(folder, O_TMPFILE | O_RDWR, 0600);
	must(fd_write_all(fd, s.b.data, s.b.len) == 0 && lseek(fd, 0, SEEK_SET) == 0, "stream");
	must(getrlimit(RLIMIT_FSIZE, &limit) == 0, "limit");
	limit.rlim_cur = 10;
	must(setrlimit(RLIMIT_FSIZE, &limit) == 0, "limit");
	EQ_INT(receive(fd, "cut/big", "", false), -EFBIG, "what cannot be written");
	limit.rlim_cur = RLIM_INFINITY;
	must(setrlimit(RLIMIT_FSIZE, &limit) == 0, "limit");
	OK(!exists("cut/big") && count_names("cut") == 1, "leaves nothing");
	buf_release(&s.b);
}

static void test_deep(void)
{
	char name[8] = "d";
	int at = openat(root.fd, "from/empty", O_RDONLY | O_DIRECTORY);

	for (int i = 0; i < 1500; i++) {
		must(mkdirat(at, name, 0755) == 0, "deep");
		int next = openat(at, name, O_RDONLY | O_DIRECTORY);
		(void)fd_close(at);
		at = next;
	}
	EQ_INT(copy("from/empty", "to/deep", "", false), 0, "a tree of 1500 levels");
	for (int i = 0; i < 1500; i++)
		must(mkdirat(at, name, 0755) == 0 || i > 0, "deeper");
	for (int i = 0; i < 1500; i++) {
		int next = openat(at, name, O_RDONLY | O_DIRECTORY);
		(void)fd_close(at);
		at = next;
		must(mkdirat(at, name, 0755) == 0, "deeper");
	}
	(void)fd_close(at);
	EQ_INT(send("from/empty", false), -ENAMETOOLONG, "paths that are too long");
}

/* The sender stands still with a full pipe while the file is cut. */
static void test_shrinking(void)
{
	static unsigned char got[2 << 20];
	struct tree_entry *m = calloc(1, sizeof(*m));
	int p[2], status;

	cleanup_fd int fd = openat(root.fd, "big", O_RDWR | O_CREAT, 0600);
	memset(got, 'x', 1 << 20);
	must(pipe(p) == 0 && fd_write_all(fd, got, 1 << 20) == 0, "big file");
	pid_t pid = fork();
	if (pid == 0) {
		struct copy_place_at at;
		(void)fd_close(p[0]);
		_exit(copy_out_find(&root, "big", &at, &fault) < 0 ||
			copy_out_send(&at, false, p[1], &fault) < 0);
	}
	(void)fd_close(p[1]);
	must(read(p[0], got, 1) == 1 && ftruncate(fd, 10) == 0, "cut it");
	ssize_t n = fd_read_full(p[0], got + 1, sizeof(got) - 1);
	(void)fd_close(p[0]);
	must(waitpid(pid, &status, 0) == pid && status == 0, "the sender");
	int header = tree_entry_parse(got, n < 0 ? 0 : (size_t)n + 1, m);
	OK(header > 0 && m->size == 1 << 20, "a file that shrinks while it is sent");
	size_t end = (size_t)header + (1 << 20);
	OK(got[header] == 'x' && got[end - 1] == 0, "is filled with zeros");
	OK(tree_entry_parse(got + end, (size_t)n + 1 - end, m) > 0 && m->type == TREE_END,
		"to its size");
	free(m);
}

static void test_upper(void)
{
	struct tree_entry *m = calloc(1, sizeof(*m));
	static unsigned char got[4096];

	make_dir("upper");
	must(mknodat(root.fd, "upper/gone", S_IFCHR | 0, 0) == 0, "whiteout");
	for (int upper = 0; upper < 2; upper++) {
		int fd = send("upper", upper);
		ssize_t n = fd_read_full(fd, got, sizeof(got));
		(void)fd_close(fd);
		int root_size = tree_entry_parse(got, n < 0 ? 0 : (size_t)n, m);
		must(root_size > 0, "root");
		int size = tree_entry_parse(got + root_size, (size_t)(n - root_size), m);
		OK(size > 0 && m->type == (upper ? TREE_WHITEOUT : TREE_SKIPPED),
			upper ? "a whiteout of an upper folder" : "and a device elsewhere");
		EQ_STR(m->path, "gone", "with its name");
	}
	free(m);
}

static void test_special(void)
{
	make_dir("special");
	make_dir("plain");
	make_dir("special/plain");
	make_file("plain/pipe", "x", 0644);
	must(mkfifoat(root.fd, "special/pipe", 0600) == 0 &&
			mkfifoat(root.fd, "special/plain/pipe", 0600) == 0,
		"pipes");
	EQ_INT(send("special/pipe", false), -EINVAL, "a pipe as the source");
	OK(strstr(fault.what, "no file, folder or link"), "is refused");
	EQ_INT(copy("plain/pipe", "special/pipe", "", false), -EEXIST, "a pipe where a file goes");
	OK(strstr(fault.what, "pipe is there already and is no file or folder"), "is refused");
	EQ_INT(copy("plain", "special", "plain", false), -EEXIST, "one in a folder");
	OK(strstr(fault.what, "plain/pipe is there already"), "by its name");
	OK(S_ISFIFO(stat_of("special/pipe").st_mode) &&
			S_ISFIFO(stat_of("special/plain/pipe").st_mode),
		"and nothing is replaced");
	EQ_INT(copy("plain/pipe", "special/other", "", false), 0, "beside them a file is made");
}

static void test_kernel_files(void)
{
	struct copy_root real = {.fd = open("/", O_PATH | O_DIRECTORY), .what = "container"};
	struct copy_place_at at;

	OK(copy_out_find(&real, "/proc", &at, &fault) == -EINVAL, "/proc is refused");
	OK(copy_out_find(&real, "/proc/meminfo", &at, &fault) == -EINVAL, "and a file in it");
	OK(copy_out_find(&real, "/proc/self/cwd/x", &at, &fault) < 0, "its links lead nowhere");
	EQ_INT(copy_out_find(&real, "/etc", &at, &fault), 0, "control: another folder");
	(void)fd_close(at.fd);
	(void)fd_close(real.fd);
}

int main(void)
{
	struct rlimit files = {4096, 4096};

	(void)umask(0);
	if (!mkdtemp(folder) || signal(SIGXFSZ, SIG_IGN) == SIG_ERR ||
		setrlimit(RLIMIT_NOFILE, &files) < 0)
		return 1;
	root.fd = open(folder, O_RDONLY | O_DIRECTORY);
	make_tree();
	test_tree();
	test_destination();
	test_links();
	test_hostile();
	test_broken_stream();
	test_no_space();
	test_deep();
	test_shrinking();
	test_upper();
	test_special();
	test_kernel_files();
	(void)fd_close(root.fd);
	char *argv[] = {"rm", "-rf", folder, NULL};
	if (fork() == 0)
		(void)execv("/bin/rm", argv);
	(void)wait(NULL);
	return tap_done();
}
