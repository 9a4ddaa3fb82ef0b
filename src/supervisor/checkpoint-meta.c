/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint-meta.h"

#include "../base/fd.h"
#include "../base/file.h"
#include "../base/json.h"
#include "../base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define META_VERSION 1
#define META_BYTES_MAX (512u * 1024)

void checkpoint_meta_release(struct checkpoint_meta *m)
{
	spec_mounts_release(&m->mounts);
}

void checkpoint_meta_init(
	struct checkpoint_meta *m, const struct vm_host *host, const struct vm_template *t)
{
	*m = (struct checkpoint_meta){0};
	(void)snprintf(m->template_key, sizeof(m->template_key), "%s", t->key);
	(void)snprintf(m->template_ram, sizeof(m->template_ram), "%s", t->ram_id);
	(void)snprintf(m->qemu_version, sizeof(m->qemu_version), "%s", host->qemu_version);
	(void)snprintf(m->machine, sizeof(m->machine), "%s", host->machine);
	(void)snprintf(m->accel, sizeof(m->accel), "%s", vm_accel_name(host->accel));
	(void)snprintf(m->cpu, sizeof(m->cpu), "%s", host->cpu);
}

static json_t *encode(const struct checkpoint_meta *m)
{
	json_t *images = json_array(), *mounts = spec_mounts_encode(&m->mounts);

	for (size_t i = 0; i < m->mounts.len; i++)
		(void)json_object_set_new(
			json_array_get(mounts, i), "nodes", json_string(m->nodes_hash[i]));

	for (size_t i = 0; i < m->images_len; i++)
		(void)json_array_append_new(
			images, json_pack("{s:i, s:s}", "lun", (int)m->images[i].lun, "digest",
					m->images[i].digest));
	return json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o}", "version",
		META_VERSION, "template", m->template_key, "ram", m->template_ram, "qemu",
		m->qemu_version, "machine", m->machine, "accel", m->accel, "cpu", m->cpu, "layer",
		m->layer, "pages", m->pages_hash, "device", m->device_hash, "images", images,
		"mounts", mounts);
}

static int hash_file(
	int dirfd, const char *name, char ret[static SHA256_HEX_SIZE], int *ret_fd, struct err *e)
{
	cleanup_fd int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	int r = fd < 0 ? -errno : sha256_hex_of_fd(fd, ret);

	if (r < 0)
		return err_errno(e, -r, "cannot read the checkpoint's file \"%s\"", name);
	if (ret_fd)
		*ret_fd = fd_take(&fd);
	return 0;
}

int checkpoint_meta_write(
	struct checkpoint_meta *m, int dirfd, char ret_hash[static SHA256_HEX_SIZE], struct err *e)
{
	cleanup_buf struct buf b = {0};
	int r;

	buf_init(&b, META_BYTES_MAX);
	if ((r = hash_file(dirfd, "pages", m->pages_hash, NULL, e)) < 0 ||
		(r = hash_file(dirfd, "device", m->device_hash, NULL, e)) < 0)
		return r;
	for (size_t i = 0; i < m->mounts.len; i++) {
		char name[MOUNTS_TABLE_SIZE];
		mounts_table_name(m->mounts.list[i].id, name);
		if ((r = hash_file(dirfd, name, m->nodes_hash[i], NULL, e)) < 0)
			return r;
	}
	cleanup_json *j = encode(m);
	json_put_canonical(&b, j);
	if (buf_failed(&b))
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	if ((r = file_write_atomic(dirfd, "meta.json", b.data, b.len, 0600, false)) < 0)
		return err_errno(e, -r, "cannot write the checkpoint");
	sha256_hex_of(b.data, b.len, ret_hash);
	return 0;
}

static int get_text(const json_t *o, const char *key, char *ret, size_t size, struct err *e)
{
	const char *s;
	int r = json_get_str(o, key, size - 1, &s, e);

	if (r == 0)
		(void)snprintf(ret, size, "%s", s);
	return r;
}

static int decode_images(const json_t *o, struct checkpoint_meta *m, struct err *e)
{
	unsigned char raw[SHA256_SIZE];
	json_t *images, *item;
	uint64_t lun;
	size_t i;
	int r = json_get_array(o, "images", VM_IMAGES_MAX, &images, e);

	if (r < 0)
		return r;
	json_array_foreach (images, i, item) {
		struct machine_image *image = &m->images[i];
		if ((r = json_get_u64(item, "lun", 255, &lun, e)) < 0 ||
			(r = get_text(item, "digest", image->digest, sizeof(image->digest), e)) < 0)
			return r;
		if (strlen(image->digest) != 64 || !text_unhex(image->digest, raw, sizeof(raw)))
			return err_set(
				e, ERR_CORRUPT, 0, "an image of the checkpoint has no digest");
		image->lun = (uint32_t)lun;
		m->images_len = i + 1;
	}
	return 0;
}

/* Checkpoints made by an earlier version have none. */
static int decode_mounts(const json_t *o, struct checkpoint_meta *m, struct err *e)
{
	json_t *mounts, *item;
	size_t i;
	int r = json_get_array_or_null(o, "mounts", SPEC_MOUNTS_MAX, &mounts, e);

	if (r < 0 || (r = spec_mounts_decode(mounts, &m->mounts, e)) < 0)
		return r;
	json_array_foreach (mounts, i, item)
		if ((r = get_text(item, "nodes", m->nodes_hash[i], SHA256_HEX_SIZE, e)) < 0)
			return r;
	return 0;
}

static int decode(const json_t *o, struct checkpoint_meta *m, struct err *e)
{
	uint64_t version;
	int r;

	if ((r = json_get_u64(o, "version", UINT32_MAX, &version, e)) < 0)
		return r;
	if (version != META_VERSION)
		return err_set(e, ERR_INCOMPATIBLE, 0,
			"the checkpoint's format is version %llu, this kosa8 reads version %d",
			(unsigned long long)version, META_VERSION);
	if ((r = get_text(o, "template", m->template_key, sizeof(m->template_key), e)) < 0 ||
		(r = get_text(o, "ram", m->template_ram, sizeof(m->template_ram), e)) < 0 ||
		(r = get_text(o, "qemu", m->qemu_version, sizeof(m->qemu_version), e)) < 0 ||
		(r = get_text(o, "machine", m->machine, sizeof(m->machine), e)) < 0 ||
		(r = get_text(o, "accel", m->accel, sizeof(m->accel), e)) < 0 ||
		(r = get_text(o, "cpu", m->cpu, sizeof(m->cpu), e)) < 0 ||
		(r = get_text(o, "layer", m->layer, sizeof(m->layer), e)) < 0 ||
		(r = get_text(o, "pages", m->pages_hash, sizeof(m->pages_hash), e)) < 0 ||
		(r = get_text(o, "device", m->device_hash, sizeof(m->device_hash), e)) < 0)
		return r;
	if ((r = decode_images(o, m, e)) < 0)
		return r;
	return decode_mounts(o, m, e);
}

static int check_fits(const struct checkpoint_meta *m, const struct vm_host *host, struct err *e)
{
	const struct {
		const char *what, *made, *here;
	} facts[] = {
		{"QEMU", m->qemu_version, host->qemu_version},
		{"machine type", m->machine, host->machine},
		{"accelerator", m->accel, vm_accel_name(host->accel)},
		{"CPU model", m->cpu, host->cpu},
	};

	for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++)
		if (strcmp(facts[i].made, facts[i].here) != 0)
			return err_set(e, ERR_INCOMPATIBLE, 0,
				"the checkpoint was made with %s %.64s, here it is %.64s",
				facts[i].what, facts[i].made, facts[i].here);
	return 0;
}

static int corrupt(struct err *e, const char *name)
{
	int r = err_set(e, ERR_CORRUPT, 0, "the checkpoint's file \"%s\" is damaged", name);

	(void)err_hint(e, "rewind to another checkpoint (kosa8 checkpoint ls)");
	return r;
}

/* A damaged file's own complaint is worth less than the fact that it is damaged. */
static int check_file(int dirfd, const char *name, const char *hash, int *ret_fd, struct err *e)
{
	char found[SHA256_HEX_SIZE];
	cleanup_fd int fd = -1;
	int r = hash_file(dirfd, name, found, &fd, e);

	if (r == -ENOENT || (r == 0 && strcmp(found, hash) != 0))
		return corrupt(e, name);
	if (r == 0)
		*ret_fd = fd_take(&fd);
	return r;
}

int checkpoint_meta_open(int dirfd, const char *hash, const struct vm_host *host,
	struct checkpoint_meta *ret, int *ret_pages_fd, int *ret_device_fd, struct err *e)
{
	char found[SHA256_HEX_SIZE];
	cleanup_fd int pages = -1, device = -1;
	cleanup_buf struct buf b = {0};
	cleanup_json *j = NULL;
	int r;

	buf_init(&b, META_BYTES_MAX);
	*ret = (struct checkpoint_meta){0};
	r = file_read(dirfd, "meta.json", &b);
	if (r < 0 && r != -ENOENT && r != -E2BIG)
		return err_errno(e, -r, "cannot read the checkpoint");
	sha256_hex_of(b.data, b.len, found);
	if (r < 0 || strcmp(found, hash) != 0)
		return corrupt(e, "meta.json");
	if ((r = json_parse_object(b.data, b.len, "meta.json", &j, e)) < 0 ||
		(r = decode(j, ret, e)) < 0 || (r = check_fits(ret, host, e)) < 0 ||
		(r = check_file(dirfd, "pages", ret->pages_hash, &pages, e)) < 0 ||
		(r = check_file(dirfd, "device", ret->device_hash, &device, e)) < 0) {
		checkpoint_meta_release(ret);
		return r;
	}
	*ret_pages_fd = fd_take(&pages);
	*ret_device_fd = fd_take(&device);
	return 0;
}

int checkpoint_meta_open_table(
	const struct checkpoint_meta *m, int dirfd, uint32_t id, int *ret_fd, struct err *e)
{
	char name[MOUNTS_TABLE_SIZE];

	*ret_fd = -1;
	for (size_t i = 0; i < m->mounts.len; i++)
		if (m->mounts.list[i].id == id) {
			mounts_table_name(id, name);
			return check_file(dirfd, name, m->nodes_hash[i], ret_fd, e);
		}
	return 0;
}
