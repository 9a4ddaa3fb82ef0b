/* SPDX-License-Identifier: Apache-2.0 */
#include "template-meta.h"

#include "../base/buf.h"
#include "../base/fd.h"
#include "../base/file.h"
#include "../base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define META "meta.json"
#define META_MAX 16384u
#define META_FORMAT 1
#define BLOCK 4096u
#define CHUNK (16 * BLOCK)

static bool is_zero(const unsigned char *block)
{
	return block[0] == 0 && memcmp(block, block + 1, BLOCK - 1) == 0;
}

static void hash_u64(struct sha256 *h, uint64_t v)
{
	unsigned char raw[8];

	for (size_t i = 0; i < sizeof(raw); i++)
		raw[i] = (unsigned char)(v >> (8 * i));
	sha256_update(h, raw, sizeof(raw));
}

static int hash_extent(struct sha256 *h, int fd, off_t from, off_t to)
{
	unsigned char chunk[CHUNK];

	for (off_t at = from; at < to;) {
		size_t want = to - at < CHUNK ? (size_t)(to - at) : CHUNK;
		ssize_t n = fd_pread_full(fd, chunk, want, at);
		if (n < 0)
			return (int)n;
		if (n == 0)
			return 0;
		memset(chunk + n, 0, CHUNK - (size_t)n);
		for (size_t i = 0; i < (size_t)n; i += BLOCK) {
			if (is_zero(chunk + i))
				continue;
			hash_u64(h, (uint64_t)at + i);
			sha256_update(h, chunk + i, BLOCK);
		}
		at += n;
	}
	return 0;
}

int sparse_hash(int fd, char ret[static SHA256_HEX_SIZE], struct err *e)
{
	cleanup_sha256 struct sha256 *h = sha256_new();
	struct stat st;
	off_t at = 0;

	if (!h || fstat(fd, &st) < 0)
		return err_errno(e, h ? errno : ENOMEM, "reading a template's file");
	hash_u64(h, (uint64_t)st.st_size);
	while (at < st.st_size) {
		off_t data = lseek(fd, at, SEEK_DATA);
		if (data < 0 && errno == ENXIO)
			break;
		off_t hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
		if (hole < 0)
			return err_errno(e, errno, "reading a template's file");
		data = data / BLOCK * BLOCK;
		int r = hash_extent(h, fd, data, hole);
		if (r < 0)
			return err_errno(e, -r, "reading a template's file");
		/* Blocks are hashed whole, so the next extent begins after this one's last. */
		at = (hole + BLOCK - 1) / BLOCK * BLOCK;
	}
	sha256_hex(h, ret);
	return 0;
}

static int64_t ns(struct timespec t)
{
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static json_t *identity(const struct stat *st)
{
	return json_pack("{s:I, s:I, s:I, s:I}", "inode", (json_int_t)st->st_ino, "size",
		(json_int_t)st->st_size, "mtime_ns", (json_int_t)ns(st->st_mtim), "ctime_ns",
		(json_int_t)ns(st->st_ctim));
}

static int open_part(int dirfd, const char *name, struct stat *ret_st, struct err *e)
{
	cleanup_fd int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0 || fstat(fd, ret_st) < 0)
		return err_set(e, ERR_CORRUPT, 0, "the template's %s cannot be read: %s", name,
			strerror(errno));
	return fd_take(&fd);
}

static const char *const parts[] = {"ram", "disk.raw", "device"};
#define PARTS (sizeof(parts) / sizeof(parts[0]))

static int describe_part(json_t *meta, int dirfd, const char *name, struct err *e)
{
	char hash[SHA256_HEX_SIZE];
	struct stat st;
	cleanup_fd int fd = open_part(dirfd, name, &st, e);

	if (fd < 0)
		return fd;
	int r = sparse_hash(fd, hash, e);
	if (r < 0)
		return r;
	if (json_object_set_new(meta, name,
		    json_pack("{s:s, s:o}", "sha256", hash, "identity", identity(&st))) < 0)
		return err_errno(e, ENOMEM, "describing a template");
	return 0;
}

static int write_meta(int dirfd, const json_t *meta, struct err *e)
{
	cleanup_buf struct buf b = {0};

	buf_init(&b, META_MAX);
	json_put_canonical(&b, meta);
	if (buf_failed(&b))
		return err_errno(e, ENOMEM, "describing a template");
	int r = file_write_atomic(dirfd, META, b.data, b.len, 0600, true);
	return r < 0 ? err_errno(e, -r, "writing the template's %s", META) : 0;
}

int template_meta_write(int dirfd, const char *key, const struct vm_host *host,
	const struct vm_config *config, struct err *e)
{
	cleanup_json *meta = json_pack("{s:i, s:s, s:i, s:i, s:i, s:s, s:s, s:s, s:s, s:s}",
		"format", META_FORMAT, "key", key, "cpus", (int)config->cpus, "memory_mb",
		(int)config->memory_mb, "disk_gb", (int)config->disk_gb, "accel",
		vm_accel_name(host->accel), "cpu", host->cpu, "machine", host->machine,
		"qemu_version", host->qemu_version, "assets", host->assets_hash);

	if (!meta)
		return err_errno(e, ENOMEM, "describing a template");
	for (size_t i = 0; i < PARTS; i++) {
		int r = describe_part(meta, dirfd, parts[i], e);
		if (r < 0)
			return r;
	}
	return write_meta(dirfd, meta, e);
}

static int check_part(json_t *meta, int dirfd, const char *name, bool *changed, struct err *e)
{
	json_t *part, *known;
	const char *hash;
	char now[SHA256_HEX_SIZE];
	struct stat st;
	int r;

	if ((r = json_get_object(meta, name, &part, e)) < 0 ||
		(r = json_get_object(part, "identity", &known, e)) < 0 ||
		(r = json_get_str(part, "sha256", 64, &hash, e)) < 0)
		return r;
	cleanup_fd int fd = open_part(dirfd, name, &st, e);
	if (fd < 0)
		return fd;
	cleanup_json *found = identity(&st);
	if (json_equal(found, known))
		return 0;
	if ((r = sparse_hash(fd, now, e)) < 0)
		return r;
	if (strcmp(now, hash) != 0)
		return err_set(e, ERR_CORRUPT, 0, "the template's %s was changed", name);
	*changed = true;
	return json_object_set(part, "identity", found) < 0
		       ? err_errno(e, ENOMEM, "checking a template")
		       : 0;
}

static int read_meta(int dirfd, json_t **ret, struct err *e)
{
	cleanup_buf struct buf b = {0};

	buf_init(&b, META_MAX);
	int r = file_read(dirfd, META, &b);
	if (r < 0)
		return err_set(e, ERR_CORRUPT, 0, "the template's %s cannot be read: %s", META,
			strerror(-r));
	r = json_parse_object(b.data, b.len, "the template's " META, ret, e);
	if (r < 0)
		e->kind = ERR_CORRUPT;
	return r;
}

static int read_fields(const json_t *meta, const char *key, struct vm_template *ret, struct err *e)
{
	uint64_t format, cpus, memory, disk;
	const char *found, *ram_hash, *disk_hash;
	json_t *ram, *raw;
	int r;

	if ((r = json_get_u64(meta, "format", UINT32_MAX, &format, e)) < 0 ||
		(r = json_get_str(meta, "key", 64, &found, e)) < 0 ||
		(r = json_get_u64(meta, "cpus", 1024, &cpus, e)) < 0 ||
		(r = json_get_u64(meta, "memory_mb", UINT32_MAX, &memory, e)) < 0 ||
		(r = json_get_u64(meta, "disk_gb", UINT32_MAX, &disk, e)) < 0 ||
		(r = json_get_object(meta, "ram", &ram, e)) < 0 ||
		(r = json_get_object(meta, "disk.raw", &raw, e)) < 0 ||
		(r = json_get_str(ram, "sha256", 64, &ram_hash, e)) < 0 ||
		(r = json_get_str(raw, "sha256", 64, &disk_hash, e)) < 0)
		return r;
	if (format != META_FORMAT || strcmp(found, key) != 0)
		return err_set(e, ERR_CORRUPT, 0, "the template's %s belongs to another", META);
	(void)snprintf(ret->key, sizeof(ret->key), "%s", key);
	(void)snprintf(ret->ram_id, sizeof(ret->ram_id), "%.16s", ram_hash);
	(void)snprintf(ret->disk_id, sizeof(ret->disk_id), "%.16s", disk_hash);
	ret->config = (struct vm_config){
		.cpus = (uint32_t)cpus, .memory_mb = (uint32_t)memory, .disk_gb = (uint32_t)disk};
	return 0;
}

int template_meta_check(int dirfd, const char *key, struct vm_template *ret, struct err *e)
{
	cleanup_json *meta = NULL;
	struct vm_template t = {.dirfd = -1};
	bool changed = false;
	struct err ignored;
	int r;

	if ((r = read_meta(dirfd, &meta, e)) < 0)
		return r;
	if ((r = read_fields(meta, key, &t, e)) < 0) {
		e->kind = ERR_CORRUPT;
		return r;
	}
	for (size_t i = 0; i < PARTS; i++)
		if ((r = check_part(meta, dirfd, parts[i], &changed, e)) < 0)
			return r;
	if (changed) /* else it is hashed again next time */
		(void)!write_meta(dirfd, meta, &ignored);
	*ret = t;
	return 0;
}
