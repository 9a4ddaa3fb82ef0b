/* SPDX-License-Identifier: Apache-2.0 */
/* kosa8-image: see worker.h. */
#include "confine-client.h"
#include "images.h"
#include "import.h"
#include "load.h"
#include "output.h"
#include "pull.h"
#include "worker.h"

#include "../base/fd.h"
#include "../base/log.h"
#include "../base/text.h"
#include "../proto/reference.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <unistd.h>

struct options {
	const char *images_dir;
	const char *config;
	const char *operand;
	struct platform platform;
	bool plain_http;
};

enum { OPT_IMAGES_DIR = 1, OPT_PLATFORM, OPT_PLAIN_HTTP, OPT_CONFIG };

static int usage(struct err *e)
{
	(void)err_set(e, ERR_USAGE, EINVAL, "wrong arguments for kosa8-image");
	return err_hint(e, "kosa8-image pull|load|import --images-dir DIR [FLAGS] OPERAND");
}

static int parse_options(int argc, char **argv, struct options *ret, struct err *e)
{
	static const struct option known[] = {
		{"images-dir", required_argument, NULL, OPT_IMAGES_DIR},
		{"platform", required_argument, NULL, OPT_PLATFORM},
		{"plain-http", no_argument, NULL, OPT_PLAIN_HTTP},
		{"config", required_argument, NULL, OPT_CONFIG}, {0}};
	struct options o = {.platform = {.os = "linux", .arch = "amd64"}};
	int c, r;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "+", known, NULL)) != -1) {
		switch (c) {
		case OPT_IMAGES_DIR:
			o.images_dir = optarg;
			break;
		case OPT_PLATFORM:
			if ((r = platform_parse(optarg, &o.platform, e)) < 0)
				return r;
			break;
		case OPT_PLAIN_HTTP:
			o.plain_http = true;
			break;
		case OPT_CONFIG:
			o.config = optarg;
			break;
		default:
			return usage(e);
		}
	}
	if (optind + 1 != argc)
		return usage(e);
	o.operand = argv[optind];
	*ret = o;
	return 0;
}

static int parse_ref(const char *text, json_t **ret, struct err *e)
{
	char canonical[REFERENCE_CANONICAL_SIZE];
	struct reference r;
	int x = reference_parse(text, &r, e);

	if (x < 0)
		return x;
	reference_canonical(&r, canonical);
	*ret = json_pack("{s:b, s:s, s:s, s:s, s:s?, s:s?}", "ok", 1, "canonical", canonical,
		"registry", r.registry, "repository", r.repository, "tag", r.tag[0] ? r.tag : NULL,
		"digest", r.digest[0] ? r.digest : NULL);
	return *ret ? 0 : err_errno(e, ENOMEM, "making the result");
}

static int confine_archive(const struct options *o, struct err *e)
{
	const char *const readable[] = {o->operand, NULL};

	return confine_image_worker(CONFINE_ARCHIVE, o->images_dir, readable, e);
}

static int work(int argc, char **argv, struct output *output, json_t **ret, struct err *e)
{
	cleanup_images struct images images = {.dirfd = -1, .blobsfd = -1, .locksfd = -1};
	struct options o;
	int r;

	if (argc < 2)
		return usage(e);
	const char *verb = argv[1];
	if ((r = parse_options(argc - 1, argv + 1, &o, e)) < 0)
		return r;
	if (strcmp(verb, "parse") == 0)
		return parse_ref(o.operand, ret, e);
	if (!o.images_dir)
		return usage(e);
	if ((r = images_open(o.images_dir, output, &images, e)) < 0)
		return r;
	/* A pull is confined later: its credential helpers need the user's own rights. */
	if (strcmp(verb, "pull") != 0 && (r = confine_archive(&o, e)) < 0)
		return r;
	if (strcmp(verb, "pull") == 0) {
		struct pull p = {o.operand, o.platform, o.plain_http};
		r = pull_image(&p, &images, ret, e);
	} else if (strcmp(verb, "load") == 0) {
		r = load_images(o.operand, &o.platform, &images, ret, e);
	} else if (strcmp(verb, "import") == 0) {
		r = import_image(o.operand, o.config, &images, ret, e);
	} else {
		return usage(e);
	}
	images_sweep(&images);
	return r;
}

int main(int argc, char **argv)
{
	struct output output = {.fd = STDOUT_FILENO};
	struct err e = {0};
	json_t *result = NULL;

	log_init("kosa8-image", NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	int r = work(argc, argv, &output, &result, &e);
	if (r < 0)
		output_error(&output, &e);
	else
		output_take(&output, result);
	return r < 0 || output_failed(&output) ? 1 : 0;
}
