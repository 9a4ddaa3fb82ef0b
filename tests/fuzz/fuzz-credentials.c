/* SPDX-License-Identifier: Apache-2.0 */
/* The first byte says what the rest is: docker's config.json, a credential helper's answer, a token
 * server's answer, or a list of mirrors. */
#include "image/registry/auth.h"
#include "image/registry/credential-helper.h"
#include "image/registry/mirrors.h"
#include "image/registry/origin.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct err e;

/* It becomes the value of a header: nothing in it may end that. */
static void check_header(const char *value)
{
	for (; value && *value; value++)
		assert(*value >= 0x20 && *value <= 0x7e);
}

static void answer(struct auth *a, enum challenge_scheme scheme)
{
	struct challenge c = {.scheme = scheme, .realm = "https://auth.example.com/token"};
	struct token_request t = {0};

	if (auth_respond(a, &c, "repository:a/b:pull", &t, &e) == 0) {
		check_header(a->authorization);
		check_header(t.authorization);
		check_header(t.url);
		check_header(t.form);
		assert(!t.form || !strpbrk(t.form, " \r\n"));
	}
	token_request_release(&t);
}

static void use(struct credentials *c)
{
	struct auth a;

	auth_init(&a, "registry.example.com");
	a.looked_up = true;
	a.credentials = *c;
	*c = (struct credentials){0};
	answer(&a, CHALLENGE_BASIC);
	answer(&a, CHALLENGE_BEARER);
	auth_release(&a);
}

static void config(const char *registry, const uint8_t *data, size_t size)
{
	struct credentials_entry x = {0};

	if (credentials_parse(registry, data, size, &x, &e) == 0) {
		assert(!x.helper[0] || helper_is_name(x.helper));
		assert(!x.store[0] || helper_is_name(x.store));
		use(&x.credentials);
	}
	credentials_entry_release(&x);
}

static void helper(const uint8_t *data, size_t size)
{
	struct credentials c = {0};

	if (helper_parse("x", data, size, &c, &e) == 0)
		use(&c);
	credentials_release(&c);
}

static void token(const uint8_t *data, size_t size)
{
	struct auth a;

	auth_init(&a, "docker.io");
	a.credentials.identity_token = strdup("identity");
	assert(a.credentials.identity_token);
	if (auth_accept_token(&a, data, size, &e) == 0)
		assert(a.authorization && strlen(a.authorization) > strlen("Bearer "));
	check_header(a.authorization);
	check_header(a.credentials.identity_token);
	auth_release(&a);
}

static void mirrors(const uint8_t *data, size_t size)
{
	char list[4096], origin[HTTP_ORIGIN_MAX];
	struct mirrors m;

	if (size >= sizeof(list))
		return;
	memcpy(list, data, size);
	list[size] = '\0';
	if (mirrors_parse(list, "docker.io", &m, &e) < 0)
		return;
	assert(m.len <= MIRRORS_MAX);
	for (size_t i = 0; i < m.len; i++)
		assert(http_origin(m.urls[i], origin, &e) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	switch (data[0]) {
	case 'c':
		config("registry.example.com", data + 1, size - 1);
		config("docker.io", data + 1, size - 1);
		break;
	case 'h':
		helper(data + 1, size - 1);
		break;
	case 't':
		token(data + 1, size - 1);
		break;
	case 'm':
		mirrors(data + 1, size - 1);
		break;
	}
	return 0;
}
