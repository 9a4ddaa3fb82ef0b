/* SPDX-License-Identifier: Apache-2.0 */
#include "import.h"

#include "config.h"
#include "convert.h"
#include "finish.h"
#include "resolve.h"
#include "synthesis.h"

#include "../base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK (256u * 1024)
#define COPY_FILE "layer"

/* What is no regular file is copied into the work folder: the worker wants one. */
static int copy_input(int in, const struct workdir *w, struct err *e)
{
	cleanup_fd int out = openat(w->fd, COPY_FILE, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	char *chunk = malloc(CHUNK);
	ssize_t n = 0;
	int r = 0;

	if (out < 0 || !chunk)
		r = images_write_error(w->images, errno, "the archive", e);
	while (r == 0 && (n = fd_read_full(in, chunk, CHUNK)) > 0) {
		r = fd_write_all(out, chunk, (size_t)n);
		if (r < 0)
			r = images_write_error(w->images, -r, "the archive", e);
	}
	free(chunk);
	if (r < 0)
		return r;
	return n < 0 ? err_errno(e, (int)-n, "reading the archive") : fd_take(&out);
}

static int open_input(const char *path, const struct workdir *w, struct err *e)
{
	struct stat st;

	if (strcmp(path, "-") == 0)
		return copy_input(STDIN_FILENO, w, e);
	cleanup_fd int fd = open(path, O_RDONLY | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(e, errno, "cannot open it");
	if (S_ISREG(st.st_mode))
		return fd_take(&fd);
	if (S_ISDIR(st.st_mode)) {
		(void)err_set(e, ERR_INVALID, EISDIR, "it is a folder");
		return err_hint(e, "tar -C FOLDER -c . | kosa8 image import - NAME");
	}
	return copy_input(fd, w, e);
}

static int put_diff_ids(struct image_config *config, json_t *diff_ids, struct err *e)
{
	json_t *rootfs = json_pack("{s:s, s:O}", "type", "layers", "diff_ids", diff_ids);

	if (json_object_set_new(config->reduced, "rootfs", rootfs) < 0)
		return err_errno(e, ENOMEM, "making the configuration");
	return 0;
}

/* The image's digest, once its layer was unpacked and the configuration is whole. */
static int name_image(int layer, const struct image_config *config,
	char ret[static REFERENCE_DIGEST_SIZE], struct err *e)
{
	cleanup_buf struct buf b = {0};
	struct descriptor d;
	int r = synthesis_layer(layer, &d, e);

	buf_init(&b, CONFIG_BYTES_MAX);
	if (r < 0)
		return r;
	json_put_canonical(&b, config->reduced);
	if (buf_failed(&b))
		return err_errno(e, ENOMEM, "making the configuration");
	return synthesis_digest(b.data, b.len, &d, 1, ret, e);
}

static int import_into(const struct workdir *w, struct claim *claim, const char *path,
	struct image *image, json_t **ret, struct err *e)
{
	cleanup_converted struct converted made = {0};
	const char *digest = image->digest;
	uint64_t size;
	int r;

	cleanup_fd int layer = open_input(path, w, e);
	if (layer < 0)
		return layer;
	if ((r = convert_layers(w, &layer, 1, &made, e)) < 0 ||
		(r = put_diff_ids(&image->config, made.diff_ids, e)) < 0 ||
		(r = name_image(layer, &image->config, image->digest, e)) < 0)
		return r;
	if ((r = claim_add(claim, &digest, 1, e)) < 0 ||
		(r = images_find(w->images, digest, &size, e)) < 0)
		return r;
	bool cached = size > 0;
	if (!cached && (r = images_publish(w, CONVERT_FILE, digest, e)) < 0)
		return r;
	*ret = finish_result(image, NULL, cached ? size : made.size, cached, e);
	return *ret ? 0 : err_code(e);
}

int import_image(const char *path, const char *config_json, const struct images *images,
	struct claim *claim, json_t **ret, struct err *e)
{
	cleanup_image struct image image = {0};
	cleanup_workdir struct workdir w = WORKDIR_NONE;
	int r;

	if ((r = image_config_make(config_json, &image.config, e)) < 0) {
		if (e->kind == ERR_PROTOCOL)
			e->kind = ERR_INVALID;
		return r;
	}
	if ((r = workdir_open(images, NULL, &w, e)) < 0)
		return r;
	if ((r = import_into(&w, claim, path, &image, ret, e)) < 0 && e->kind != ERR_NO_SPACE)
		r = err_wrap(e, "%s", strcmp(path, "-") == 0 ? "standard input" : path);
	return r;
}
