/* SPDX-License-Identifier: Apache-2.0 */
#include "template.h"

#include "../base/buf.h"
#include "../base/fd.h"
#include "../base/file.h"
#include "../base/hash.h"
#include "../base/strv.h"
#include "qemu-args.h"
#include "template-make.h"
#include "template-meta.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Grows with each change of the files or of the file system on disk.raw. */
#define FORMAT "kosa8-template-3"
#define KEY_TEXT_MAX 65536u
#define SUFFIX_SIZE (TEMPLATE_KEY_SIZE + 16)

void template_release(struct vm_template *t)
{
	t->dirfd = fd_close(t->dirfd);
}

/* Hashes all that a saved state depends on: the options of QEMU are in its command line, but for
 * the programs and assets, which are there as paths. */
static int make_key(const struct vm_host *host, const struct vm_config *config,
	char ret[static TEMPLATE_KEY_SIZE], struct err *e)
{
	cleanup_buf struct buf b = {0};
	cleanup_strv char **argv = NULL;
	char hex[SHA256_HEX_SIZE];
	/* Measured anew each time, so the counter's rate is no part of the name. */
	int r = qemu_args(host, config, true, "boot", 0, &argv, e);

	if (r < 0)
		return r;
	buf_init(&b, KEY_TEXT_MAX);
	buf_putf(&b, FORMAT " %s %s %s %s %u", host->qemu_version, host->assets_hash, host->cpu,
		vm_accel_name(host->accel), config->disk_gb);
	for (size_t i = 1; argv[i]; i++)
		if (strcmp(argv[i - 1], "-bios") != 0)
			buf_put_str(&b, argv[i]);
	if (buf_failed(&b))
		return err_errno(e, ENOMEM, "naming a template");
	sha256_hex_of(b.data, b.len, hex);
	(void)snprintf(ret, TEMPLATE_KEY_SIZE, "%.16s", hex);
	return 0;
}

int template_open(int templates_dirfd, const char *key, struct vm_template *ret, struct err *e)
{
	struct vm_template t;
	int r;

	if (strlen(key) != TEMPLATE_KEY_SIZE - 1 || strspn(key, "0123456789abcdef") != strlen(key))
		return err_set(e, ERR_INVALID, 0, "\"%.40s\" is not the key of a template", key);
	cleanup_fd int fd = dir_open(templates_dirfd, key, false, 0700);
	if (fd == -ENOENT)
		return err_set(e, ERR_NOT_FOUND, 0, "the template %s is not there", key);
	if (fd < 0)
		return err_errno(e, -fd, "cannot open the template %s", key);
	if ((r = template_meta_check(fd, key, &t, e)) < 0)
		return r;
	t.dirfd = fd_take(&fd);
	*ret = t;
	return 0;
}

static int remove_tree(int dirfd, const char *name, struct err *e)
{
	int r = file_remove_tree(dirfd, name);

	return r < 0 ? err_errno(e, -r, "cannot remove %s of the templates", name) : 0;
}

/* Running VMs keep the files of a template that is removed; it is moved first, so that nobody
 * opens one that is half gone. */
static int clear_away(int dirfd, const char *key, struct err *e)
{
	char old[SUFFIX_SIZE], tmp[SUFFIX_SIZE];
	int r;

	(void)snprintf(old, sizeof(old), "%s.old", key);
	(void)snprintf(tmp, sizeof(tmp), "%s.tmp", key);
	if ((r = remove_tree(dirfd, old, e)) < 0 || (r = remove_tree(dirfd, tmp, e)) < 0)
		return r;
	if (renameat(dirfd, key, dirfd, old) < 0)
		return errno == ENOENT
			       ? 0
			       : err_errno(e, errno, "cannot move the template %s away", key);
	return remove_tree(dirfd, old, e);
}

static int make(const struct vm_host *host, const struct vm_config *config, int dirfd,
	const char *key, struct err *e)
{
	char tmp[SUFFIX_SIZE];
	int r;

	(void)snprintf(tmp, sizeof(tmp), "%s.tmp", key);
	if ((r = clear_away(dirfd, key, e)) < 0)
		return r;
	cleanup_fd int fd = dir_open(dirfd, tmp, true, 0700);
	if (fd < 0)
		return err_errno(e, -fd, "cannot make a folder for the template");
	r = template_make(host, config, key, fd, e);
	if (r >= 0 && (r = dir_sync(fd)) < 0)
		(void)err_errno(e, -r, "writing the template");
	if (r >= 0 && renameat(dirfd, tmp, dirfd, key) < 0)
		r = err_errno(e, errno, "naming the template");
	if (r < 0) {
		(void)!file_remove_tree(dirfd, tmp);
		return err_wrap(e, "cannot make the template VM");
	}
	(void)!dir_sync(dirfd);
	return 0;
}

static int lock(int dirfd, const char *key, void (*notice)(const char *text, void *ctx), void *ctx,
	struct err *e)
{
	char name[SUFFIX_SIZE];

	(void)snprintf(name, sizeof(name), "%s.lock", key);
	int fd = lock_open(dirfd, name, false);
	if (fd == -EWOULDBLOCK) {
		if (notice)
			notice("another kosa8 is preparing a VM of this size: waiting for it", ctx);
		fd = lock_open(dirfd, name, true);
	}
	return fd < 0 ? err_errno(e, -fd, "cannot lock the template") : fd;
}

int template_ensure(const struct vm_host *host, const struct vm_config *config, int templates_dirfd,
	void (*notice)(const char *text, void *ctx), void *ctx, struct vm_template *ret,
	struct err *e)
{
	char key[TEMPLATE_KEY_SIZE], text[200];
	int r = make_key(host, config, key, e);

	if (r < 0 || (r = template_open(templates_dirfd, key, ret, e)) >= 0)
		return r;
	cleanup_fd int held = lock(templates_dirfd, key, notice, ctx, e);
	if (held < 0)
		return held;
	if (template_open(templates_dirfd, key, ret, e) >= 0)
		return 0; /* made by who held the lock */
	if (notice) {
		(void)snprintf(text, sizeof(text),
			"preparing a VM with %u CPUs and %u MB (once; some seconds)", config->cpus,
			config->memory_mb);
		notice(text, ctx);
	}
	if ((r = make(host, config, templates_dirfd, key, e)) < 0)
		return r;
	return template_open(templates_dirfd, key, ret, e);
}
