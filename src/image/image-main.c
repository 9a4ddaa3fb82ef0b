/* SPDX-License-Identifier: Apache-2.0 */
/* kosa8-image: see worker.h. */
#include "confine-client.h"
#include "images.h"
#include "archive/import.h"
#include "archive/load.h"
#include "registry/login.h"
#include "output.h"
#include "pull.h"
#include "archive/save.h"
#include "show.h"
#include "worker.h"

#include "../base/fd.h"
#include "../base/log.h"
#include "../base/text.h"
#include "../proto/reference.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

struct options {
	const char *images_dir;
	const char *config;
	const char *user;
	const char *operand; /* the first of operands */
	char *const *operands;
	size_t operands_len;
	struct platform platform;
	bool plain_http;
	bool hold;
};

enum { OPT_IMAGES_DIR = 1, OPT_PLATFORM, OPT_PLAIN_HTTP, OPT_CONFIG, OPT_HOLD, OPT_USER };

static int usage(struct err *e)
{
	(void)err_set(e, ERR_USAGE, EINVAL, "wrong arguments for kosa8-image");
	return err_hint(
		e, "kosa8-image pull|load|import|save|show --images-dir DIR [FLAGS] OPERAND");
}

static int parse_options(int argc, char **argv, struct options *ret, struct err *e)
{
	static const struct option known[] = {
		{"images-dir", required_argument, NULL, OPT_IMAGES_DIR},
		{"platform", required_argument, NULL, OPT_PLATFORM},
		{"plain-http", no_argument, NULL, OPT_PLAIN_HTTP},
		{"hold", no_argument, NULL, OPT_HOLD},
		{"config", required_argument, NULL, OPT_CONFIG},
		{"user", required_argument, NULL, OPT_USER}, {0}};
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
		case OPT_HOLD:
			o.hold = true;
			break;
		case OPT_CONFIG:
			o.config = optarg;
			break;
		case OPT_USER:
			o.user = optarg;
			break;
		default:
			return usage(e);
		}
	}
	if (optind == argc || (optind + 1 != argc && strcmp(argv[0], "save") != 0))
		return usage(e);
	o.operand = argv[optind];
	o.operands = argv + optind;
	o.operands_len = (size_t)(argc - optind);
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

/* A pull confines itself once it has its credentials (source.h). */
static int confine_archive(const struct options *o, struct err *e)
{
	const char *const readable[] = {o->operand, NULL};

	return confine_image_worker(CONFINE_ARCHIVE, o->images_dir, readable, e);
}

static int work_on_images(const char *verb, const struct options *o, const struct images *images,
	struct claim *claim, json_t **ret, struct err *e)
{
	if (strcmp(verb, "pull") == 0) {
		struct pull p = {o->operand, o->platform, o->plain_http};
		return pull_image(&p, images, claim, ret, e);
	}
	int r = confine_archive(o, e);
	if (r < 0)
		return r;
	if (strcmp(verb, "save") == 0)
		return save_images(o->operands, o->operands_len, images, ret, e);
	if (strcmp(verb, "show") == 0)
		return show_image(o->operand, images, ret, e);
	if ((r = claim_take(images, NULL, NULL, claim, e)) < 0)
		return r;
	if (strcmp(verb, "load") == 0)
		return load_images(o->operand, &o->platform, images, claim, ret, e);
	if (strcmp(verb, "import") == 0)
		return import_image(o->operand, o->config, images, claim, ret, e);
	return usage(e);
}

/* Until the reader has closed its end (worker.h). */
static void hold(int fd)
{
	struct pollfd p = {.fd = fd};

	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		;
}

/* Whether the next try can use what this one got. */
static bool worth_keeping(const struct err *e)
{
	return e->kind == ERR_UNAVAILABLE || e->kind == ERR_CANCELLED || e->kind == ERR_TIMEOUT;
}

/* Does the work and tells its result: 0 when all went well. */
static int run(const char *verb, const struct options *o, struct output *output, struct err *e)
{
	cleanup_images struct images images = IMAGES_NONE;
	struct claim claim = CLAIM_NONE;
	json_t *result = NULL;
	int r;

	if (strcmp(verb, "parse") == 0) {
		r = parse_ref(o->operand, &result, e);
	} else if (strcmp(verb, "logout") == 0) {
		r = logout_registry(o->operand, output, &result, e);
	} else if (strcmp(verb, "login") == 0 && o->user) {
		r = login_registry(
			o->operand, o->user, STDIN_FILENO, o->plain_http, output, &result, e);
	} else if (!o->images_dir) {
		r = usage(e);
	} else if ((r = images_open(o->images_dir, output, &images, e)) == 0) {
		r = work_on_images(verb, o, &images, &claim, &result, e);
		images_sweep(&images);
	}
	if (r < 0) {
		claim_release(&claim, worth_keeping(e) ? CLAIM_KEEP : CLAIM_DISCARD);
		return r;
	}
	output_take(output, result);
	if (o->hold && !output_failed(output))
		hold(output->fd);
	claim_release(&claim, CLAIM_DONE);
	return 0;
}

int main(int argc, char **argv)
{
	struct output output = {.fd = STDOUT_FILENO};
	struct options o;
	struct err e = {0};

	log_init("kosa8-image", NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGXFSZ, SIG_IGN);
	int r = argc < 2 ? usage(&e) : parse_options(argc - 1, argv + 1, &o, &e);
	if (r == 0)
		r = run(argv[1], &o, &output, &e);
	if (r < 0)
		output_error(&output, &e);
	return r < 0 || output_failed(&output) ? 1 : 0;
}
