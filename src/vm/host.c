/* SPDX-License-Identifier: Apache-2.0 */
#include "host.h"

#include "../base/buf.h"
#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/file.h"
#include "../base/hash.h"
#include "../base/json.h"
#include "../base/spawn.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CACHE "host.json"
#define CACHE_MAX 16384u
#define VERSION_TIMEOUT_MS 20000

static const char *const accel_names[] = {[VM_ACCEL_TCG] = "tcg", [VM_ACCEL_KVM] = "kvm"};
static_assert(sizeof(accel_names) / sizeof(accel_names[0]) == VM_ACCEL_COUNT,
	"a name for every accelerator");

const char *vm_accel_name(enum vm_accel a)
{
	return accel_names[a];
}

/* ---- programs and files ---- */

static int find_program(
	const char *name, const char *package, char *ret, size_t size, struct err *e)
{
	/* mke2fs is in sbin, which is not in an ordinary user's PATH. */
	static const char more[] = ":/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
	const char *path = getenv("PATH");
	cleanup_buf struct buf b = {0};

	buf_init(&b, 32768);
	buf_putf(&b, "%s%s", path ? path : "", more);
	const char *at = buf_cstr(&b);
	while (at && *at) {
		size_t len = strcspn(at, ":");
		int n = snprintf(ret, size, "%.*s/%s", (int)len, at, name);
		if (at[0] == '/' && n > 0 && (size_t)n < size && access(ret, X_OK) == 0)
			return 0;
		at += len + (at[len] == ':');
	}
	int r = err_set(e, ERR_UNAVAILABLE, 0, "%s is not installed", name);
	(void)err_hint(e, "apt install %s", package);
	return r;
}

static int find_qboot(struct vm_host *h, struct err *e)
{
	static const char *const places[] = {"/usr/share/qemu/qboot.rom",
		"/usr/share/qboot/qboot.rom", "/usr/share/qboot/bios.bin",
		"/usr/local/share/qemu/qboot.rom"};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (access(places[i], R_OK) == 0) {
			(void)snprintf(h->qboot, sizeof(h->qboot), "%s", places[i]);
			return 0;
		}
	}
	int r = err_set(e, ERR_UNAVAILABLE, 0, "QEMU's firmware qboot.rom is not installed");
	(void)err_hint(e, "apt install qemu-system-data");
	return r;
}

static int find_asset(const char *dir, const char *name, char *ret, size_t size, struct err *e)
{
	int n = snprintf(ret, size, "%s/%s", dir, name);

	if (n < 0 || (size_t)n >= size)
		return err_set(
			e, ERR_LIMIT, ENAMETOOLONG, "the path of the guest's %s is too long", name);
	if (access(ret, R_OK) == 0)
		return 0;
	int r = err_set(e, ERR_UNAVAILABLE, 0, "the guest's %s is missing: %s", name, ret);
	(void)err_hint(e, "run make in kosa8's source folder, or set KOSA8_ASSETS");
	return r;
}

/* ---- what is remembered between runs ---- */

/* "dev:inode:size:mtime:ctime" of a file: a program or asset that was replaced has another. */
static int identity_of(const char *path, struct buf *ret, struct err *e)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return err_errno(e, errno, "%s", path);
	buf_putf(ret, "%s %llu:%llu:%lld:%lld.%09ld:%lld.%09ld", path,
		(unsigned long long)st.st_dev, (unsigned long long)st.st_ino, (long long)st.st_size,
		(long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec, (long long)st.st_ctim.tv_sec,
		st.st_ctim.tv_nsec);
	return 0;
}

struct cache {
	int dirfd;
	json_t *entries; /* name -> {"of": identity, "value": ...} */
	bool changed;
};

static void cache_load(struct cache *c)
{
	cleanup_buf struct buf b = {0};
	struct err ignored;

	buf_init(&b, CACHE_MAX);
	if (file_read(c->dirfd, CACHE, &b) < 0 ||
		json_parse_object(b.data, b.len, CACHE, &c->entries, &ignored) < 0)
		c->entries = json_object();
}

/* Best effort: without it the next run asks again. */
static void cache_save(struct cache *c)
{
	cleanup_buf struct buf b = {0};

	buf_init(&b, CACHE_MAX);
	json_put_canonical(&b, c->entries);
	if (c->changed && !buf_failed(&b))
		(void)!file_write_atomic(c->dirfd, CACHE, b.data, b.len, 0600, false);
	json_decref(c->entries);
}

static bool cache_get(struct cache *c, const char *name, const char *of, char *ret, size_t size)
{
	const json_t *entry = json_object_get(c->entries, name);
	const char *known = json_string_value(json_object_get(entry, "of"));
	const char *value = json_string_value(json_object_get(entry, "value"));

	if (!known || !value || strcmp(known, of) != 0 || strlen(value) >= size)
		return false;
	(void)snprintf(ret, size, "%s", value);
	return true;
}

static void cache_put(struct cache *c, const char *name, const char *of, const char *value)
{
	(void)json_object_set_new(
		c->entries, name, json_pack("{s:s, s:s}", "of", of, "value", value));
	c->changed = true;
}

/* ---- what has to be asked ---- */

/* "QEMU emulator version 7.2.22 (Debian ...)" */
static int ask_version(struct vm_host *h, struct err *e)
{
	static const char before[] = "QEMU emulator version ";
	char *const argv[] = {h->qemu, "--version", NULL};
	cleanup_buf struct buf out = {0};

	buf_init(&out, 4096);
	int code = spawn_run(argv, &out, clock_mono_ms() + VERSION_TIMEOUT_MS, e);
	if (code < 0)
		return code;
	const char *text = buf_cstr(&out);
	const char *at = code == 0 && text ? strstr(text, before) : NULL;
	size_t len = at ? strspn(at + strlen(before), "0123456789.") : 0;
	if (len == 0 || len >= sizeof(h->qemu_version))
		return err_set(e, ERR_UNAVAILABLE, 0, "%s does not say its version", h->qemu);
	(void)snprintf(
		h->qemu_version, sizeof(h->qemu_version), "%.*s", (int)len, at + strlen(before));
	return 0;
}

static int find_version(struct vm_host *h, struct cache *c, struct err *e)
{
	cleanup_buf struct buf of = {0};

	buf_init(&of, 8192);
	int r = identity_of(h->qemu, &of, e);
	const char *identity = buf_cstr(&of);
	if (r < 0 || !identity)
		return r < 0 ? r : err_errno(e, ENOMEM, "asking QEMU for its version");
	if (cache_get(c, "qemu", identity, h->qemu_version, sizeof(h->qemu_version)))
		return 0;
	if ((r = ask_version(h, e)) < 0)
		return r;
	cache_put(c, "qemu", identity, h->qemu_version);
	return 0;
}

static int hash_file(struct sha256 *all, const char *path, struct err *e)
{
	char hex[SHA256_HEX_SIZE];
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	int r = fd < 0 ? -errno : sha256_hex_of_fd(fd, hex);

	if (r < 0)
		return err_errno(e, -r, "cannot read %s", path);
	sha256_update(all, hex, strlen(hex));
	return 0;
}

static int find_assets_hash(struct vm_host *h, struct cache *c, struct err *e)
{
	cleanup_buf struct buf of = {0};
	cleanup_sha256 struct sha256 *all = sha256_new();
	int r;

	buf_init(&of, 16384);
	if ((r = identity_of(h->kernel, &of, e)) < 0 || (r = identity_of(h->initramfs, &of, e)) < 0)
		return r;
	const char *identity = buf_cstr(&of);
	if (!identity || !all)
		return err_errno(e, ENOMEM, "reading the guest's files");
	if (cache_get(c, "assets", identity, h->assets_hash, sizeof(h->assets_hash)))
		return 0;
	if ((r = hash_file(all, h->kernel, e)) < 0 || (r = hash_file(all, h->initramfs, e)) < 0)
		return r;
	sha256_hex(all, h->assets_hash);
	cache_put(c, "assets", identity, h->assets_hash);
	return 0;
}

/* ---- the accelerator ---- */

static int kvm_error(enum vm_kvm_state state, struct err *e)
{
	int r = err_set(e, ERR_UNAVAILABLE, 0, "%s",
		state == VM_KVM_NO_DEVICE      ? "KVM was asked for, but there is no /dev/kvm"
		: state == VM_KVM_NOT_READABLE ? "KVM was asked for, but you may not use /dev/kvm"
					       : "KVM was asked for, but this CPU cannot run VMs");

	if (state == VM_KVM_NOT_READABLE)
		return err_hint(e, "sudo usermod -aG kvm $USER, then log in again");
	(void)err_hint(e, "KOSA8_ACCEL=tcg");
	return r;
}

static int choose_accel(struct vm_host *h, struct err *e)
{
	const char *wanted = getenv("KOSA8_ACCEL");
	bool any = !wanted || !*wanted;

	if (!any && strcmp(wanted, "tcg") != 0 && strcmp(wanted, "kvm") != 0)
		return err_set(e, ERR_INVALID, 0, "KOSA8_ACCEL is \"%.20s\": it must be tcg or kvm",
			wanted);
	h->accel = VM_ACCEL_TCG;
	if (!any && strcmp(wanted, "tcg") == 0)
		return 0;
	enum vm_kvm_state state = vm_kvm_probe();
	if (state == VM_KVM_USABLE)
		h->accel = VM_ACCEL_KVM;
	return any || state == VM_KVM_USABLE ? 0 : kvm_error(state, e);
}

/* Of the first CPU: a state saved on one model is not loaded on another. */
static void describe_cpu(struct vm_host *h)
{
	FILE *f = h->accel == VM_ACCEL_KVM ? fopen("/proc/cpuinfo", "re") : NULL;
	struct sha256 *hash = sha256_new();
	char line[8192], hex[SHA256_HEX_SIZE] = "";

	(void)snprintf(h->cpu, sizeof(h->cpu), "max");
	while (f && hash && fgets(line, sizeof(line), f) && line[0] != '\n')
		if (strncmp(line, "model name", 10) == 0 || strncmp(line, "flags", 5) == 0)
			sha256_update(hash, line, strlen(line));
	if (f && hash) {
		sha256_hex(hash, hex);
		(void)snprintf(h->cpu, sizeof(h->cpu), "host:%.16s", hex);
	}
	if (f)
		(void)fclose(f);
	sha256_free(hash);
}

/* Yama (Linux Documentation/admin-guide/LSM/Yama.rst): 2 leaves reading another process's memory
 * to root, 3 to nobody. Pages are saved and loaded that way. */
static int check_yama(struct err *e)
{
	cleanup_buf struct buf b = {0};

	buf_init(&b, 16);
	if (file_read(AT_FDCWD, "/proc/sys/kernel/yama/ptrace_scope", &b) < 0 || b.len == 0)
		return 0;
	if (b.data[0] < '2' || (b.data[0] == '2' && geteuid() == 0))
		return 0;
	int r = err_set(e, ERR_DENIED, 0,
		"kernel.yama.ptrace_scope is %c: kosa8 may not save the memory of its own VMs",
		b.data[0]);
	(void)err_hint(e, "sudo sysctl kernel.yama.ptrace_scope=1");
	return r;
}

static int find_files(struct vm_host *h, const char *assets_dir, struct err *e)
{
	int r;

	if ((r = find_program(
		     "qemu-system-x86_64", "qemu-system-x86", h->qemu, sizeof(h->qemu), e)) < 0 ||
		(r = find_program("qemu-img", "qemu-utils", h->qemu_img, sizeof(h->qemu_img), e)) <
			0 ||
		(r = find_program("mke2fs", "e2fsprogs", h->mke2fs, sizeof(h->mke2fs), e)) < 0 ||
		(r = find_qboot(h, e)) < 0 ||
		(r = find_asset(assets_dir, "vmlinuz", h->kernel, sizeof(h->kernel), e)) < 0)
		return r;
	return find_asset(assets_dir, "initramfs", h->initramfs, sizeof(h->initramfs), e);
}

int vm_host_probe(const char *assets_dir, int cache_dirfd, struct vm_host *ret, struct err *e)
{
	struct vm_host h = {.machine = "q35"};
	struct cache c = {.dirfd = cache_dirfd};
	int r;

	if ((r = find_files(&h, assets_dir, e)) < 0 || (r = choose_accel(&h, e)) < 0 ||
		(r = check_yama(e)) < 0)
		return r;
	describe_cpu(&h);
	cache_load(&c);
	if ((r = find_version(&h, &c, e)) >= 0)
		r = find_assets_hash(&h, &c, e);
	cache_save(&c);
	if (r >= 0)
		*ret = h;
	return r;
}
