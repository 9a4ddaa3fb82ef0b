/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Templates: a VM of one configuration, booted once until its agent stands ready, and saved. Every
 * sandbox of that configuration starts as a private mapping of the template's RAM.
 *
 *   templates/KEY.lock    held while KEY is made
 *   templates/KEY.tmp/    being made; a leftover is removed by the next maker
 *   templates/KEY/        complete, never changed:
 *     ram         the guest's RAM, sparse
 *     device      the device state
 *     disk.raw    an empty ext4 file system, sparse; the bottom of every layer chain. Not mounted
 *                 when the template is saved.
 *     meta.json   configuration, QEMU version, ..., hash and identity (inode, size, mtime, ctime)
 *                 of the three files. Files with another identity are hashed: the same content
 *                 (a restored backup) is taken as it is, else the template is not used but made
 *                 anew
 *
 * KEY = the first 16 hex digits of SHA-256 over all that decides whether a saved state fits: guest
 * assets, CPU model, QEMU version and the whole command line (CPUs, memory, machine, ...).
 *
 * A template that had to be made anew has the same key but other RAM: what was saved over the old
 * one cannot be loaded over it. So a checkpoint keeps ram_id, a sandbox disk_id (of the disk.raw
 * below its layers), and their users compare. disk.raw comes out the same each time it is made by
 * the same mke2fs.
 */
#ifndef KOSA8_VM_TEMPLATE_H
#define KOSA8_VM_TEMPLATE_H

#include "host.h"

#include <stdbool.h>
#include <stdint.h>

#define TEMPLATE_KEY_SIZE 17

struct vm_config {
	uint32_t cpus;
	uint32_t memory_mb;
	uint32_t disk_gb;
};

/* The first digits of the hash of ram and of disk.raw. */
#define TEMPLATE_ID_SIZE 17

struct vm_template {
	char key[TEMPLATE_KEY_SIZE];
	char ram_id[TEMPLATE_ID_SIZE];
	char disk_id[TEMPLATE_ID_SIZE];
	struct vm_config config;
	int dirfd;
};
void template_release(struct vm_template *t);

/* The complete template, made if need be (seconds; notice is called with a line for people when it
 * has to be made). */
int template_ensure(const struct vm_host *host, const struct vm_config *config, int templates_dirfd,
	void (*notice)(const char *text, void *ctx), void *ctx, struct vm_template *ret,
	struct err *e) must_check;
/* An existing one by key, for a checkpoint: ERR_NOT_FOUND, ERR_CORRUPT. */
int template_open(
	int templates_dirfd, const char *key, struct vm_template *ret, struct err *e) must_check;

#endif
