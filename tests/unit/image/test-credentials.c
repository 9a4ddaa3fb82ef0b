/* SPDX-License-Identifier: Apache-2.0 */
#include "image/registry/credential-helper.h"
#include "image/registry/credentials.h"
#include "image/registry/mirrors.h"

#include "tap.h"

#include <stdlib.h>

#define CONFIG                                                                     \
	"{\"auths\":{\"https://index.docker.io/v1/\":{\"auth\":\"aHViOnB3\"},"     \
	"\"registry.example.com\":{\"username\":\"alice\",\"password\":\"pw\"},"   \
	"\"http://localhost:5000/v2/\":{\"auth\":\"bG9jYWw6cDp3\"},"               \
	"\"id.example.com\":{\"auth\":\"dTo=\",\"identitytoken\":\"id\"},"         \
	"\"reg.example.com\":{\"registrytoken\":\"rt\"},"                          \
	"\"empty.example.com\":{}},\"credsStore\":\"desktop\","                    \
	"\"credHelpers\":{\"gcr.example.com\":\"gcr\",\"https://h.example.com/\":" \
	"\"ecr-login\"}}"

static struct credentials_entry entry_of(const char *registry)
{
	struct credentials_entry x = {0};
	struct err e = {0};

	OK(credentials_parse(registry, CONFIG, strlen(CONFIG), &x, &e) == 0, registry);
	return x;
}

static void test_auths(void)
{
	struct credentials_entry x = entry_of("docker.io");

	EQ_STR(x.credentials.user, "hub", "docker.io by its old address");
	EQ_STR(x.credentials.password, "pw", "with its password");
	EQ_STR(x.store, "desktop", "the store");
	EQ_STR(x.helper, "", "no helper of its own");
	credentials_entry_release(&x);
	x = entry_of("registry.example.com");
	EQ_STR(x.credentials.user, "alice", "name and password apart");
	credentials_entry_release(&x);
	x = entry_of("localhost:5000");
	EQ_STR(x.credentials.password, "p:w", "scheme and path are dropped; a colon in it");
	credentials_entry_release(&x);
	x = entry_of("id.example.com");
	EQ_STR(x.credentials.identity_token, "id", "an identity token");
	OK(!x.credentials.password, "and the empty password beside it is none");
	credentials_entry_release(&x);
	x = entry_of("reg.example.com");
	EQ_STR(x.credentials.registry_token, "rt", "a registry token");
	credentials_entry_release(&x);
	x = entry_of("empty.example.com");
	OK(x.in_auths && !credentials_exist(&x.credentials), "an empty entry");
	credentials_entry_release(&x);
	static const char *const others[] = {"example.com", "evil.registry.example.com",
		"registry.example.com:443", "ample.com"};
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		x = entry_of(others[i]);
		OK(!x.in_auths && !credentials_exist(&x.credentials), "another host gets nothing");
		credentials_entry_release(&x);
	}
	x = entry_of("gcr.example.com");
	EQ_STR(x.helper, "gcr", "a helper");
	credentials_entry_release(&x);
	x = entry_of("h.example.com");
	EQ_STR(x.helper, "ecr-login", "a helper by an address");
	credentials_entry_release(&x);
}

static void test_no_helper_for_a_host(void)
{
	const char *text = "{\"credsStore\":\"desktop\",\"credHelpers\":{\"x\":\"\"}}";
	struct credentials_entry x = {0};
	struct err e = {0};

	OK(credentials_parse("x", text, strlen(text), &x, &e) == 0, "an empty helper");
	EQ_STR(x.store, "", "turns the store off");
	OK(credentials_parse("y", text, strlen(text), &x, &e) == 0, "for another host");
	EQ_STR(x.store, "desktop", "it is on");
}

static void test_bad_files(void)
{
	static const char *const bad[] = {"", "{", "[]",
		"{\"auths\":{\"x\":{\"auth\":\"a b\\nX: y\"}}}",
		"{\"auths\":{\"x\":{\"auth\":\"bm9jb2xvbg==\"}}}",
		"{\"auths\":{\"x\":{\"auth\":\"YTpi=\"}}}", "{\"auths\":{\"x\":{\"auth\":5}}}",
		"{\"auths\":{\"x\":{\"auth\":\"====\"}}}", "{\"credsStore\":\"../../evil\"}",
		"{\"credsStore\":\"-x\"}", "{\"credsStore\":5}",
		"{\"credHelpers\":{\"x\":\"a/b\"}}",
		"{\"auths\":{\"x\":{\"auth\":\"c2VjcmV0LXNlY3JldA"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct credentials_entry x = {0};
		struct err e = {0};
		OK(credentials_parse("x", bad[i], strlen(bad[i]), &x, &e) < 0, bad[i]);
		OK(!strstr(e.what, "X: y") && !strstr(e.what, "c2Vj"), "it is not quoted");
		credentials_entry_release(&x);
	}
}

static void test_basic(void)
{
	static const char *const padded[][2] = {{"a", "YTo="}, {"ab", "YWI6"}, {"abc", "YWJjOg=="}};

	for (size_t i = 0; i < sizeof(padded) / sizeof(padded[0]); i++) {
		char *basic = credentials_basic(padded[i][0], "");
		EQ_STR(basic, padded[i][1], "is encoded with its padding");
		free(basic);
	}
	static const char *const keys[][2] = {
		{"Registry.Example.COM:5000", "registry.example.com:5000"},
		{"https://index.docker.io/v1/", "docker.io"}, {"Registry-1.docker.io", "docker.io"},
		{"HTTP://Localhost:5000/v2/", "localhost:5000"}, {"odd host/x", "odd host"}};
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		char host[300];
		credentials_key_host(keys[i][0], host, sizeof(host));
		EQ_STR(host, keys[i][1], keys[i][0]);
	}
	EQ_STR(credentials_host_key("docker.io"), "https://index.docker.io/v1/", "docker's key");
	EQ_STR(credentials_host_key("a.example.com:5000"), "a.example.com:5000", "others' keys");
}

static void test_helper_answers(void)
{
	static const char *const bad[] = {
		"", "no", "[]", "{\"Secret\":5}", "{\"Username\":[]}", "{\"Secret\":\"s3cret"};
	struct credentials c = {0};
	struct err e = {0};
	const char *good = "{\"ServerURL\":\"x\",\"Username\":\"u\",\"Secret\":\"s\"}";
	const char *token = "{\"Username\":\"<token>\",\"Secret\":\"s\"}";

	OK(helper_parse("x", good, strlen(good), &c, &e) == 0, "a password");
	EQ_STR(c.password, "s", "the secret");
	EQ_STR(c.from, "docker-credential-x", "whose it is");
	credentials_release(&c);
	OK(helper_parse("x", token, strlen(token), &c, &e) == 0, "an identity token");
	OK(c.identity_token && !c.password, "is no password");
	credentials_release(&c);
	OK(helper_parse("x", "{}", 2, &c, &e) == 0 && !credentials_exist(&c), "none");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		OK(helper_parse("x", bad[i], strlen(bad[i]), &c, &e) < 0, "no answer");
	OK(!strstr(e.what, "s3cret"), "which is not quoted");
	OK(helper_is_name("ecr-login") && helper_is_name("a.b_C"), "names");
	OK(!helper_is_name("") && !helper_is_name("a/b") && !helper_is_name("-a") &&
			!helper_is_name("..") && !helper_is_name("a b"),
		"and what is none");
}

static void test_mirrors(void)
{
	const char *list = "docker.io=https://a.example.com/,x.example.com=http://x,"
			   "docker.io=http://b.example.com:5000/p";
	struct mirrors m;
	struct err e = {0};

	OK(mirrors_parse(list, "docker.io", &m, &e) == 0, "mirrors");
	EQ_INT(m.len, 2, "of one registry");
	EQ_STR(m.urls[0], "https://a.example.com", "without the slash");
	EQ_STR(m.urls[1], "http://b.example.com:5000/p", "in order");
	OK(mirrors_parse(list, "example.com", &m, &e) == 0 && m.len == 0, "none of another");
	OK(mirrors_parse(NULL, "x.example.com", &m, &e) == 0 && m.len == 0, "none at all");
	OK(mirrors_parse("x.example.com=ftp://y", "x.example.com", &m, &e) < 0, "not http");
	OK(mirrors_parse("x.example.com=", "x.example.com", &m, &e) < 0, "nothing");
	OK(mirrors_parse("x.example.com=https://u:p@y", "x.example.com", &m, &e) < 0,
		"a password in it");
	OK(!strstr(e.what, "u:p"), "which is not told");
	OK(mirrors_parse("x.example.com=http://1,x.example.com=http://1,x.example.com=http://"
			 "1,x.example.com=http://1,x.example.com=http://1,x.example.com=http://1,"
			 "x.example.com=http://1,x.example.com=http://1,x.example.com=http://1",
		   "x.example.com", &m, &e) < 0,
		"too many");
	EQ_INT(e.kind, ERR_LIMIT, "is a limit");
}

int main(void)
{
	test_auths();
	test_no_helper_for_a_host();
	test_bad_files();
	test_basic();
	test_helper_answers();
	test_mirrors();
	return tap_done();
}
