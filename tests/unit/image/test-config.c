/* SPDX-License-Identifier: Apache-2.0 */
#include "image/config.h"

#include "tap.h"

#include <stdlib.h>

#define DIFF "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ROOTFS "\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"" DIFF "\"]}"
#define AMD64 "\"os\":\"linux\",\"architecture\":\"amd64\","

static enum err_kind parse_of(const char *text, size_t layers, struct image_config *ret)
{
	struct err e = {0};

	if (image_config_parse(text, strlen(text), layers, ret, &e) == 0)
		return ERR_NONE;
	printf("# %s\n", e.what);
	return e.kind;
}

static enum err_kind parse(const char *text, struct image_config *ret)
{
	return parse_of(text, 1, ret);
}

static enum err_kind kind_of(const char *member)
{
	cleanup_image_config struct image_config c = {0};
	char text[2048];

	(void)snprintf(text, sizeof(text), "{" AMD64 ROOTFS ",\"config\":%s}", member);
	return parse(text, &c);
}

static const char *canonical(const struct image_config *c, struct buf *b)
{
	buf_init(b, 1 << 20);
	json_put_canonical(b, c->reduced);
	return buf_cstr(b);
}

static void test_reduced(void)
{
	cleanup_image_config struct image_config c = {0};
	cleanup_buf struct buf b = {0};

	EQ_INT(parse("{" AMD64 ROOTFS
		     ",\"history\":[{}],\"config\":{\"Env\":[\"A=b\"],\"Cmd\":\"sh\","
		     "\"Entrypoint\":null,\"User\":\"app\",\"WorkingDir\":\"srv\",\"Extra\":1,"
		     "\"StopSignal\":\"SIGTERM\",\"Volumes\":{\"/"
		     "v\":{}},\"Labels\":{\"a\":\"b\"}}}",
		       &c),
		ERR_NONE, "a configuration");
	EQ_STR(canonical(&c, &b),
		"{\"architecture\":\"amd64\",\"config\":{\"Cmd\":[\"sh\"],\"Entrypoint\":[],"
		"\"Env\":[\"A=b\"],\"ExposedPorts\":{},\"Labels\":{\"a\":\"b\"},"
		"\"StopSignal\":\"SIGTERM\",\"User\":\"app\",\"Volumes\":{\"/v\":{}},"
		"\"WorkingDir\":\"/srv\"},\"os\":\"linux\",\"rootfs\":{\"diff_ids\":[\"" DIFF
		"\"],\"type\":\"layers\"}}",
		"is reduced to what is used");
	EQ_STR(image_config_diff_id(&c, 0), DIFF, "a diff_id");
	OK(!image_config_diff_id(&c, 1), "and no more");
}

static void test_refused(void)
{
	cleanup_image_config struct image_config c = {0};

	EQ_INT(kind_of("{}"), ERR_NONE, "an empty one");
	EQ_INT(kind_of("null"), ERR_NONE, "none");
	EQ_INT(kind_of("[]"), ERR_PROTOCOL, "an array");
	EQ_INT(kind_of("{\"Env\":[5]}"), ERR_PROTOCOL, "a number in Env");
	EQ_INT(kind_of("{\"Env\":{}}"), ERR_PROTOCOL, "Env is an object");
	EQ_INT(kind_of("{\"Env\":[\"=x\"]}"), ERR_PROTOCOL, "a variable without a name");
	EQ_INT(kind_of("{\"Cmd\":[\"a\\u0000b\"]}"), ERR_PROTOCOL, "a NUL in Cmd");
	EQ_INT(kind_of("{\"User\":5}"), ERR_PROTOCOL, "User is a number");
	EQ_INT(kind_of("{\"StopSignal\":\"kill -9\"}"), ERR_PROTOCOL, "StopSignal is a command");
	EQ_INT(kind_of("{\"Volumes\":[]}"), ERR_PROTOCOL, "Volumes is an array");
	EQ_INT(parse("{" ROOTFS "}", &c), ERR_PROTOCOL, "no platform");
	EQ_INT(parse("{" AMD64 "\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[]}}", &c),
		ERR_CORRUPT, "fewer diff_ids than layers");
	EQ_INT(parse("{" AMD64 "\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"x\"]}}", &c),
		ERR_PROTOCOL, "a diff_id that is none");
	OK(!c.reduced, "nothing is returned");
}

static void test_no_layers(void)
{
	static const char *const texts[] = {"{" AMD64
					    "\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[]}}",
		"{" AMD64 "\"rootfs\":{\"type\":\"layers\",\"diff_ids\":null}}",
		"{" AMD64 "\"rootfs\":{\"type\":\"layers\"}}"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		cleanup_image_config struct image_config c = {0};
		cleanup_image_config struct image_config other = {0};
		cleanup_buf struct buf b = {0};
		EQ_INT(parse_of(texts[i], 0, &c), ERR_NONE, texts[i]);
		OK(strstr(canonical(&c, &b), "\"rootfs\":{\"diff_ids\":[],\"type\":\"layers\"}"),
			"has a list of none");
		OK(!image_config_diff_id(&c, 0), "and no diff_id");
		EQ_INT(parse_of(texts[i], 1, &other), ERR_CORRUPT, "is not that of one layer");
	}
}

/* Env of `count` entries of 1000 bytes, NUL included. */
static enum err_kind env_of(size_t count)
{
	cleanup_image_config struct image_config c = {0};
	cleanup_buf struct buf b;

	buf_init(&b, 1 << 20);
	buf_putf(&b, "{" AMD64 ROOTFS ",\"config\":{\"Env\":[");
	for (size_t i = 0; i < count; i++)
		buf_putf(&b, "%s\"A=%0997d\"", i ? "," : "", 0);
	buf_putf(&b, "]}}");
	return parse(buf_cstr(&b), &c);
}

static void test_limits(void)
{
	cleanup_image_config struct image_config c = {0};
	cleanup_buf struct buf b;

	EQ_INT(env_of(200), ERR_NONE, "200000 bytes of Env");
	EQ_INT(env_of(201), ERR_LIMIT, "201000 bytes of Env");
	buf_init(&b, 2 << 20);
	buf_putf(&b,
		"{" AMD64 ROOTFS ",\"config\":{\"Cmd\":[\"sh\"],\"Labels\":{\"a\":\"%0600000d\"}}}",
		0);
	EQ_INT(parse(buf_cstr(&b), &c), ERR_NONE, "600000 bytes of labels");
	const json_t *config = json_object_get(c.reduced, "config");
	EQ_INT(json_object_size(json_object_get(config, "Labels")), 0, "are left out");
	EQ_INT(json_array_size(json_object_get(config, "Cmd")), 1, "the rest stays");
}

static void test_platform(void)
{
	cleanup_image_config struct image_config c = {0};
	struct platform amd64 = {"linux", "amd64", ""};
	struct err e = {0};

	EQ_INT(parse("{\"os\":\"linux\",\"architecture\":\"arm64\"," ROOTFS "}", &c), ERR_NONE,
		"an image for arm64");
	OK(image_config_check_platform(&c, &amd64, &e) < 0, "is refused");
	EQ_STR(e.what, "the image is for linux/arm64 only, not for linux/amd64", "by name");
	struct platform arm64 = {"linux", "arm64", ""};
	OK(image_config_check_platform(&c, &arm64, &e) == 0, "control: it is for arm64");
}

static void test_make(void)
{
	cleanup_image_config struct image_config c = {0};
	struct err e = {0};

	OK(image_config_make("{\"Cmds\":[]}", &c, &e) < 0, "a slip of the pen");
	EQ_INT(e.kind, ERR_INVALID, "is refused");
	OK(image_config_make(NULL, &c, &e) == 0, "none at all");
	EQ_STR(c.platform.arch, "amd64", "its architecture");
}

int main(void)
{
	test_reduced();
	test_refused();
	test_no_layers();
	test_limits();
	test_platform();
	test_make();
	return tap_done();
}
