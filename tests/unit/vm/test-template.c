/* SPDX-License-Identifier: Apache-2.0 */
/* Templates with real QEMU: made once, made again when damaged, never half made. */
#include "fixture.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/hash.h"
#include "vm/template-meta.h"

#include "tap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct fixture f;

static void heard(const char *text, void *ctx)
{
	printf("# %s\n", text);
	++*(int *)ctx;
}

static int ensure(struct vm_template *t, int *ret_notices)
{
	*ret_notices = 0;
	int r = template_ensure(&f.host, &f.config, f.templates, heard, ret_notices, t, &f.e);
	if (r < 0)
		printf("# %s\n", f.e.what);
	return r;
}

/* The entries of templates/ but for locks. */
static int entries(void)
{
	int n = 0, fd = openat(f.templates, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fdopendir(fd);
	struct dirent *de;

	while (d && (de = readdir(d)))
		n += de->d_name[0] != '.' && !strstr(de->d_name, ".lock");
	if (d)
		(void)closedir(d);
	return n;
}

/* Killed as soon as the template's boot has begun to write RAM. */
static void killed_maker(void)
{
	char name[128], event[4096];
	cleanup_fd int watch = inotify_init1(IN_CLOEXEC);
	struct vm_template t;

	(void)snprintf(name, sizeof(name), "%s/templates", f.path);
	OK(watch >= 0 && inotify_add_watch(watch, name, IN_CREATE) >= 0, "watching the folder");
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	pid_t pid = fork();
	if (pid == 0)
		_exit(template_ensure(&f.host, &f.config, f.templates, NULL, NULL, &t, &f.e) < 0);
	/* The lock, then KEY.tmp. */
	ssize_t n = read(watch, event, sizeof(event));
	if (n > 0 && n < (ssize_t)(2 * sizeof(struct inotify_event)))
		n = read(watch, event, sizeof(event));
	OK(n > 0 && entries() <= 1, "a template is being made");
	(void)kill(pid, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
	OK(entries() <= 1, "its maker is killed: at most the unfinished folder is left");
	errno = 0;
	OK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "and no QEMU");
}

static void made_once(void)
{
	struct vm_template t, u;
	struct stat st;
	int notices;

	EQ_INT(ensure(&t, &notices), 0, "a template is made");
	EQ_INT(notices, 1, "and said so");
	EQ_INT(entries(), 1, "it is all there is");
	EQ_INT(t.config.memory_mb, f.config.memory_mb, "its memory");
	OK(strlen(t.key) == 16 && strlen(t.ram_id) == 16 && strlen(t.disk_id) == 16, "its names");
	OK(fstatat(t.dirfd, "ram", &st, 0) == 0 && st.st_size == 256 << 20 &&
			st.st_blocks * 512 < st.st_size * 3 / 4,
		"RAM is sparse");
	printf("# RAM %lld MB\n", (long long)st.st_blocks / 2048);
	OK(fstatat(t.dirfd, "disk.raw", &st, 0) == 0 && st.st_size == 1 << 30 &&
			st.st_blocks * 512 < 8 << 20,
		"the disk is sparse");
	printf("# disk %lld kB\n", (long long)st.st_blocks / 2);
	EQ_INT(ensure(&u, &notices), 0, "the next finds it");
	EQ_INT(notices, 0, "and is quiet");
	EQ_STR(u.ram_id, t.ram_id, "the same one");
	template_release(&u);
	EQ_INT(template_open(f.templates, t.key, &u, &f.e), 0, "it opens by its key");
	template_release(&u);
	OK(template_open(f.templates, "0123456789abcdef", &u, &f.e) < 0 &&
			f.e.kind == ERR_NOT_FOUND,
		"another key is not there");
	OK(template_open(f.templates, "../../../../etc/", &u, &f.e) < 0 && f.e.kind == ERR_INVALID,
		"a path is no key");
	template_release(&t);
}

static void touched(void)
{
	struct vm_template t, u;
	struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
	int notices;

	EQ_INT(ensure(&t, &notices), 0, "the template");
	EQ_INT(utimensat(t.dirfd, "ram", times, 0), 0, "RAM gets another time");
	EQ_INT(template_open(f.templates, t.key, &u, &f.e), 0, "the content is the same: taken");
	template_release(&u);

	cleanup_fd int ram = openat(t.dirfd, "ram", O_RDWR | O_CLOEXEC);
	EQ_INT(fd_pwrite_all(ram, "x", 1, 4096 * 1000 + 5), 0, "RAM gets another byte");
	OK(template_open(f.templates, t.key, &u, &f.e) < 0 && f.e.kind == ERR_CORRUPT, "refused");
	EQ_INT(ensure(&u, &notices), 0, "made anew");
	EQ_INT(notices, 1, "and said so");
	EQ_INT(entries(), 1, "the old one is gone");
	EQ_STR(u.key, t.key, "under the same key");
	EQ_STR(u.disk_id, t.disk_id, "with the same disk");
	OK(strcmp(u.ram_id, t.ram_id) != 0, "but with other RAM");
	template_release(&t);

	EQ_INT(unlinkat(u.dirfd, "meta.json", 0), 0, "a template without its description");
	OK(template_open(f.templates, u.key, &t, &f.e) < 0 && f.e.kind == ERR_CORRUPT,
		"is refused");
	EQ_INT(file_write_atomic(u.dirfd, "meta.json", "[]", 2, 0600, false), 0,
		"or with a wrong one");
	OK(template_open(f.templates, u.key, &t, &f.e) < 0 && f.e.kind == ERR_CORRUPT,
		"is refused");
	template_release(&u);
}

/* A guest that panics at once: its console is in the error, and nothing is left. */
static void broken_guest(void)
{
	struct vm_template t;
	int notices, before = entries();
	static const char init[] = "#!/nothing\n";

	EQ_INT(file_write_atomic(f.dirfd, "assets/initramfs", init, sizeof(init), 0600, false), 0,
		"an initramfs that is none");
	EQ_INT(vm_host_probe(f.assets, f.dirfd, &f.host, &f.e), 0, "is noticed");
	OK(ensure(&t, &notices) < 0 && f.e.kind == ERR_UNAVAILABLE, "no template comes of it");
	OK(strstr(f.e.what, "panic"), "the guest's console is in the error");
	EQ_INT(entries(), before, "nothing is left of it");
}

static void sparse_hashes(void)
{
	char a[SHA256_HEX_SIZE], b[SHA256_HEX_SIZE], c[SHA256_HEX_SIZE], zeros[65536] = {0};
	int one = fixture_file(&f, "one"), two = fixture_file(&f, "two");

	OK(ftruncate(one, 1 << 20) == 0 && ftruncate(two, 1 << 20) == 0, "two sparse files");
	OK(fd_pwrite_all(one, "data", 4, 300000) == 0 && fd_pwrite_all(two, "data", 4, 300000) == 0,
		"of one content");
	EQ_INT(fd_pwrite_all(two, zeros, sizeof(zeros), 500000), 0, "one with zeros for a hole");
	OK(sparse_hash(one, a, &f.e) == 0 && sparse_hash(two, b, &f.e) == 0, "hashed");
	EQ_STR(a, b, "alike");
	EQ_INT(fd_pwrite_all(two, "data", 4, 700000), 0, "another content");
	EQ_INT(sparse_hash(two, c, &f.e), 0, "hashed");
	OK(strcmp(a, c) != 0, "differs");
	(void)close(one);
	(void)close(two);
}

int main(int argc, char **argv)
{
	fixture_init(&f, argc, argv);
	sparse_hashes();
	killed_maker();
	made_once();
	touched();
	broken_guest();
	fixture_release(&f);
	return tap_done();
}
