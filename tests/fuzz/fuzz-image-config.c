/* SPDX-License-Identifier: Apache-2.0 */
/* An image configuration, as a registry or an archive gives it, or as a person does (import). */
#include "image/config.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS_MAX 3

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t strings_bytes(const json_t *config, const char *member)
{
	const json_t *list = json_object_get(config, member), *s;
	size_t i, bytes = 0;

	assert(json_is_array(list));
	json_array_foreach (list, i, s) {
		assert(json_is_string(s));
		bytes += json_string_length(s);
	}
	return bytes;
}

/* What config.h says of the reduced form. */
static void check(const struct image_config *c)
{
	static const char *const objects[] = {"Volumes", "ExposedPorts", "Labels"};
	const json_t *config = json_object_get(c->reduced, "config");
	const char *dir = json_string_value(json_object_get(config, "WorkingDir"));
	cleanup_buf struct buf b = {0};

	assert(json_is_object(config) && dir && (!*dir || *dir == '/'));
	for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++)
		assert(json_is_object(json_object_get(config, objects[i])));
	assert(json_is_string(json_object_get(config, "User")));
	assert(json_is_string(json_object_get(config, "StopSignal")));
	assert(strings_bytes(config, "Env") + strings_bytes(config, "Entrypoint") +
			strings_bytes(config, "Cmd") <=
		CONFIG_ARGS_MAX);
	buf_init(&b, CONFIG_REDUCED_MAX);
	json_put_canonical(&b, c->reduced);
	assert(!buf_failed(&b));
}

static void parse(const uint8_t *data, size_t size, size_t layers)
{
	const struct platform p = {"linux", "amd64", ""};
	cleanup_image_config struct image_config c = {0};
	struct err e = {0};
	size_t n = 0;

	int r = image_config_parse(data, size, layers, &c, &e);
	assert(r == 0 || (r < 0 && e.kind != ERR_NONE && e.kind != ERR_INTERNAL));
	if (r < 0)
		return;
	check(&c);
	while (image_config_diff_id(&c, n)) {
		assert(reference_is_digest(image_config_diff_id(&c, n)));
		n++;
	}
	assert(n == layers);
	(void)!image_config_check_platform(&c, &p, &e);
}

static void make(const uint8_t *data, size_t size)
{
	cleanup_image_config struct image_config c = {0};
	struct err e = {0};
	char *text = malloc(size + 1);

	if (!text)
		abort();
	memcpy(text, data, size);
	text[size] = '\0';
	int r = image_config_make(text, &c, &e);
	free(text);
	assert(r == 0 || (r < 0 && e.kind != ERR_NONE && e.kind != ERR_INTERNAL));
	if (r == 0)
		check(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	for (size_t layers = 1; layers <= LAYERS_MAX; layers++)
		parse(data, size, layers);
	make(data, size);
	return 0;
}
