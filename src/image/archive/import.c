/* SPDX-License-Identifier: Apache-2.0 */
#include "import.h"

#include "../config.h"
#include "../convert.h"
#include "../finish.h"
#include "keep.h"
#include "synthesis.h"

#include "../../base/fd.h"
#include "../../base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LAYER_FILE "layer"
#define CREATED_BY "kosa8 image import"

/* The tar, whatever it is read from, becomes a file of the work folder that does not change. */
static int copy_input(const char *path, const struct workdir *w, struct copied *ret, struct err *e)
{
	bool is_stdin = strcmp(path, "-") == 0;
	cleanup_fd int opened = is_stdin ? -1 : open(path, O_RDONLY | O_NOCTTY | O_CLOEXEC);
	int fd = is_stdin ? STDIN_FILENO : opened;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(e, errno, "cannot open it");
	if (S_ISDIR(st.st_mode)) {
		(void)err_set(e, ERR_INVALID, EISDIR, "it is a folder");
		return err_hint(e, "tar -C FOLDER -c . | kosa8 image import - NAME");
	}
	if (S_ISREG(st.st_mode)) {
		int r = images_check_space(w->images, (uint64_t)st.st_size, "the archive", e);
		if (r < 0)
			return r;
	}
	return copy_all(w, fd, LAYER_FILE, "the archive", LAYER_BYTES_MAX, ret, e);
}

static int put_diff_ids(struct image_config *config, json_t *diff_ids, struct err *e)
{
	json_t *rootfs = json_pack("{s:s, s:O}", "type", "layers", "diff_ids", diff_ids);

	if (json_object_set_new(config->reduced, "rootfs", rootfs) < 0)
		return err_errno(e, ENOMEM, "making the configuration");
	return 0;
}

/* The configuration as it is kept: what is reduced, and how it came to be. */
static int put_config(struct buf *b, const struct image_config *config, struct err *e)
{
	cleanup_json *o = json_copy(config->reduced);

	buf_init(b, CONFIG_BYTES_MAX);
	if (json_object_set_new(o, "history", json_pack("[{s:s}]", "created_by", CREATED_BY)) < 0)
		return err_errno(e, ENOMEM, "making the configuration");
	json_put_canonical(b, o);
	return buf_failed(b) ? err_errno(e, ENOMEM, "making the configuration") : 0;
}

/* As a layer, nothing would do; as a root file system it is what a tar that failed left of a pipe.
 */
static int check_content(const json_t *diff_ids, struct err *e)
{
	char hex[SHA256_HEX_SIZE];
	const char *id = json_string_value(json_array_get(diff_ids, 0));

	sha256_hex_of("", 0, hex);
	if (id && strcmp(id + strlen("sha256:"), hex) != 0)
		return 0;
	(void)err_set(e, ERR_INVALID, 0, "it is empty, not even a tar archive without files");
	return err_hint(e, "look whether the command that made it has failed");
}

/* The image, once its layer was unpacked and the configuration is whole. */
static int make_image(const struct workdir *w, struct image_config *config,
	const struct copied *content, struct image *ret, struct err *e)
{
	cleanup_buf struct buf b = {0};
	struct descriptor d;
	cleanup_fd int layer = openat(w->fd, LAYER_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	int r;

	if (layer < 0)
		return err_errno(e, errno, "cannot open what was copied");
	cleanup_converted struct converted made = {0};
	if ((r = convert_layers(w, CONVERT_IMPORT, &layer, 1, &made, e)) < 0 ||
		(r = check_content(made.diff_ids, e)) < 0 ||
		(r = put_diff_ids(config, made.diff_ids, e)) < 0 ||
		(r = put_config(&b, config, e)) < 0 ||
		(r = synthesis_layer(layer, content, &d, e)) < 0)
		return r;
	return synthesis_image(&b, config, &d, 1, ret, e);
}

static int keep_layer(const struct workdir *w, const char *digest, struct err *e)
{
	cleanup_keep struct keep keep = {.workdir = w};
	int r = keep_wants(&keep, digest, e);

	if (r > 0)
		keep_file(&keep, digest, LAYER_FILE);
	return r < 0 ? r : keep_publish(&keep, e);
}

static int import_into(const struct workdir *w, struct claim *claim, const char *path,
	struct image_config *config, json_t **ret, struct err *e)
{
	cleanup_image struct image image = {0};
	struct copied content;
	struct stat st;
	uint64_t size;
	int r;

	if ((r = copy_input(path, w, &content, e)) < 0 ||
		(r = make_image(w, config, &content, &image, e)) < 0 ||
		(r = finish_claim(claim, &image, e)) < 0 ||
		(r = images_find(w->images, image.digest, &size, e)) < 0 ||
		(r = keep_layer(w, content.digest, e)) < 0 ||
		(r = finish_keep(w->images, &image, e)) < 0)
		return r;
	bool cached = size > 0;
	if (fstatat(w->fd, CONVERT_FILE, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_errno(e, errno, "the image");
	if (!cached && (r = images_publish(w, CONVERT_FILE, image.digest, e)) < 0)
		return r;
	*ret = finish_result(&image, NULL, cached ? size : (uint64_t)st.st_size, cached, e);
	return *ret ? 0 : err_code(e);
}

int import_image(const char *path, const char *config_json, const struct images *images,
	struct claim *claim, json_t **ret, struct err *e)
{
	cleanup_image_config struct image_config config = {0};
	cleanup_workdir struct workdir w = WORKDIR_NONE;
	int r;

	if ((r = image_config_make(config_json, &config, e)) < 0) {
		if (e->kind == ERR_PROTOCOL)
			e->kind = ERR_INVALID;
		return r;
	}
	if ((r = workdir_open(images, NULL, &w, e)) < 0)
		return r;
	if ((r = import_into(&w, claim, path, &config, ret, e)) < 0 && e->kind != ERR_NO_SPACE)
		r = err_wrap(e, "%s", strcmp(path, "-") == 0 ? "standard input" : path);
	return r;
}
