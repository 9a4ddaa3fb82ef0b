/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "../base/strv.h"
#include "../base/text.h"

#include <errno.h>
#include <string.h>

#define LIST_MAX 4096
#define KEYS_MAX 256
#define KEY_BYTES_MAX 4096

void image_config_release(struct image_config *c)
{
	json_decref(c->reduced);
	c->reduced = NULL;
}

static int no_memory(struct err *e)
{
	return err_errno(e, ENOMEM, "reading the image's configuration");
}

/* Adds a copy of an array of strings; missing is empty, one string (Docker's old form) is an array
 * of one. *left is what the bytes may still be. */
static int copy_list(json_t *to, const json_t *from, const char *key, size_t *left, struct err *e)
{
	json_t *v = json_object_get(from, key);
	cleanup_json *list = json_is_string(v) ? json_pack("[O]", v) : json_array();
	size_t i;
	json_t *item;

	if (!list)
		return no_memory(e);
	if (v && !json_is_null(v) && !json_is_array(v) && !json_is_string(v))
		return err_set(e, ERR_PROTOCOL, 0, "\"%s\" is not a list of strings", key);
	if (json_array_size(v) > LIST_MAX)
		return err_set(e, ERR_LIMIT, 0, "\"%s\" has more than %d elements", key, LIST_MAX);
	json_array_foreach (v, i, item)
		if (!json_is_string(item) || json_array_append(list, item) < 0)
			return err_set(e, ERR_PROTOCOL, 0, "\"%s\" is not a list of strings", key);
	json_array_foreach (list, i, item) {
		size_t bytes = json_string_length(item) + 1;
		if (bytes > *left)
			return err_set(e, ERR_LIMIT, 0,
				"Env, Entrypoint and Cmd are together over %u bytes",
				CONFIG_ARGS_MAX);
		*left -= bytes;
	}
	return json_object_set(to, key, list) < 0 ? no_memory(e) : 0;
}

/* An assignment without a name means nothing to a program. */
static int check_env(const json_t *config, struct err *e)
{
	size_t i;
	json_t *item;

	json_array_foreach (json_object_get(config, "Env"), i, item)
		if (json_string_value(item)[0] == '\0' || json_string_value(item)[0] == '=')
			return err_set(
				e, ERR_PROTOCOL, 0, "entry %zu of \"Env\" has no name", i + 1);
	return 0;
}

static int copy_string(json_t *to, const json_t *from, const char *key, size_t max, struct err *e)
{
	const char *s;
	int r = json_get_str_or(from, key, max, "", &s, e);

	if (r < 0)
		return r;
	return json_object_set_new(to, key, json_string(s)) < 0 ? no_memory(e) : 0;
}

static int copy_working_dir(json_t *to, const json_t *from, struct err *e)
{
	const char *dir;
	int r = json_get_str_or(from, "WorkingDir", KEY_BYTES_MAX, "", &dir, e);

	if (r < 0)
		return r;
	json_t *s = *dir && *dir != '/' ? json_sprintf("/%s", dir) : json_string(dir);
	return json_object_set_new(to, "WorkingDir", s) < 0 ? no_memory(e) : 0;
}

static int copy_stop_signal(json_t *to, const json_t *from, struct err *e)
{
	int r = copy_string(to, from, "StopSignal", 32, e);

	if (r < 0)
		return r;
	const char *s = json_string_value(json_object_get(to, "StopSignal"));
	if (s[strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-")] ==
		'\0')
		return 0;
	char shown[64];
	text_escape(s, shown, sizeof(shown));
	return err_set(e, ERR_PROTOCOL, 0, "\"StopSignal\" is \"%s\", no signal's name", shown);
}

/* The keys of an object of empty objects: a set of names. */
static int copy_set(json_t *to, const json_t *from, const char *key, struct err *e)
{
	json_t *v = json_object_get(from, key);
	json_t *set = json_object();
	const char *name;
	json_t *ignored;
	int r = set ? json_object_set_new(to, key, set) : -1;

	if (r < 0)
		return no_memory(e);
	if (v && !json_is_null(v) && !json_is_object(v))
		return err_set(e, ERR_PROTOCOL, 0, "\"%s\" is not an object", key);
	if (json_object_size(v) > KEYS_MAX)
		return err_set(e, ERR_LIMIT, 0, "\"%s\" has more than %d members", key, KEYS_MAX);
	json_object_foreach (v, name, ignored) {
		if (strlen(name) > KEY_BYTES_MAX)
			return err_set(e, ERR_LIMIT, 0, "a name in \"%s\" is too long", key);
		if (json_object_set_new(set, name, json_object()) < 0)
			return no_memory(e);
	}
	return 0;
}

static int copy_labels(json_t *to, const json_t *from, struct err *e)
{
	json_t *v = json_object_get(from, "Labels");
	json_t *labels = json_object();
	const char *name;
	json_t *value;

	if (!labels || json_object_set_new(to, "Labels", labels) < 0)
		return no_memory(e);
	json_object_foreach (v, name, value)
		if (json_is_string(value) && json_object_set(labels, name, value) < 0)
			return no_memory(e);
	return 0;
}

static bool fits(const json_t *reduced)
{
	cleanup_buf struct buf b = {0};

	buf_init(&b, CONFIG_REDUCED_MAX);
	json_put_canonical(&b, reduced);
	return !buf_failed(&b);
}

/* Labels are for people and tools, not for running it: they go first. */
static int check_size(json_t *reduced, struct err *e)
{
	if (fits(reduced))
		return 0;
	json_object_clear(json_object_get(json_object_get(reduced, "config"), "Labels"));
	if (fits(reduced))
		return 0;
	return err_set(
		e, ERR_LIMIT, 0, "the image's configuration is over %u bytes", CONFIG_REDUCED_MAX);
}

static int reduce_member(json_t *to, const json_t *from, struct err *e)
{
	size_t left = CONFIG_ARGS_MAX;
	int r;

	if ((r = copy_list(to, from, "Env", &left, e)) < 0 ||
		(r = copy_list(to, from, "Entrypoint", &left, e)) < 0 ||
		(r = copy_list(to, from, "Cmd", &left, e)) < 0 || (r = check_env(to, e)) < 0 ||
		(r = copy_string(to, from, "User", 512, e)) < 0 ||
		(r = copy_working_dir(to, from, e)) < 0 ||
		(r = copy_stop_signal(to, from, e)) < 0 ||
		(r = copy_set(to, from, "Volumes", e)) < 0 ||
		(r = copy_set(to, from, "ExposedPorts", e)) < 0 ||
		(r = copy_labels(to, from, e)) < 0)
		return err_wrap(e, "the image's configuration");
	return 0;
}

static int reduce_rootfs(json_t *to, const json_t *from, size_t layers, struct err *e)
{
	json_t *rootfs, *diff_ids, *item;
	const char *type;
	size_t i;
	int r;

	if ((r = json_get_object(from, "rootfs", &rootfs, e)) < 0 ||
		(r = json_get_str(rootfs, "type", 32, &type, e)) < 0 ||
		(r = json_get_array_or_null(
			 rootfs, "diff_ids", MANIFEST_LAYERS_MAX, &diff_ids, e)) < 0)
		return err_wrap(e, "the image's configuration");
	if (strcmp(type, "layers") != 0)
		return err_set(e, ERR_UNSUPPORTED, 0, "the image's root is not made of layers");
	if (json_array_size(diff_ids) != layers)
		return err_set(e, ERR_CORRUPT, 0,
			"the image's configuration names %zu layers and its manifest %zu",
			json_array_size(diff_ids), layers);
	json_array_foreach (diff_ids, i, item)
		if (!json_is_string(item) || !reference_is_digest(json_string_value(item)))
			return err_set(e, ERR_PROTOCOL, 0,
				"the image's configuration: diff_id %zu is not a SHA-256 digest",
				i + 1);
	/* Docker leaves out diff_ids when there are none. */
	json_t *copy = json_pack("{s:s, s:o}", "type", "layers", "diff_ids",
		diff_ids ? json_incref(diff_ids) : json_array());
	return json_object_set_new(to, "rootfs", copy) < 0 ? no_memory(e) : 0;
}

static int read_platform(const json_t *o, struct platform *ret, struct err *e)
{
	const char *os, *arch, *variant;
	int r;

	if ((r = json_get_str(o, "os", sizeof(ret->os) - 1, &os, e)) < 0 ||
		(r = json_get_str(o, "architecture", sizeof(ret->arch) - 1, &arch, e)) < 0 ||
		(r = json_get_str_or(o, "variant", sizeof(ret->variant) - 1, "", &variant, e)) < 0)
		return err_wrap(e, "the image's configuration");
	(void)snprintf(ret->os, sizeof(ret->os), "%s", os);
	(void)snprintf(ret->arch, sizeof(ret->arch), "%s", arch);
	(void)snprintf(ret->variant, sizeof(ret->variant), "%s", variant);
	return 0;
}

static int put_platform(json_t *to, const struct platform *p, struct err *e)
{
	if (json_object_set_new(to, "os", json_string(p->os)) < 0 ||
		json_object_set_new(to, "architecture", json_string(p->arch)) < 0 ||
		(p->variant[0] && json_object_set_new(to, "variant", json_string(p->variant)) < 0))
		return no_memory(e);
	return 0;
}

/* {"config":{...}} from the "config" member, which may be missing. */
static json_t *reduce(const json_t *member, struct err *e)
{
	cleanup_json *to = json_pack("{s:{}}", "config");

	if (!to) {
		(void)no_memory(e);
		return NULL;
	}
	if (member && !json_is_null(member) && !json_is_object(member)) {
		(void)err_set(e, ERR_PROTOCOL, 0,
			"the image's configuration: \"config\" must be an "
			"object");
		return NULL;
	}
	if (reduce_member(json_object_get(to, "config"), member, e) < 0)
		return NULL;
	return json_incref(to);
}

int image_config_parse(
	const void *data, size_t len, size_t layers, struct image_config *ret, struct err *e)
{
	cleanup_json *o = NULL;
	cleanup_image_config struct image_config c = {0};
	int r;

	if ((r = json_parse_object(data, len, "the image's configuration", &o, e)) < 0 ||
		(r = read_platform(o, &c.platform, e)) < 0)
		return r;
	c.reduced = reduce(json_object_get(o, "config"), e);
	if (!c.reduced)
		return err_code(e);
	if ((r = put_platform(c.reduced, &c.platform, e)) < 0 ||
		(r = reduce_rootfs(c.reduced, o, layers, e)) < 0)
		return r;
	if (json_is_string(json_object_get(o, "created")) &&
		(r = copy_string(c.reduced, o, "created", 64, e)) < 0)
		return r;
	if ((r = check_size(c.reduced, e)) < 0)
		return r;
	*ret = c;
	c.reduced = NULL;
	return 0;
}

/* What a person wrote may hold a slip of the pen, which would be lost without a word. */
static int check_known(const json_t *member, struct err *e)
{
	static const char *const known[] = {"Env", "Entrypoint", "Cmd", "User", "WorkingDir",
		"StopSignal", "Volumes", "ExposedPorts", "Labels"};
	const char *name;
	json_t *ignored;
	int r = 0;

	json_object_foreach ((json_t *)member, name, ignored) {
		size_t i = 0;
		while (i < sizeof(known) / sizeof(known[0]) && strcmp(known[i], name) != 0)
			i++;
		if (i < sizeof(known) / sizeof(known[0]))
			continue;
		char shown[64];
		text_escape(name, shown, sizeof(shown));
		(void)err_set(e, ERR_INVALID, 0, "the configuration: unknown member \"%s\"", shown);
		r = err_hint(e, "Env, Entrypoint, Cmd, User, WorkingDir, StopSignal, Volumes, "
				"ExposedPorts, Labels");
	}
	return r;
}

int image_config_make(const char *member, struct image_config *ret, struct err *e)
{
	cleanup_json *o = NULL;
	struct image_config c = {.platform = {.os = "linux", .arch = "amd64"}};
	int r = 0;

	if (member &&
		(r = json_parse_object(member, strlen(member), "the configuration", &o, e)) < 0)
		return r;
	if ((r = check_known(o, e)) < 0)
		return r;
	c.reduced = reduce(o, e);
	if (!c.reduced)
		return err_code(e);
	if ((r = put_platform(c.reduced, &c.platform, e)) < 0 ||
		(r = check_size(c.reduced, e)) < 0) {
		image_config_release(&c);
		return r;
	}
	*ret = c;
	return 0;
}

int image_config_check_platform(
	const struct image_config *c, const struct platform *wanted, struct err *e)
{
	char has[PLATFORM_TEXT_SIZE], asked[PLATFORM_TEXT_SIZE], shown[PLATFORM_TEXT_SIZE * 2];

	if (strcmp(c->platform.os, wanted->os) == 0 && strcmp(c->platform.arch, wanted->arch) == 0)
		return 0;
	platform_format(&c->platform, has);
	text_escape(has, shown, sizeof(shown));
	platform_format(wanted, asked);
	return err_set(
		e, ERR_INCOMPATIBLE, 0, "the image is for %s only, not for %s", shown, asked);
}

const char *image_config_diff_id(const struct image_config *c, size_t i)
{
	const json_t *rootfs = json_object_get(c->reduced, "rootfs");

	return json_string_value(json_array_get(json_object_get(rootfs, "diff_ids"), i));
}
