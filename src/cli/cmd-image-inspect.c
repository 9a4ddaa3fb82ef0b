/* SPDX-License-Identifier: Apache-2.0 */
/* image inspect. Its JSON is an array, an object for each image, as docker's is. */
#include "commands.h"

#include "images.h"
#include "output.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/strv.h"
#include "../base/text.h"

#include <errno.h>
#include <string.h>

/* What a run uses of the configuration, and how it is called here. */
static const struct {
	const char *key, *published, *shown;
} members[] = {
	{"entrypoint", "Entrypoint", "entrypoint"},
	{"cmd", "Cmd", "command"},
	{"env", "Env", "environment"},
	{"user", "User", "user"},
	{"workdir", "WorkingDir", "workdir"},
	{"labels", "Labels", "labels"},
	{"exposed_ports", "ExposedPorts", "ports"},
	{"volumes", "Volumes", "volumes"},
	{"stop_signal", "StopSignal", "stop signal"},
};
#define COMMAND_TEXT_MAX (9u * 1024 * 1024)
#define MEMBERS (sizeof(members) / sizeof(members[0]))

/* {"80/tcp": {}} is how the specification writes a set. */
static json_t *names_of(const json_t *set)
{
	json_t *list = json_array();
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)set, key, value)
		(void)json_array_append_new(list, json_string(key));
	return list;
}

static json_t *config_json(const json_t *config)
{
	const json_t *inner = json_object_get(config, "config");
	json_t *o = json_object();

	for (size_t i = 0; i < MEMBERS; i++) {
		json_t *value = json_object_get(inner, members[i].published);
		bool set = strcmp(members[i].published, "ExposedPorts") == 0 ||
			   strcmp(members[i].published, "Volumes") == 0;
		(void)json_object_set_new(o, members[i].key,
			set	? names_of(value)
			: value ? json_incref(value)
				: json_null());
	}
	return o;
}

static json_t *inspect_json(const struct image_row *row, const json_t *manifest,
	const json_t *config, char *const *users)
{
	char added[CLOCK_RFC3339_SIZE];
	const json_t *created = json_object_get(config, "created");
	const json_t *author = json_object_get(config, "author");

	clock_rfc3339(row->created_ns, added);
	return json_pack("{s:s, s:o, s:s, s:O, s:s, s:O*, s:I, s:I, s:o, s:o, s:o}", "digest",
		row->digest, "refs", json_from_strv(row->refs), "platform", row->platform,
		"created", json_is_string(created) ? created : json_null(), "added", added,
		"author", json_is_string(author) ? author : NULL, "size_bytes",
		(json_int_t)row->size_bytes, "blobs_bytes", (json_int_t)row->blobs_bytes, "config",
		config_json(config), "layers", image_layers(manifest, config), "sandboxes",
		json_from_strv(users));
}

static int inspect_one(const struct context *c, const char *text, json_t **ret, struct err *e)
{
	cleanup_image_row struct image_row row = {0};
	cleanup_json *manifest = NULL, *config = NULL;
	cleanup_strv char **users = NULL;
	struct reference ref;
	int r;

	if ((r = image_find(c, text, &row, &ref, e)) < 0 ||
		(r = image_show(c, row.digest, &manifest, &config, e)) < 0 ||
		(r = catalog_image_users(c->catalog, row.digest, &users, e)) < 0)
		return r;
	*ret = inspect_json(&row, manifest, config, users);
	return *ret ? 0 : err_set(e, ERR_IO, ENOMEM, "out of memory");
}

static void print_line(const char *name, const char *text)
{
	output_line("%-13s %s", name, *text ? text : "-");
}

/* A line each, the first beside the name. */
static void print_list(const char *name, const json_t *list)
{
	json_t *value;
	size_t i;

	if (json_array_size(list) == 0)
		print_line(name, "");
	json_array_foreach (list, i, value)
		print_line(i ? "" : name,
			json_is_string(value) ? json_string_value(value) : "(not text)");
}

static void print_member(const char *name, const json_t *value)
{
	cleanup_buf struct buf b = {0};
	const char *key;
	json_t *inner;
	size_t n = 0;

	if (strcmp(name, "entrypoint") == 0 || strcmp(name, "command") == 0) {
		buf_init(&b, COMMAND_TEXT_MAX);
		if (json_array_size(value) > 0)
			json_put_canonical(&b, value);
		print_line(name, json_array_size(value) > 0 && buf_cstr(&b) ? buf_cstr(&b) : "");
	} else if (json_is_array(value)) {
		print_list(name, value);
	} else if (json_is_object(value) && json_object_size(value) > 0) {
		json_object_foreach ((json_t *)value, key, inner)
			output_line("%-13s %s=%s", n++ ? "" : name, key,
				json_is_string(inner) ? json_string_value(inner) : "");
	} else {
		print_line(name, json_is_string(value) ? json_string_value(value) : "");
	}
}

static void print_layers(const json_t *layers)
{
	char size[TEXT_SIZE_MAX], text[256];
	json_t *layer;
	size_t i;

	json_array_foreach (layers, i, layer) {
		const json_t *bytes = json_object_get(layer, "size");
		const char *digest = json_string_value(json_object_get(layer, "digest"));
		const char *id = json_string_value(json_object_get(layer, "diff_id"));
		text_size((uint64_t)json_integer_value(bytes), size);
		(void)snprintf(text, sizeof(text), "%.80s  %s", digest ? digest : "?", size);
		print_line(i ? "" : "layers", text);
		(void)snprintf(text, sizeof(text), "  diff id %.80s", id ? id : "?");
		print_line("", text);
	}
}

static const char *string_of(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

static void print_human(const json_t *o)
{
	static const char *const simple[] = {"platform", "created", "added"};
	const json_t *config = json_object_get(o, "config");
	char size[TEXT_SIZE_MAX], blobs[TEXT_SIZE_MAX], text[128];

	print_line("digest", string_of(o, "digest"));
	print_list("names", json_object_get(o, "refs"));
	for (size_t i = 0; i < sizeof(simple) / sizeof(simple[0]); i++)
		print_line(simple[i], string_of(o, simple[i]));
	text_size((uint64_t)json_integer_value(json_object_get(o, "size_bytes")), size);
	text_size((uint64_t)json_integer_value(json_object_get(o, "blobs_bytes")), blobs);
	(void)snprintf(text, sizeof(text), "%s file system, %s as downloaded", size, blobs);
	print_line("size", text);
	for (size_t i = 0; i < MEMBERS; i++)
		print_member(members[i].shown, json_object_get(config, members[i].key));
	print_layers(json_object_get(o, "layers"));
	print_list("sandboxes", json_object_get(o, "sandboxes"));
}

int cmd_image_inspect(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	cleanup_json *list = json_array();
	json_t *o = NULL;
	size_t i;
	int r = context_open(&c, e);

	for (i = 0; r >= 0 && i < a->operands_len; i++)
		if ((r = inspect_one(&c, a->operands[i], &o, e)) >= 0)
			(void)json_array_append_new(list, o);
	if (r < 0)
		return image_worker_status(r, e);
	if (args_on(a, "json"))
		return output_json(json_incref(list), e);
	json_array_foreach (list, i, o) {
		if (i)
			output_line("%s", "");
		print_human(o);
	}
	return 0;
}
