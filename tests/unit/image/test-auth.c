/* SPDX-License-Identifier: Apache-2.0 */
#include "image/auth.h"

#include "tap.h"

#include <stdlib.h>

#define CONFIG                                                                   \
	"{\"auths\":{\"https://index.docker.io/v1/\":{\"auth\":\"aHViOnB3\"},"   \
	"\"registry.example.com\":{\"username\":\"alice\",\"password\":\"pw\"}," \
	"\"http://localhost:5000/v2/\":{\"auth\":\"bG9jYWw6cHc=\"},"             \
	"\"empty.example.com\":{}},\"credsStore\":\"desktop\"}"

static const char *basic_for(const char *registry, struct auth *a)
{
	struct err e = {0};

	OK(auth_parse_config(registry, CONFIG, strlen(CONFIG), a, &e) == 0, registry);
	return a->basic ? a->basic : "none";
}

static void test_config(void)
{
	struct auth a = {0};
	struct err e = {0};

	EQ_STR(basic_for("docker.io", &a), "Basic aHViOnB3", "docker.io by its old address");
	auth_release(&a);
	EQ_STR(basic_for("registry.example.com", &a), "Basic YWxpY2U6cHc=", "name and password");
	auth_release(&a);
	EQ_STR(basic_for("localhost:5000", &a),
		"Basic bG9jYWw6cHc=", "scheme and path are dropped");
	auth_release(&a);
	EQ_STR(basic_for("empty.example.com", &a), "none", "an empty entry");
	OK(a.has_helpers, "a helper is noticed");
	EQ_STR(basic_for("example.com", &a), "none", "another host gets nothing");
	EQ_STR(basic_for("evil.registry.example.com", &a), "none", "nor does a longer name");
	static const char *const padded[][2] = {
		{"a", "Basic YTo="}, {"ab", "Basic YWI6"}, {"abc", "Basic YWJjOg=="}};
	for (size_t i = 0; i < sizeof(padded) / sizeof(padded[0]); i++) {
		char text[100];
		(void)snprintf(text, sizeof(text), "{\"auths\":{\"x\":{\"username\":\"%s\"}}}",
			padded[i][0]);
		OK(auth_parse_config("x", text, strlen(text), &a, &e) == 0, "a name alone");
		EQ_STR(a.basic, padded[i][1], "is encoded with its padding");
		auth_release(&a);
	}
	const char *bad = "{\"auths\":{\"x\":{\"auth\":\"a b\\nX: y\"}}}";
	OK(auth_parse_config("x", bad, strlen(bad), &a, &e) < 0, "no base64");
	OK(!strstr(e.what, "X: y"), "the value is not told");
	OK(auth_parse_config("x", "{", 1, &a, &e) < 0, "no JSON");
}

static void test_respond(void)
{
	struct auth a = {0};
	struct err e = {0};
	struct challenge c = {.scheme = CHALLENGE_BEARER,
		.realm = "https://a.example.com/t?x=1",
		.service = "the registry"};
	char *url = NULL;

	OK(auth_respond(&a, &c, "repository:a/b:pull", &url, &e) == 0, "Bearer");
	EQ_STR(url,
		"https://a.example.com/"
		"t?x=1&service=the%20registry&scope=repository%3Aa%2Fb%3Apull",
		"the token server's address");
	free(url);
	url = NULL;
	(void)snprintf(c.realm, sizeof(c.realm), "file:///etc/passwd");
	OK(auth_respond(&a, &c, "s", &url, &e) < 0 && !url, "a realm that is a file");
	c = (struct challenge){.scheme = CHALLENGE_BASIC};
	OK(auth_respond(&a, &c, "s", &url, &e) < 0, "Basic without credentials");
	EQ_INT(e.kind, ERR_DENIED, "is denied");
	(void)basic_for("localhost:5000", &a);
	OK(auth_respond(&a, &c, "s", &url, &e) == 0 && !url, "Basic with credentials");
	EQ_STR(a.authorization, "Basic bG9jYWw6cHc=", "they are sent");
	EQ_INT(a.generation, 1, "which is a change");
	OK(auth_respond(&a, &c, "s", &url, &e) < 0, "refused credentials are not sent again");
	auth_release(&a);
}

static void test_token(void)
{
	static const char *const bad[] = {"", "[]", "{}", "{\"token\":\"\"}", "{\"token\":5}",
		"{\"token\":\"a b\"}", "{\"token\":\"a\\r\\nX: y\"}", "{\"token\":\"\xc3\xa9\"}"};
	struct auth a = {0};
	struct err e = {0};

	OK(auth_accept_token(&a, "{\"token\":\"abc\"}", 15, &e) == 0, "a token");
	EQ_STR(a.authorization, "Bearer abc", "it is sent");
	OK(auth_accept_token(&a, "{\"access_token\":\"def\"}", 22, &e) == 0, "by its other name");
	EQ_STR(a.authorization, "Bearer def", "it is sent");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		OK(auth_accept_token(&a, bad[i], strlen(bad[i]), &e) < 0, "no token");
	EQ_STR(a.authorization, "Bearer def", "a bad answer changes nothing");
	auth_release(&a);
}

int main(void)
{
	test_config();
	test_respond();
	test_token();
	return tap_done();
}
