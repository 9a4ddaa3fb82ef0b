/* SPDX-License-Identifier: Apache-2.0 */
#include "image/registry/challenge.h"

#include "tap.h"

static struct challenge parse(const char *value, int want)
{
	struct challenge c = {0};

	EQ_INT(challenge_parse(&c, value, strlen(value)) < 0, want < 0, value);
	return c;
}

static void test_bearer(void)
{
	struct challenge c =
		parse("Bearer realm=\"https://auth.example.com/token\","
		      "service=\"registry.example.com\",scope=\"repository:a/b:pull,push\"",
			0);

	EQ_INT(c.scheme, CHALLENGE_BEARER, "the scheme");
	EQ_STR(c.realm, "https://auth.example.com/token", "realm");
	EQ_STR(c.service, "registry.example.com", "service");
	EQ_STR(c.scope, "repository:a/b:pull,push", "a comma inside quotes is text");
	c = parse("bearer  Realm = \"a\\\"b\" , service=plain", 0);
	EQ_INT(c.scheme, CHALLENGE_BEARER, "names in any case");
	EQ_STR(c.realm, "a\"b", "an escaped quote");
	EQ_STR(c.service, "plain", "a value without quotes");
	c = parse("Bearer realm=http://localhost:5001/token,service=x", 0);
	EQ_STR(c.realm, "http://localhost:5001/token", "an address without quotes");
}

static void test_several(void)
{
	struct challenge c = parse("Basic realm=\"x\", Bearer realm=\"y\"", 0);

	EQ_INT(c.scheme, CHALLENGE_BEARER, "Bearer is preferred");
	EQ_STR(c.realm, "y", "with its own realm");
	c = parse("Bearer realm=\"y\", Basic realm=\"x\"", 0);
	EQ_STR(c.realm, "y", "in either order");
	c = parse("Negotiate YWJj==, Basic realm=\"x\"", 0);
	EQ_INT(c.scheme, CHALLENGE_BASIC, "an unknown scheme with a token68 is passed over");
	c = parse("Digest realm=\"d\", nonce=\"n\", Basic realm=\"x\"", 0);
	EQ_INT(c.scheme, CHALLENGE_BASIC, "an unknown scheme with parameters is passed over");
	EQ_STR(c.realm, "x", "and they are not taken for ours");
	c = parse("Negotiate", 0);
	EQ_INT(c.scheme, CHALLENGE_NONE, "only an unknown scheme");
	c = parse("", 0);
	EQ_INT(c.scheme, CHALLENGE_NONE, "nothing");
}

static void test_bad(void)
{
	char long_realm[2000];
	struct challenge c;

	(void)parse("Bearer realm=\"not closed", -1);
	c = (struct challenge){0};
	OK(challenge_parse(&c, "Bearer realm=\"a\nb\"", 18) < 0, "a line break in a value");
	OK(challenge_parse(&c, "Bearer realm=\"a\x7f\"", 17) < 0, "a control byte in a value");
	(void)parse("Bearer realm=\"\\", -1);
	(void)parse("=", -1);
	(void)parse("\"", -1);
	memset(long_realm, 'x', sizeof(long_realm));
	memcpy(long_realm, "Bearer realm=\"", 14);
	memcpy(long_realm + sizeof(long_realm) - 2, "\"", 2);
	c = parse(long_realm, -1);
	EQ_INT(c.scheme, CHALLENGE_NONE, "a realm that is too long is none");
	OK(c.unreadable, "and that is told");
	c = parse("Basic realm=\"x\", Bearer realm=\"", -1);
	OK(c.unreadable && c.scheme == CHALLENGE_BASIC, "what was found before stays");
	OK(challenge_parse(&c, "Bearer realm=\"y\"", 16) == 0 && c.unreadable,
		"and it is not forgotten");
}

static void test_scopes(void)
{
	static const char *const scopes[][2] = {
		{"repository:a/b:pull", "repository:a/b:pull"},
		{"repository:a/b:pull,push", "repository:a/b:pull"},
		{"repository:a/b:push,pull,delete", "repository:a/b:pull"},
		{"registry:catalog:* repository:a/b:pull  repository:c:pull,*",
			"repository:a/b:pull repository:c:pull"},
		{"repository:host:5000/a:pull", "repository:host:5000/a:pull"},
		{"repository:a/b:push", ""},
		{"repository:a/b:*", ""},
		{"repository:a/b:pullx,xpull", ""},
		{"repository:pull", ""},
		{"repository::pull", ""},
		{"repository(plugin):a:pull", ""},
		{"registry:catalog:pull", ""},
		{":", ""},
		{"  ", ""},
		{"", ""},
	};
	char small[24], scope[200];

	for (size_t i = 0; i < sizeof(scopes) / sizeof(scopes[0]); i++) {
		challenge_pull_scope(scopes[i][0], scope, sizeof(scope));
		EQ_STR(scope, scopes[i][1], scopes[i][0]);
	}
	challenge_pull_scope("repository:a:pull repository:b:pull", small, sizeof(small));
	EQ_STR(small, "repository:a:pull", "what has no room is left out whole");
}

int main(void)
{
	test_scopes();
	test_bearer();
	test_several();
	test_bad();
	return tap_done();
}
