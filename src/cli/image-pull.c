/* SPDX-License-Identifier: Apache-2.0 */
#include "images.h"

#include "args.h"
#include "output.h"

#include "../base/fd.h"
#include "../base/strv.h"
#include "../base/text.h"
#include "../store/image-sweep.h"

#include <errno.h>
#include <string.h>

static int out_of_memory(struct err *e)
{
	return err_set(e, ERR_IO, ENOMEM, "out of memory");
}

static bool wanted_platform(const struct image_pull *p, const struct image_row *row)
{
	return strcmp(row->platform ? row->platform : "",
		       p->platform ? p->platform : "linux/amd64") == 0;
}

static bool has_ref(const struct image_row *row, const char *canonical)
{
	for (char **ref = row->refs; ref && *ref; ref++)
		if (strcmp(*ref, canonical) == 0)
			return true;
	return false;
}

/* The image is here, and no registry could say anything new about it. 1: that was all; 0: it has
 * gone meanwhile. */
static int use_local(struct context *c, const struct image_pull *p, const struct image_row *row,
	const char *canonical, struct err *e)
{
	cleanup_fd int lock = image_lock(&c->home, e);
	int r = lock;

	if (r >= 0 && *canonical && !has_ref(row, canonical))
		r = catalog_image_tag(c->catalog, row->digest, canonical, e);
	if (r >= 0 && p->box)
		r = catalog_sandbox_image_add(c->catalog, p->box->row.id, row->digest, e);
	if (r >= 0)
		return 1;
	return e->kind == ERR_NOT_FOUND ? 0 : r;
}

static int worker_args(
	const struct image_pull *p, const char *canonical, char ***ret, struct err *e)
{
	cleanup_strv char **args = strv_new();

	if (!args || (p->platform && strv_add(&args, "--platform") < 0) ||
		(p->platform && strv_add(&args, p->platform) < 0) ||
		(p->plain_http && strv_add(&args, "--plain-http") < 0) ||
		strv_add(&args, "--") < 0 || strv_add(&args, canonical) < 0)
		return out_of_memory(e);
	*ret = strv_take(&args);
	return 0;
}

static int put(struct context *c, const struct image_pull *p, const struct image_got *got,
	const char *canonical, struct image_worker *w, struct err *e)
{
	cleanup_fd int lock = image_lock(&c->home, e);
	int r = lock;

	if (r >= 0)
		r = image_put(c, got, canonical, e);
	if (r >= 0 && p->box)
		r = catalog_sandbox_image_add(c->catalog, p->box->row.id, got->digest, e);
	if (r >= 0)
		image_worker_dismiss(w);
	return r;
}

static int fetch(struct context *c, const struct image_pull *p, const char *canonical,
	struct image_worker *w, struct image_gots *gots, struct err *e)
{
	cleanup_strv char **args = NULL;
	struct image_work work = {
		.verb = "pull", .output = -1, .hold = true, .progress = p->progress};
	int r = worker_args(p, canonical, &args, e);

	if (r < 0)
		return r;
	work.args = args;
	if ((r = image_worker_run(w, c, &work, gots, e)) < 0)
		return r;
	if (gots->len != 1)
		return err_set(e, ERR_PROTOCOL, 0, "kosa8-image pulled %zu images", gots->len);
	return put(c, p, gots->items, canonical, w, e);
}

static void tell(const struct image_pull *p, const char *name, const char *how, uint64_t bytes)
{
	char size[TEXT_SIZE_MAX];

	text_size(bytes, size);
	if (!p->quiet)
		output_notice("%s: %s (%s)", name, how, size);
}

/* By its own digest, and of the wanted platform: *ret_local. Else what to ask the registry for. */
static int resolve(const struct context *c, const struct image_pull *p, struct image_row *ret,
	char ret_canonical[static REFERENCE_CANONICAL_SIZE], bool *ret_local, struct err *e)
{
	struct reference ref;
	int r = image_find(c, p->text, ret, &ref, e);

	*ret_local = false;
	ret_canonical[0] = '\0';
	if (*ref.registry)
		reference_canonical(&ref, ret_canonical);
	else if (r < 0)
		return r;
	if (r < 0)
		return e->kind == ERR_NOT_FOUND ? 0 : r;
	if (!*ref.registry && p->platform && !wanted_platform(p, ret))
		return err_set(e, ERR_INCOMPATIBLE, 0, "%.100s: the image is for %s only", p->text,
			ret->platform);
	*ret_local = !*ref.registry || (*ref.digest && wanted_platform(p, ret));
	return 0;
}

static int pull(struct context *c, const struct image_pull *p, struct image_worker *w,
	char ret_digest[static REFERENCE_DIGEST_SIZE], struct err *e)
{
	char canonical[REFERENCE_CANONICAL_SIZE];
	cleanup_image_gots struct image_gots gots = {0};
	cleanup_image_row struct image_row row = {0};
	bool local;
	int r = resolve(c, p, &row, canonical, &local, e);

	if (r >= 0 && local && (r = use_local(c, p, &row, canonical, e)) > 0) {
		memcpy(ret_digest, row.digest, REFERENCE_DIGEST_SIZE);
		tell(p, *canonical ? canonical : row.digest, "up to date", row.size_bytes);
		return 0;
	}
	if (r >= 0 && !*canonical) /* use_local() has said so */
		return err_code(e);
	if (r < 0 || (r = fetch(c, p, canonical, w, &gots, e)) < 0)
		return r;
	if (!gots.items->cached)
		image_sweep_quietly(c);
	memcpy(ret_digest, gots.items->digest, REFERENCE_DIGEST_SIZE);
	tell(p, canonical, gots.items->cached ? "up to date" : "pulled", gots.items->size_bytes);
	return 0;
}

int image_pull(struct context *c, const struct image_pull *p,
	char ret_digest[static REFERENCE_DIGEST_SIZE], struct err *e)
{
	cleanup_image_worker struct image_worker w = {0};
	char canonical[REFERENCE_CANONICAL_SIZE];
	struct reference ref;
	bool named = !reference_is_digest(p->text) && reference_parse(p->text, &ref, e) >= 0;
	if (named)
		reference_canonical(&ref, canonical);
	cleanup_json *detail = json_pack(
		"{s:s, s:s*}", "ref", named ? canonical : p->text, "platform", p->platform);
	cleanup_json *bound = NULL;
	struct action a = {.event = {.action = "image.pull",
				   .sandbox = p->box ? p->box->row.name : NULL,
				   .sandbox_id = p->box ? p->box->row.id : NULL,
				   .detail = detail}};
	int r = action_begin(c, &a, e);

	if (r < 0)
		return r;
	r = pull(c, p, &w, ret_digest, e);
	if (r >= 0)
		a.event.bound = bound = json_pack("{s:s}", "image", ret_digest);
	else
		image_sweep_quietly(c);
	return action_end(c, &a, r, e);
}

void image_pull_flags(const struct args *a, struct image_pull *p)
{
	p->platform = args_value(a, "platform");
	p->plain_http = args_on(a, "plain-http");
	p->quiet = args_on(a, "quiet");
	p->progress = p->quiet ? PROGRESS_NONE : PROGRESS_LINES;
}
