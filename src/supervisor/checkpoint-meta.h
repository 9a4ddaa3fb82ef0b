/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoints/ID/meta.json: what a checkpoint fits to and the hashes of its files. The checkpoint's
 * own hash is the SHA-256 of this file; it is in the catalog and in the audit log.
 */
#ifndef KOSA8_SUPERVISOR_CHECKPOINT_META_H
#define KOSA8_SUPERVISOR_CHECKPOINT_META_H

#include "machine.h"
#include "mounts.h"

#include "../base/hash.h"
#include "../store/catalog.h"

struct checkpoint_meta {
	char template_key[TEMPLATE_KEY_SIZE];
	char template_ram[TEMPLATE_ID_SIZE];
	char qemu_version[64];
	char machine[32];
	char accel[16];
	char cpu[64];
	char layer[CATALOG_ID_SIZE]; /* the frozen one */
	char pages_hash[SHA256_HEX_SIZE];
	char device_hash[SHA256_HEX_SIZE];
	struct machine_image images[VM_IMAGES_MAX];
	size_t images_len;
	/* As they were then; the table of mounts.list[i], mounts_table_name(), has nodes_hash[i].
	 */
	struct spec_mounts mounts;
	char nodes_hash[SPEC_MOUNTS_MAX][SHA256_HEX_SIZE];
};
void checkpoint_meta_release(struct checkpoint_meta *m);

/* What this host and template are; images and hashes are left to the caller. */
void checkpoint_meta_init(
	struct checkpoint_meta *m, const struct vm_host *host, const struct vm_template *t);
/* Hashes pages, device and the mounts' tables in the checkpoint's folder and writes meta.json
 * there. */
int checkpoint_meta_write(struct checkpoint_meta *m, int dirfd,
	char ret_hash[static SHA256_HEX_SIZE], struct err *e) must_check;
/* Reads it and checks everything: meta.json against hash, the files against meta.json, and that
 * it fits this host: ERR_CORRUPT, ERR_INCOMPATIBLE by name. Gives the two files, open. */
int checkpoint_meta_open(int dirfd, const char *hash, const struct vm_host *host,
	struct checkpoint_meta *ret, int *ret_pages_fd, int *ret_device_fd,
	struct err *e) must_check;
/* The table of a mount, open: *ret_fd; -1 when the checkpoint has no such mount. ERR_CORRUPT */
int checkpoint_meta_open_table(const struct checkpoint_meta *m, int dirfd, uint32_t id, int *ret_fd,
	struct err *e) must_check;

#endif
