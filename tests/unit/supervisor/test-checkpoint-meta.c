/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/checkpoint-meta.h"

#include "base/fd.h"
#include "base/file.h"

#include "tap.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static struct vm_host host = {
	.accel = VM_ACCEL_TCG, .qemu_version = "7.2.22", .machine = "q35", .cpu = "max"};
static char hash[SHA256_HEX_SIZE];
static int dirfd_;

static int try_open(const struct vm_host *here, struct checkpoint_meta *ret, struct err *e)
{
	cleanup_fd int pages = -1, device = -1;

	return checkpoint_meta_open(dirfd_, hash, here, ret, &pages, &device, e);
}

static void refused(const struct vm_host *here, const char *word)
{
	struct checkpoint_meta m;
	struct err e = {0};

	OK(try_open(here, &m, &e) < 0 && e.kind == ERR_INCOMPATIBLE, "refused as not fitting");
	OK(strstr(e.what, word) != NULL, word);
}

static void test_other_hosts(void)
{
	struct vm_host here = host;

	(void)snprintf(here.qemu_version, sizeof(here.qemu_version), "9.0.1");
	refused(&here, "QEMU 7.2.22, here it is 9.0.1");
	here = host;
	here.accel = VM_ACCEL_KVM;
	refused(&here, "accelerator tcg, here it is kvm");
	here = host;
	(void)snprintf(here.cpu, sizeof(here.cpu), "host:abc");
	refused(&here, "CPU model max");
	here = host;
	(void)snprintf(here.machine, sizeof(here.machine), "pc");
	refused(&here, "machine type q35");
}

static void test_damage(const char *name)
{
	struct checkpoint_meta m;
	struct err e = {0};
	cleanup_fd int fd = openat(dirfd_, name, O_RDWR | O_CLOEXEC);
	char byte = 0;

	if (fd < 0 || fd_pread_full(fd, &byte, 1, 0) != 1)
		exit(1);
	byte ^= 1;
	if (fd_pwrite_all(fd, &byte, 1, 0) < 0)
		exit(1);
	OK(try_open(&host, &m, &e) < 0 && e.kind == ERR_CORRUPT && strstr(e.what, name), name);
	byte ^= 1;
	if (fd_pwrite_all(fd, &byte, 1, 0) < 0)
		exit(1);
	OK(try_open(&host, &m, &e) == 0, "control: as it was, it is taken");
	checkpoint_meta_release(&m);
}

static void test_tables(const struct checkpoint_meta *m)
{
	struct err e = {0};
	int fd = 99;

	EQ_INT(m->mounts.len, 1, "its mounts");
	EQ_STR(m->mounts.list[0].guest, "/g", "as they were");
	EQ_INT(checkpoint_meta_open_table(m, dirfd_, 7, &fd, &e), 0, "the table of one");
	OK(fd >= 0, "is open");
	(void)fd_close(fd);
	EQ_INT(checkpoint_meta_open_table(m, dirfd_, 8, &fd, &e), 0, "of another");
	EQ_INT(fd, -1, "there is none");
	OK(file_write_atomic(dirfd_, "nodes.7", "tablE", 5, 0600, false) == 0 &&
			checkpoint_meta_open_table(m, dirfd_, 7, &fd, &e) < 0 &&
			e.kind == ERR_CORRUPT && strstr(e.what, "nodes.7"),
		"a damaged one is refused");
	OK(unlinkat(dirfd_, "nodes.7", 0) == 0 &&
			checkpoint_meta_open_table(m, dirfd_, 7, &fd, &e) < 0 &&
			e.kind == ERR_CORRUPT && fd == -1,
		"and a missing one");
}

int main(void)
{
	char folder[] = "/tmp/kosa8-meta.XXXXXX";
	struct vm_template t = {.key = "0123456789abcdef", .ram_id = "aa", .dirfd = -1};
	struct checkpoint_meta m, got;
	struct err e = {0};

	if (!mkdtemp(folder) || (dirfd_ = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 ||
		file_write_atomic(dirfd_, "pages", "pages", 5, 0600, false) < 0 ||
		file_write_atomic(dirfd_, "device", "device", 6, 0600, false) < 0 ||
		file_write_atomic(dirfd_, "nodes.7", "table", 5, 0600, false) < 0)
		return 1;
	checkpoint_meta_init(&m, &host, &t);
	m.images[0] = (struct machine_image){.lun = 3};
	memset(m.images[0].digest, 'a', 64);
	m.images_len = 1;
	m.mounts.list[0] = (struct spec_mount){7, AGENT_MOUNT_COW, strdup("/h"), strdup("/g")};
	m.mounts.len = 1;
	EQ_INT(checkpoint_meta_write(&m, dirfd_, hash, &e), 0, "written");
	EQ_INT(try_open(&host, &got, &e), 0, "and read on the host that wrote it");
	EQ_STR(got.template_key, t.key, "its template");
	OK(got.images_len == 1 && got.images[0].lun == 3, "its images");
	test_other_hosts();
	test_damage("pages");
	test_damage("device");
	test_damage("meta.json");
	test_tables(&got);
	checkpoint_meta_release(&got);
	checkpoint_meta_release(&m);
	(void)fd_close(dirfd_);
	(void)file_remove_tree(AT_FDCWD, folder);
	return tap_done();
}
