/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image history: the configuration's "history", newest first. The entries that are not empty stand
 * for the layers, in their order; an image need not have a history, nor a whole one, so layers that
 * are left over are shown without one.
 */
#include "commands.h"

#include "images.h"
#include "output.h"

#include "../base/strv.h"
#include "../base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SHORT_TEXT 60
#define ENTRIES_MAX 4096 /* more are not shown */

static json_t *text_or_null(const json_t *entry, const char *key)
{
	json_t *value = json_object_get(entry, key);

	return json_is_string(value) ? json_incref(value) : json_null();
}

/* entry and layer may be NULL. */
static json_t *entry_json(const json_t *entry, const json_t *layer, bool empty)
{
	json_t *size = json_object_get(layer, "size");
	json_t *digest = json_object_get(layer, "digest");

	return json_pack("{s:o, s:o, s:o, s:b, s:o, s:O}", "created",
		text_or_null(entry, "created"), "created_by", text_or_null(entry, "created_by"),
		"comment", text_or_null(entry, "comment"), "empty_layer", empty, "size_bytes",
		empty  ? json_integer(0)
		: size ? json_incref(size)
		       : json_null(),
		"layer", digest ? digest : json_null());
}

/* Oldest first. */
static json_t *history_json(const json_t *manifest, const json_t *config)
{
	cleanup_json *layers = image_layers(manifest, config);
	const json_t *history = json_object_get(config, "history");
	json_t *list = json_array();
	size_t next = 0, n = json_array_size(history);

	for (size_t i = 0; list && i < n && i < ENTRIES_MAX; i++) {
		const json_t *entry = json_array_get(history, i);
		bool empty = json_is_true(json_object_get(entry, "empty_layer"));
		const json_t *layer = empty ? NULL : json_array_get(layers, next++);
		(void)json_array_append_new(list, entry_json(entry, layer, empty));
	}
	for (; list && next < json_array_size(layers); next++)
		(void)json_array_append_new(
			list, entry_json(NULL, json_array_get(layers, next), false));
	return list;
}

static void add_row(struct table *t, const json_t *entry, bool whole)
{
	const char *created = json_string_value(json_object_get(entry, "created"));
	const char *by = json_string_value(json_object_get(entry, "created_by"));
	const json_t *bytes = json_object_get(entry, "size_bytes");
	char size[TEXT_SIZE_MAX] = "-", cut[SHORT_TEXT + 4], day[20] = "";
	size_t end = SHORT_TEXT;

	if (json_is_integer(bytes))
		text_size((uint64_t)json_integer_value(bytes), size);
	if (created) /* 2026-01-31T12:00:00: what follows are fractions and the zone, as a rule Z */
		(void)snprintf(day, sizeof(day), "%.19s", created);
	if (by && strlen(by) > SHORT_TEXT && !whole) {
		while (end > 0 && ((unsigned char)by[end] & 0xc0) == 0x80)
			end--;
		(void)snprintf(cut, sizeof(cut), "%.*s...", (int)end, by);
		by = cut;
	}
	const char *const cells[] = {day, size, by};
	table_row(t, SHADE_NONE, cells);
}

int cmd_image_history(const struct args *a, struct err *e)
{
	static const char *const headers[] = {"CREATED", "SIZE", "CREATED BY", NULL};
	cleanup_context struct context c = {0};
	cleanup_image_row struct image_row row = {0};
	cleanup_json *manifest = NULL, *config = NULL, *newest_first = json_array();
	cleanup_table struct table t = {0};
	struct reference ref;
	int r;

	if ((r = context_open(&c, e)) < 0 ||
		(r = image_find(&c, a->operands[0], &row, &ref, e)) < 0)
		return r;
	if ((r = image_show(&c, row.digest, &manifest, &config, e)) < 0)
		return image_worker_status(r, e);
	cleanup_json *list = history_json(manifest, config);
	if (!list || !newest_first)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	for (size_t i = json_array_size(list); i-- > 0;)
		(void)json_array_append(newest_first, json_array_get(list, i));
	if (args_on(a, "json"))
		return output_json(json_incref(newest_first), e);
	table_init(&t, headers, TABLE_COLUMNS_MAX);
	for (size_t i = 0; i < json_array_size(newest_first); i++)
		add_row(&t, json_array_get(newest_first, i), args_on(a, "no-trunc"));
	return table_print(&t, e);
}
