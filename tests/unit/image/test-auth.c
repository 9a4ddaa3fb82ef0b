/* SPDX-License-Identifier: Apache-2.0 */
#include "image/registry/auth.h"

#include "tap.h"

#include <stdlib.h>

static struct auth with(const char *user, const char *password, const char *identity)
{
	struct auth a;

	auth_init(&a, "registry.example.com");
	a.looked_up = true;
	a.credentials.user = user ? strdup(user) : NULL;
	a.credentials.password = password ? strdup(password) : NULL;
	a.credentials.identity_token = identity ? strdup(identity) : NULL;
	return a;
}

static void test_bearer(void)
{
	struct auth a = with(NULL, NULL, NULL);
	struct token_request t = {0};
	struct err e = {0};
	struct challenge c = {.scheme = CHALLENGE_BEARER,
		.realm = "https://a.example.com/t?x=1",
		.service = "the registry"};

	OK(auth_respond(&a, &c, "repository:a/b:pull", &t, &e) == 0, "Bearer");
	EQ_STR(t.url,
		"https://a.example.com/"
		"t?x=1&service=the%20registry&scope=repository%3Aa%2Fb%3Apull",
		"the token server's address");
	OK(!t.authorization && !t.form, "anonymously");
	token_request_release(&t);
	(void)snprintf(c.scope, sizeof(c.scope), "registry:catalog:* repository:x/y:pull,push");
	OK(auth_respond(&a, &c, "repository:a/b:pull", &t, &e) == 0,
		"with a scope that wants more");
	OK(strstr(t.url, "&scope=repository%3Ax%2Fy%3Apull") && !strstr(t.url, "push") &&
			!strstr(t.url, "catalog"),
		"no more than pull is asked for");
	token_request_release(&t);
	OK(auth_respond(&a, &c, "", &t, &e) == 0 && !strstr(t.url, "scope"),
		"a login asks for none");
	token_request_release(&t);
	(void)snprintf(c.scope, sizeof(c.scope), "repository:x/y:push");
	OK(auth_respond(&a, &c, "repository:a/b:pull", &t, &e) == 0 &&
			strstr(t.url, "&scope=repository%3Aa%2Fb%3Apull"),
		"one that wants something else is ours");
	token_request_release(&t);
	c.scope[0] = '\0';
	OK(auth_respond(&a, &c, "", &t, &e) == 0, "without a scope");
	EQ_STR(t.url, "https://a.example.com/t?x=1&service=the%20registry", "none is asked for");
	token_request_release(&t);
	(void)snprintf(c.realm, sizeof(c.realm), "https://a.example.com/t");
	c.service[0] = '\0';
	OK(auth_respond(&a, &c, "", &t, &e) == 0, "without anything");
	EQ_STR(t.url, "https://a.example.com/t", "the realm alone");
	token_request_release(&t);
	(void)snprintf(c.realm, sizeof(c.realm), "file:///etc/passwd");
	OK(auth_respond(&a, &c, "s", &t, &e) < 0 && !t.url, "a realm that is a file");
	auth_release(&a);
}

static void test_bearer_with_credentials(void)
{
	struct auth a = with("alice", "pw", NULL);
	struct token_request t = {0};
	struct err e = {0};
	struct challenge c = {.scheme = CHALLENGE_BEARER, .realm = "https://a.example.com/t"};

	OK(auth_respond(&a, &c, "s", &t, &e) == 0 && !t.form, "with a password");
	EQ_STR(t.authorization, "Basic YWxpY2U6cHc=", "it goes to the token server");
	OK(!a.authorization, "and not to the registry");
	token_request_release(&t);
	OK(auth_is_told(&a, "Basic YWxpY2U6cHc= is wrong"), "what was sent is noticed");
	auth_release(&a);
	a = with("alice", NULL, "id&token");
	OK(auth_is_told(&a, "refresh_token=id%26token") &&
			auth_is_told(&a, "YWxpY2U6aWQmdG9rZW4=") && !auth_is_told(&a, "id"),
		"an identity token too");
	OK(auth_respond(&a, &c, "s", &t, &e) == 0, "with an identity token");
	EQ_STR(t.form,
		"grant_type=refresh_token&service=&scope=s&client_id=kosa8&"
		"refresh_token=id%26token",
		"the form");
	EQ_STR(t.form_url, "https://a.example.com/t", "and where it goes");
	EQ_STR(t.authorization, "Basic YWxpY2U6aWQmdG9rZW4=", "the same for servers without POST");
	token_request_release(&t);
	OK(auth_accept_token(&a, "{\"access_token\":\"x\",\"refresh_token\":\"next\"}", 43, &e) ==
			0,
		"an answer with a new identity token");
	EQ_STR(a.credentials.identity_token, "next", "which is used from now on");
	auth_release(&a);
	a = with(NULL, NULL, NULL);
	a.credentials.registry_token = strdup("given");
	OK(auth_respond(&a, &c, "s", &t, &e) == 0 && !t.url, "with a registry token");
	EQ_STR(a.authorization, "Bearer given", "it is used as it is");
	OK(auth_respond(&a, &c, "s", &t, &e) < 0, "once");
	EQ_INT(e.kind, ERR_DENIED, "then it is refused");
	auth_release(&a);
	a = with(NULL, NULL, NULL);
	a.credentials.registry_token = strdup("given\r\nX: y");
	OK(auth_respond(&a, &c, "s", &t, &e) < 0 && !a.authorization, "one with a line break");
	EQ_INT(e.kind, ERR_INVALID, "is none");
	OK(!strstr(e.what, "X: y"), "and is not told");
	auth_release(&a);
}

static void test_basic(void)
{
	struct auth a = with(NULL, NULL, NULL);
	struct token_request t = {0};
	struct err e = {0};
	struct challenge c = {.scheme = CHALLENGE_BASIC};

	OK(auth_respond(&a, &c, "s", &t, &e) < 0, "Basic without credentials");
	EQ_INT(e.kind, ERR_DENIED, "is denied");
	OK(strstr(e.hint, "kosa8 login registry.example.com"), "with what to do");
	auth_release(&a);
	a = with("local", "pw", NULL);
	OK(auth_respond(&a, &c, "s", &t, &e) == 0 && !t.url, "Basic with credentials");
	EQ_STR(a.authorization, "Basic bG9jYWw6cHc=", "they are sent");
	EQ_INT(a.generation, 1, "which is a change");
	OK(auth_respond(&a, &c, "s", &t, &e) < 0, "refused credentials are not sent again");
	OK(auth_is_told(&a, "wrong password: pw") && auth_is_told(&a, "x bG9jYWw6cHc= x"),
		"a text that repeats them is noticed");
	OK(!auth_is_told(&a, "unauthorized"), "another one is not");
	auth_release(&a);
	a = with("local", NULL, "identity");
	OK(auth_respond(&a, &c, "s", &t, &e) < 0, "an identity token does not go to the registry");
	auth_release(&a);
}

static void test_token(void)
{
	static const char *const bad[] = {"", "[]", "{}", "{\"token\":\"\"}", "{\"token\":5}",
		"{\"token\":\"a b\"}", "{\"token\":\"a\\r\\nX: y\"}", "{\"token\":\"\xc3\xa9\"}",
		"{\"token\":\"quoted-in-no-error"};
	struct auth a = with(NULL, NULL, NULL);
	struct err e = {0};

	OK(auth_accept_token(&a, "{\"token\":\"abc\"}", 15, &e) == 0, "a token");
	EQ_STR(a.authorization, "Bearer abc", "it is sent");
	OK(auth_accept_token(&a, "{\"access_token\":\"def\"}", 22, &e) == 0, "by its other name");
	EQ_STR(a.authorization, "Bearer def", "it is sent");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		OK(auth_accept_token(&a, bad[i], strlen(bad[i]), &e) < 0, "no token");
	OK(!strstr(e.what, "quoted-in-no-error"), "a broken answer is not quoted");
	EQ_STR(a.authorization, "Bearer def", "a bad answer changes nothing");
	auth_release(&a);
}

int main(void)
{
	test_bearer();
	test_bearer_with_credentials();
	test_basic();
	test_token();
	return tap_done();
}
