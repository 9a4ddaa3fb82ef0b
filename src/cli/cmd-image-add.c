/* SPDX-License-Identifier: Apache-2.0 */
/* image load and import. */
#include "commands.h"

#include "images.h"
#include "output.h"

#include "../base/fd.h"
#include "../base/strv.h"
#include "../store/image-sweep.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct addition {
	const char *verb; /* "load" or "import" */
	const char *file;
	const char *name;     /* canonical; NULL: those in the archive */
	const char *config;   /* of an import; may be NULL */
	const char *platform; /* of a load; NULL: this machine's */
	bool folders;	      /* file may be one */
};

/* A clear error now is better than one from the worker. */
static int check_file(const struct addition *d, struct err *e)
{
	struct stat st;

	if (strcmp(d->file, "-") == 0) {
		if (!isatty(STDIN_FILENO))
			return 0;
		return err_set(e, ERR_USAGE, 0, "- is stdin, and stdin is a terminal");
	}
	if (stat(d->file, &st) < 0)
		return err_errno(e, errno, "cannot read %s", d->file);
	if (S_ISDIR(st.st_mode) && !d->folders)
		return err_set(e, ERR_INVALID, EISDIR, "%s is a folder, not a tar file", d->file);
	if (S_ISSOCK(st.st_mode))
		return err_set(e, ERR_INVALID, ENXIO, "%s is a socket, not a tar file", d->file);
	return 0;
}

/* The name in an archive is what somebody else wrote: only what parses is used, and no digest, for
 * that only a pull has checked. */
static const char *checked_ref(const char *ref, char ret[static REFERENCE_CANONICAL_SIZE])
{
	struct reference parsed;
	struct err e;

	if (!ref)
		return NULL;
	int r = reference_parse(ref, &parsed, &e);
	if (r >= 0 && *parsed.digest)
		r = err_set(&e, ERR_INVALID, 0, "only a pull gives an image a digest's name");
	if (r < 0) {
		output_notice("kosa8: image load: the name %.200s is ignored: %s", ref, e.what);
		return NULL;
	}
	reference_canonical(&parsed, ret);
	return ret;
}

static int put_all(const struct context *c, const struct addition *d, const struct image_gots *gots,
	struct image_worker *w, json_t *digests, struct err *e)
{
	cleanup_fd int lock = image_lock(&c->home, e);
	char canonical[REFERENCE_CANONICAL_SIZE];
	int r = lock;

	if (gots->len == 0)
		return err_set(e, ERR_INVALID, 0, "there is no image in it");
	for (size_t i = 0; r >= 0 && i < gots->len; i++) {
		const struct image_got *got = &gots->items[i];
		const char *ref = checked_ref(d->name ? d->name : got->ref, canonical);
		if ((r = image_put(c, got, ref, e)) < 0)
			break;
		(void)json_array_append_new(digests, json_string(got->digest));
		output_line("%s%s%s", got->digest, ref && !d->name ? "  " : "",
			ref && !d->name ? ref : "");
	}
	if (r >= 0)
		image_worker_dismiss(w);
	return r < 0 ? r : 0;
}

static int worker_args(const struct addition *d, char ***ret, struct err *e)
{
	cleanup_strv char **args = strv_new();

	if (!args || (d->config && strv_add(&args, "--config") < 0) ||
		(d->config && strv_add(&args, d->config) < 0) ||
		(d->platform && strv_add(&args, "--platform") < 0) ||
		(d->platform && strv_add(&args, d->platform) < 0) || strv_add(&args, "--") < 0 ||
		strv_add(&args, d->file) < 0)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	*ret = strv_take(&args);
	return 0;
}

static int add(const struct context *c, const struct addition *d, bool quiet,
	struct image_worker *w, json_t *digests, struct err *e)
{
	cleanup_image_gots struct image_gots gots = {0};
	cleanup_strv char **args = NULL;
	int r = worker_args(d, &args, e);
	struct image_work work = {.verb = d->verb,
		.args = args,
		.output = -1,
		.hold = true,
		.progress = quiet ? PROGRESS_NONE : PROGRESS_LINES};

	if (r < 0 || (r = image_worker_run(w, c, &work, &gots, e)) < 0)
		return r;
	return put_all(c, d, &gots, w, digests, e);
}

static int add_images(const struct args *a, const struct addition *d, struct err *e)
{
	cleanup_context struct context c = {0};
	cleanup_image_worker struct image_worker w = {0};
	char action[32];
	int r;

	if ((r = check_file(d, e)) < 0 || (r = context_open(&c, e)) < 0)
		return r;
	(void)snprintf(action, sizeof(action), "image.%s", d->verb);
	cleanup_json *detail = json_pack(
		"{s:s, s:s*, s:s*}", "file", d->file, "ref", d->name, "platform", d->platform);
	cleanup_json *bound = json_object(), *digests = json_array();
	struct action act = {.event = {.action = action, .detail = detail}};
	if ((r = action_begin(&c, &act, e)) < 0)
		return r;
	r = add(&c, d, args_on(a, "quiet"), &w, digests, e);
	image_sweep_quietly(&c);
	if (json_array_size(digests) == 1)
		(void)json_object_set(bound, "image", json_array_get(digests, 0));
	else if (json_array_size(digests) > 1)
		(void)json_object_set(bound, "images", digests);
	act.event.bound = bound;
	r = action_end(&c, &act, r, e);
	return r < 0 ? image_worker_status(r, e) : r;
}

int cmd_image_load(const struct args *a, struct err *e)
{
	struct addition d = {.verb = "load",
		.file = a->operands[0],
		.platform = args_value(a, "platform"),
		.folders = true};

	return add_images(a, &d, e);
}

int cmd_image_import(const struct args *a, struct err *e)
{
	char canonical[REFERENCE_CANONICAL_SIZE];
	struct reference ref;
	struct addition d = {.verb = "import",
		.file = a->operands[0],
		.name = canonical,
		.config = args_value(a, "config")};
	int r = reference_parse(a->operands[1], &ref, e);

	if (r < 0)
		return r;
	if (*ref.digest)
		return err_set(e, ERR_INVALID, 0, "an imported image cannot be named by a digest");
	reference_canonical(&ref, canonical);
	return add_images(a, &d, e);
}
