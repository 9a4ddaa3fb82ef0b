/* SPDX-License-Identifier: Apache-2.0 */
/* Real QEMU: VMs from one template, checkpoints, restores. */
#include "fixture.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"

#include "tap.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

struct checkpoint {
	int pages, device;
	struct vm_capture figures;
};

static struct fixture f;
static struct vm_template t = {.dirfd = -1};
static int template_device = -1;
static uint32_t epoch;

static bool new_layer(const char *id)
{
	return layer_create(&f.host, f.layers, id, TEST_LAYER_BYTES, &f.e) == 0;
}

static bool fresh(struct guest *g, const char *layer)
{
	return new_layer(layer) && guest_start(g, &f, &t, layer, -1, template_device, ++epoch);
}

static bool take(struct guest *g, struct checkpoint *c, const char *name, const char *layer)
{
	char file[64];
	bool moved = false;

	(void)snprintf(file, sizeof(file), "%s.pages", name);
	c->pages = fixture_file(&f, file);
	(void)snprintf(file, sizeof(file), "%s.device", name);
	c->device = fixture_file(&f, file);
	if (!new_layer(layer))
		return false;
	int64_t from = clock_mono_us();
	bool ok = vm_pause(g->vm, &f.e) == 0 &&
		  vm_capture(g->vm, c->pages, c->device, layer, &c->figures, &moved, &f.e) == 0 &&
		  vm_run(g->vm, &f.e) == 0 && moved;
	int64_t pause_us = clock_mono_us() - from;
	const struct vm_capture *v = &c->figures;
	printf("# pause %lld us: %llu pages (%llu zero), scan %lld, copy %lld, device %lld (%llu "
	       "bytes), disk %lld us\n",
		(long long)pause_us, (unsigned long long)v->pages,
		(unsigned long long)v->zero_pages, (long long)v->scan_us, (long long)v->copy_us,
		(long long)v->device_us, (unsigned long long)v->device_bytes,
		(long long)v->disk_us);
	if (!ok)
		printf("# %s\n", f.e.what);
	return ok;
}

static bool restore(struct guest *g, const struct checkpoint *c, const char *layers)
{
	return guest_start(g, &f, &t, layers, c->pages, c->device, ++epoch);
}

static void drop(struct checkpoint *c)
{
	c->pages = fd_close(c->pages);
	c->device = fd_close(c->device);
}

static void two_at_once(void)
{
	struct guest a, b;

	OK(fresh(&a, "twoa"), "a VM starts from the template");
	OK(fresh(&b, "twob"), "another one beside it");
	EQ_STR(guest_ask(&a, "get"), "(nothing)", "the template's memory");
	(void)guest_ask(&a, "set alpha");
	(void)guest_ask(&b, "set beta");
	EQ_STR(guest_ask(&a, "get"), "alpha", "one has its own memory");
	EQ_STR(guest_ask(&b, "get"), "beta", "and so has the other");
	EQ_STR(guest_ask(&a, "mount"), "mounted", "the disk of one");
	EQ_STR(guest_ask(&b, "mount"), "mounted", "the disk of the other");
	EQ_STR(guest_ask(&a, "write f from-a"), "written", "a file on one");
	EQ_STR(guest_ask(&b, "read f"), "No such file or directory", "is not on the other");
	guest_release(&a);
	EQ_STR(guest_ask(&b, "get"), "beta", "one goes, the other stays");
	guest_release(&b);
}

/*  b1 --c1--> b2 --c2--> b3
 *        \--> b4 --c3--> b5   */
static void branches(void)
{
	struct guest g;
	struct checkpoint c1, c2, c3;
	static const struct {
		int which;
		const char *layers, *memory, *one, *two, *three;
	} back[] = {
		{2, "b1 b2 r1", "second", "No such file or directory", "2",
			"No such file or directory"},
		{3, "b1 b4 r2", "third", "1", "No such file or directory", "3"},
		{1, "b1 r3", "first", "1", "No such file or directory",
			"No such file or directory"},
		{3, "b1 b4 r4", "third", "1", "No such file or directory", "3"},
	};

	OK(fresh(&g, "b1"), "a VM");
	(void)guest_ask(&g, "mount");
	(void)guest_ask(&g, "set first");
	EQ_STR(guest_ask(&g, "write one 1"), "written", "a file before the first checkpoint");
	OK(take(&g, &c1, "c1", "b2"), "the first checkpoint");
	EQ_STR(guest_ask(&g, "get"), "first", "the VM goes on after it");
	(void)guest_ask(&g, "set second");
	EQ_STR(guest_ask(&g, "write two 2"), "written", "a file written after it");
	EQ_STR(guest_ask(&g, "rm one"), "removed", "and one deleted after it");
	OK(take(&g, &c2, "c2", "b3"), "the second checkpoint");
	guest_release(&g);

	OK(new_layer("b4") && restore(&g, &c1, "b1 b4"), "back to the first");
	EQ_STR(guest_ask(&g, "get"), "first", "its memory is back");
	EQ_STR(guest_ask(&g, "read one"), "1", "the deleted file is back");
	EQ_STR(guest_ask(&g, "read two"), "No such file or directory", "the later file is gone");
	(void)guest_ask(&g, "set third");
	EQ_STR(guest_ask(&g, "write three 3"), "written", "another branch");
	OK(take(&g, &c3, "c3", "b5"), "its checkpoint");
	guest_release(&g);

	for (size_t i = 0; i < sizeof(back) / sizeof(back[0]); i++) {
		const char *layer = strrchr(back[i].layers, ' ') + 1;
		const struct checkpoint *c = back[i].which == 1	  ? &c1
					     : back[i].which == 2 ? &c2
								  : &c3;
		OK(new_layer(layer) && restore(&g, c, back[i].layers), "any order");
		EQ_STR(guest_ask(&g, "get"), back[i].memory, "memory");
		EQ_STR(guest_ask(&g, "read one"), back[i].one, "first file");
		EQ_STR(guest_ask(&g, "read two"), back[i].two, "second file");
		EQ_STR(guest_ask(&g, "read three"), back[i].three, "third file");
		guest_release(&g);
	}
	drop(&c1);
	drop(&c2);
	drop(&c3);
}

static void much_memory(void)
{
	struct guest g;
	struct checkpoint c;
	char sum[64], ms[32];

	OK(fresh(&g, "m1"), "a VM");
	EQ_STR(guest_ask(&g, "dirty 25"), "dirty", "25 MB are changed");
	(void)snprintf(sum, sizeof(sum), "%s", guest_ask(&g, "sum"));
	OK(take(&g, &c, "m", "m2"), "a checkpoint");
	OK(c.figures.pages >= 6400 && c.figures.pages < 20000, "has these pages and few more");
	OK(c.figures.zero_pages < c.figures.pages, "and not all are zero");
	guest_release(&g);
	OK(new_layer("m3") && restore(&g, &c, "m1 m3"), "restored");
	EQ_STR(guest_ask(&g, "sum"), sum, "the memory is the same");
	(void)snprintf(ms, sizeof(ms), "%s", guest_ask(&g, "ms"));
	OK(ms[0] && guest_leaves(&g, "ms", ms), "its clock goes on");
	guest_release(&g);
	drop(&c);
}

static bool waits_for(struct vm *vm, enum vm_event want)
{
	struct pollfd p = {.fd = vm_qmp_fd(vm), .events = POLLIN};
	enum vm_event got = VM_EVENT_NONE;

	for (int i = 0; i < 50 && got != want; i++) {
		got = vm_events(vm);
		if (got == VM_EVENT_NONE && poll(&p, 1, 20000) <= 0)
			return false;
	}
	return got == want;
}

static void images(void)
{
	struct guest g;
	struct checkpoint c;
	static const char text[] = "an image's start";
	int fd = fixture_file(&f, "image");

	EQ_INT(fd_pwrite_all(fd, text, 16, 0), 0, "an image");
	EQ_INT(ftruncate(fd, 1 << 20), 0, "of 1 MB");
	(void)fd_close(fd);
	struct vm_image image = {.lun = 7, .fd = openat(f.dirfd, "image", O_RDONLY | O_CLOEXEC)};
	OK(fresh(&g, "i1"), "a VM");
	EQ_INT(vm_attach(g.vm, &image, &f.e), 0, "the image is attached");
	OK(vm_attach(g.vm, &image, &f.e) < 0 && f.e.kind == ERR_EXISTS, "not twice");
	OK(guest_becomes(&g, "lun 7", text), "the guest reads it");
	OK(take(&g, &c, "i", "i2"), "a checkpoint");
	guest_release(&g);

	const char *layers[] = {"i1", "i3"};
	struct vm_start s = {.host = &f.host,
		.template = &t,
		.layers_dirfd = f.layers,
		.layers = layers,
		.layers_len = 2,
		.images = &image,
		.images_len = 1,
		.log_fd = f.log_fd};
	struct vm *vm = NULL;
	OK(new_layer("i3") && vm_start(&s, &vm, &f.e) == 0, "a new VM with the image");
	EQ_INT(vm_load(vm, c.pages, c.device, &f.e), 0, "takes the state");
	EQ_INT(vm_run(vm, &f.e), 0, "and runs");
	vm_freep(&vm);
	s.images_len = 0;
	EQ_INT(vm_start(&s, &vm, &f.e), 0, "control: a VM without the image");
	OK(vm_load(vm, c.pages, c.device, &f.e) < 0 && f.e.kind == ERR_CORRUPT, "does not take it");
	printf("# %s\n", f.e.what);
	vm_freep(&vm);
	drop(&c);
	(void)fd_close(image.fd);
}

/* "Name:\tvalue" of /proc/PID/status. */
static bool status_is(pid_t pid, const char *line)
{
	char path[64];
	cleanup_buf struct buf b = {0};

	buf_init(&b, 65536);
	(void)snprintf(path, sizeof(path), "/proc/%d/status", pid);
	return file_read(AT_FDCWD, path, &b) == 0 && buf_cstr(&b) && strstr(buf_cstr(&b), line);
}

/* The descriptors of the process that are open on the RAM file, by access mode. */
static void count_ram(pid_t pid, int *ret_readers, int *ret_writers)
{
	char path[64], fd_path[96], target[256];
	struct dirent *de;

	*ret_readers = *ret_writers = 0;
	(void)snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	DIR *d = opendir(path);
	while (d && (de = readdir(d))) {
		struct stat st;
		(void)snprintf(fd_path, sizeof(fd_path), "%s/%.16s", path, de->d_name);
		ssize_t n = readlink(fd_path, target, sizeof(target) - 1);
		target[n < 0 ? 0 : n] = '\0';
		if (!strstr(target, "/ram") || lstat(fd_path, &st) < 0)
			continue;
		if (st.st_mode & S_IWUSR)
			++*ret_writers;
		else
			++*ret_readers;
	}
	if (d)
		(void)closedir(d);
}

static void confinement(void)
{
	struct guest g;
	int readers, writers;

	OK(fresh(&g, "k1"), "a VM");
	OK(status_is(vm_pid(g.vm), "NoNewPrivs:\t1"), "QEMU has no_new_privs");
	OK(status_is(vm_pid(g.vm), "Seccomp:\t2"), "and a filter");
	OK(status_is(vm_pid(g.vm), "CapEff:\t0000000000000000"), "and no capability");
	count_ram(vm_pid(g.vm), &readers, &writers);
	OK(readers > 0, "it has the template's RAM open");
	EQ_INT(writers, 0, "and only to read");
	guest_release(&g);
}

static void ends(void)
{
	struct guest g;

	OK(fresh(&g, "e1"), "a VM");
	EQ_INT(kill(vm_pid(g.vm), SIGKILL), 0, "its QEMU is killed");
	struct pollfd p = {.fd = vm_pidfd(g.vm), .events = POLLIN};
	EQ_INT(poll(&p, 1, 10000), 1, "the pidfd tells");
	OK(waits_for(g.vm, VM_EVENT_GONE), "and so do the events");
	EQ_INT(vm_wait(g.vm), 128 + SIGKILL, "the signal");
	OK(vm_pause(g.vm, &f.e) < 0 && f.e.kind == ERR_UNAVAILABLE, "later calls fail");
	guest_release(&g);

	OK(fresh(&g, "e2"), "a VM");
	(void)guest_ask(&g, "off");
	OK(waits_for(g.vm, VM_EVENT_SHUTDOWN), "the guest powers down");
	EQ_INT(vm_wait(g.vm), 0, "QEMU ends");
	guest_release(&g);

	OK(fresh(&g, "e3"), "a VM");
	(void)guest_ask(&g, "crash");
	OK(waits_for(g.vm, VM_EVENT_PANIC), "the guest resets itself");
	guest_release(&g);
}

static void states(void)
{
	struct guest g;
	struct vm_capture v;
	bool moved;

	OK(fresh(&g, "s1"), "a VM");
	OK(vm_capture(g.vm, 0, 0, "s2", &v, &moved, &f.e) < 0 && f.e.kind == ERR_WRONG_STATE,
		"a running VM is not captured");
	OK(vm_load(g.vm, -1, template_device, &f.e) < 0 && f.e.kind == ERR_WRONG_STATE,
		"nor loaded");
	guest_release(&g);
	const char *none[] = {"../x"};
	struct vm_start s = {.host = &f.host,
		.template = &t,
		.layers_dirfd = f.layers,
		.layers = none,
		.layers_len = 1,
		.log_fd = f.log_fd};
	OK(vm_start(&s, &g.vm, &f.e) < 0 && f.e.kind == ERR_INVALID, "a layer id with a path");
	none[0] = "gone";
	OK(vm_start(&s, &g.vm, &f.e) < 0 && f.e.kind == ERR_NOT_FOUND, "a layer that is not there");
}

static void full_disk(void)
{
	struct guest g;
	struct vm_capture v;
	bool moved = true;
	int full = open("/dev/full", O_RDWR | O_CLOEXEC), pages = fixture_file(&f, "full.pages");

	OK(fresh(&g, "d1") && new_layer("d2"), "a VM");
	EQ_INT(vm_pause(g.vm, &f.e), 0, "paused");
	OK(vm_capture(g.vm, full, full, "d2", &v, &moved, &f.e) < 0 && f.e.kind == ERR_NO_SPACE,
		"no space for the pages");
	OK(!moved, "the disk did not move");
	OK(vm_capture(g.vm, pages, full, "d2", &v, &moved, &f.e) < 0 && f.e.kind == ERR_NO_SPACE,
		"no space for the device state");
	OK(!moved, "the disk did not move");
	int device = fixture_file(&f, "full.device");
	OK(vm_capture(g.vm, pages, device, "d9", &v, &moved, &f.e) < 0 && !moved, "no new layer");
	EQ_INT(vm_run(g.vm, &f.e), 0, "it runs on");
	EQ_STR(guest_ask(&g, "mount"), "mounted", "with its disk");
	EQ_INT(vm_pause(g.vm, &f.e), 0, "paused again");
	OK(ftruncate(pages, 0) == 0 && vm_capture(g.vm, pages, device, "d2", &v, &moved, &f.e) == 0,
		"control: with space it works");
	OK(moved, "and the disk moves");
	EQ_INT(vm_run(g.vm, &f.e), 0, "it runs on");
	EQ_STR(guest_ask(&g, "write x y"), "written", "on the new layer");
	guest_release(&g);
	(void)fd_close(full);
	(void)fd_close(pages);
	(void)fd_close(device);
}

static void merging(void)
{
	struct guest g;
	struct checkpoint c1, c2;

	OK(fresh(&g, "g1"), "a VM");
	(void)guest_ask(&g, "mount");
	(void)guest_ask(&g, "write one 1");
	OK(take(&g, &c1, "g1", "g2"), "a checkpoint");
	(void)guest_ask(&g, "write two 2");
	OK(take(&g, &c2, "g2", "g3"), "another");
	(void)guest_ask(&g, "write three 3");
	OK(vm_merge(g.vm, "g1", &f.e) < 0 && f.e.kind == ERR_INVALID,
		"the lowest layer has nothing below");
	EQ_INT(vm_merge(g.vm, "g2", &f.e), 0, "a frozen layer takes in the one below");
	OK(waits_for(g.vm, VM_EVENT_MERGED), "done");
	EQ_INT(vm_merge(g.vm, "g3", &f.e), 0, "the top takes in the one below");
	OK(waits_for(g.vm, VM_EVENT_MERGED), "done");
	EQ_INT(layer_remove(f.layers, "g1", &f.e), 0, "the lowest is removed");
	EQ_STR(guest_ask(&g, "read one"), "1", "nothing is lost");
	drop(&c1);
	OK(take(&g, &c1, "g4", "g4"), "a checkpoint on the merged disk");
	guest_release(&g);
	OK(new_layer("g5") && restore(&g, &c2, "g2 g5"),
		"the second checkpoint on its merged layer");
	EQ_STR(guest_ask(&g, "read one"), "1", "has the file of the first layer");
	EQ_STR(guest_ask(&g, "read three"), "No such file or directory", "and none of the third");
	guest_release(&g);
	EQ_INT(layer_remove(f.layers, "g2", &f.e), 0, "that layer is removed as well");
	OK(new_layer("g6") && restore(&g, &c1, "g3 g6"), "the last checkpoint");
	EQ_STR(guest_ask(&g, "read two"), "2", "stands on one layer");
	guest_release(&g);
	drop(&c1);
	drop(&c2);
}

/* A checkpoint does not wait for a merge: it ends it. */
static void merging_and_checkpoint(void)
{
	struct guest g;
	struct checkpoint c1, c2;

	OK(fresh(&g, "j1"), "a VM");
	(void)guest_ask(&g, "mount");
	EQ_STR(guest_ask(&g, "fill 64"), "filled", "64 MB on its disk");
	OK(take(&g, &c1, "j1", "j2"), "a checkpoint");
	EQ_STR(guest_ask(&g, "write one 1"), "written", "a file");
	EQ_INT(vm_merge(g.vm, "j2", &f.e), 0, "a merge begins");
	OK(vm_merge(g.vm, "j2", &f.e) < 0 && f.e.kind == ERR_WRONG_STATE, "and no second one");
	OK(take(&g, &c2, "j2", "j3"), "a checkpoint meanwhile");
	enum vm_event event = vm_events(g.vm);
	OK(event == VM_EVENT_MERGED || event == VM_EVENT_MERGE_FAILED, "the merge has ended");
	EQ_INT(vm_events(g.vm), VM_EVENT_NONE, "once");
	EQ_STR(guest_ask(&g, "read one"), "1", "the disk is whole");
	guest_release(&g);
	OK(new_layer("j4") && restore(&g, &c2, event == VM_EVENT_MERGED ? "j2 j4" : "j1 j2 j4"),
		"the checkpoint");
	EQ_STR(guest_ask(&g, "read one"), "1", "is whole");
	guest_release(&g);
	drop(&c1);
	drop(&c2);
}

/* The host's disk is full while the guest writes: it stops, and goes on when there is space. */
static void host_disk_full(void)
{
	struct guest g;
	int layers = f.layers;
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/small", f.path);
	if (mkdirat(f.dirfd, "small", 0700) < 0 ||
		mount("none", path, "tmpfs", MS_NODEV | MS_NOSUID, "size=8m") < 0) {
		printf("ok %d # SKIP only root can make a small file system\n", ++tap_count);
		return;
	}
	f.layers = openat(f.dirfd, "small", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OK(fresh(&g, "v1"), "a VM with its disk on a small file system");
	EQ_STR(guest_ask(&g, "mount"), "mounted", "its disk");
	OK(guest_send(&g, "fill 24"), "it writes more than fits");
	OK(waits_for(g.vm, VM_EVENT_IO_ERROR), "which is reported");
	EQ_INT(mount("none", path, "tmpfs", MS_REMOUNT | MS_NODEV | MS_NOSUID, "size=64m"), 0,
		"there is space again");
	EQ_INT(vm_run(g.vm, &f.e), 0, "it may go on");
	EQ_STR(guest_answer(&g), "filled", "and loses nothing");
	guest_release(&g);
	(void)fd_close(f.layers);
	f.layers = layers;
	EQ_INT(umount2(path, MNT_DETACH), 0, "cleaned up");
}

static void damaged_state(void)
{
	struct guest g;
	struct checkpoint c;
	char byte = 9;

	OK(fresh(&g, "x1"), "a VM");
	OK(take(&g, &c, "x", "x2"), "a checkpoint");
	guest_release(&g);
	EQ_INT(fd_pwrite_all(c.pages, &byte, 1, 64 + 12), 0, "an unknown kind of run");
	OK(new_layer("x3") && !restore(&g, &c, "x1 x3") && f.e.kind == ERR_CORRUPT, "is refused");
	guest_release(&g);
	byte = 0;
	EQ_INT(fd_pwrite_all(c.pages, &byte, 1, 64 + 12), 0, "mended");
	OK(restore(&g, &c, "x1 x3"), "control: it is taken");
	guest_release(&g);
	EQ_INT(ftruncate(c.device, 1000), 0, "a device state that is cut off");
	OK(!restore(&g, &c, "x1 x3") && f.e.kind == ERR_CORRUPT, "is refused");
	printf("# %s\n", f.e.what);
	guest_release(&g);
	drop(&c);
}

int main(int argc, char **argv)
{
	fixture_init(&f, argc, argv);
	int r = template_ensure(&f.host, &f.config, f.templates, NULL, NULL, &t, &f.e);
	EQ_INT(r, 0, "a template is made");
	if (r < 0) {
		printf("# %s\n", f.e.what);
		fixture_release(&f);
		return tap_done();
	}
	template_device = openat(t.dirfd, "device", O_RDONLY | O_CLOEXEC);
	two_at_once();
	branches();
	much_memory();
	images();
	confinement();
	ends();
	states();
	full_disk();
	merging();
	merging_and_checkpoint();
	host_disk_full();
	damaged_state();
	(void)fd_close(template_device);
	template_release(&t);
	fixture_release(&f);
	return tap_done();
}
