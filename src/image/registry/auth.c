/* SPDX-License-Identifier: Apache-2.0 */
#include "auth.h"

#include "http.h"

#include "../../base/json.h"
#include "../../base/strv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void auth_init(struct auth *a, const char *registry)
{
	*a = (struct auth){0};
	(void)snprintf(a->registry, sizeof(a->registry), "%s", registry);
}

void auth_release(struct auth *a)
{
	credentials_release(&a->credentials);
	secret_freep(&a->authorization);
}

int auth_look_up(struct auth *a, bool ask_helpers)
{
	if (a->looked_up)
		return 0;
	if (credentials_find(a->registry, ask_helpers, &a->credentials, &a->failed) > 0)
		return 1;
	a->looked_up = true;
	return 0;
}

void token_request_release(struct token_request *t)
{
	free(t->url);
	free(t->form_url);
	secret_freep(&t->authorization);
	secret_freep(&t->form);
	*t = (struct token_request){0};
}

static int out_of_memory(struct err *e)
{
	return err_errno(e, ENOMEM, "cannot keep credentials");
}

static int set_authorization(struct auth *a, const char *scheme, const char *value, struct err *e)
{
	char *text = NULL;

	if (asprintf(&text, "%s%s", scheme, value) < 0)
		return out_of_memory(e);
	secret_freep(&a->authorization);
	a->authorization = text;
	a->generation++;
	return 0;
}

static bool is_others_fault(const struct auth *a)
{
	return a->failed.kind != ERR_NONE && a->credentials.is_others_fault;
}

const char *auth_notice(struct auth *a)
{
	if (a->noted || !is_others_fault(a))
		return NULL;
	a->noted = true;
	return a->failed.what;
}

int auth_blame_others(const struct auth *a, struct err *e)
{
	char refusal[160];

	if (!is_others_fault(a))
		return err_code(e);
	(void)snprintf(refusal, sizeof(refusal), "%.159s", e->what);
	(void)err_set(e, e->kind, 0, "%s, and %.220s", refusal, a->failed.what);
	return err_hint(e, "%s", a->failed.hint);
}

static int hint_login(const struct auth *a, struct err *e)
{
	const char *registry = a->registry;
	bool docker = !*registry || strcmp(registry, "docker.io") == 0;
	const char *blank = docker ? "" : " ";

	if (is_others_fault(a))
		return auth_blame_others(a, e);
	if (docker)
		registry = "";
	if (!credentials_exist(&a->credentials))
		return err_hint(e, "check the name; a private image needs `kosa8 login%s%.100s`",
			blank, registry);
	return err_hint(e, "`kosa8 login%s%.60s`: the credentials of %.80s are not accepted", blank,
		registry, a->credentials.from);
}

int auth_refused(const struct auth *a, const char *what, const char *host, struct err *e)
{
	(void)err_set(e, ERR_DENIED, 0, "%s: %s refuses access (401)", what, host);
	return hint_login(a, e);
}

bool auth_is_told(const struct auth *a, const char *text)
{
	const char *value = a->authorization ? strchr(a->authorization, ' ') : NULL;

	return credentials_are_in(&a->credentials, text) || (value && strstr(text, value + 1));
}

/* realm?service=..&scope=.. */
static int token_url(const struct challenge *c, const char *service, const char *scope, char **ret,
	struct err *e)
{
	char *url = NULL;

	if (asprintf(&url, "%s%s%s%s%s%s%s", c->realm,
		    !*service && !*scope    ? ""
		    : strchr(c->realm, '?') ? "&"
					    : "?",
		    *service ? "service=" : "", service, *service && *scope ? "&" : "",
		    *scope ? "scope=" : "", scope) < 0)
		return out_of_memory(e);
	*ret = url;
	return 0;
}

static int refresh_form(const struct auth *a, const char *service, const char *scope,
	struct token_request *t, const char *realm, struct err *e)
{
	cleanup_secret char *token = http_escape(a->credentials.identity_token);

	t->form_url = strdup(realm);
	if (!token || !t->form_url ||
		asprintf(&t->form,
			"grant_type=refresh_token&service=%s%s%s&client_id=kosa8&refresh_token=%s",
			service, *scope ? "&scope=" : "", scope, token) < 0) {
		t->form = NULL;
		return out_of_memory(e);
	}
	return 0;
}

static int basic_authorization(const struct auth *a, char **ret, struct err *e)
{
	const struct credentials *c = &a->credentials;
	const char *password = c->password ? c->password : c->identity_token;

	if (!password)
		return 0;
	cleanup_secret char *basic = credentials_basic(c->user ? c->user : "", password);
	if (!basic || asprintf(ret, "Basic %s", basic) < 0) {
		*ret = NULL;
		return out_of_memory(e);
	}
	return 0;
}

static int request_token(const struct auth *a, const struct challenge *c, const char *scope,
	struct token_request *ret, struct err *e)
{
	cleanup_str char *service = http_escape(c->service);
	char pull[sizeof(c->scope)];

	challenge_pull_scope(*scope ? c->scope : "", pull, sizeof(pull));
	cleanup_str char *asked = http_escape(pull[0] ? pull : scope);
	cleanup_token_request struct token_request t = {0};
	char origin[HTTP_ORIGIN_MAX];
	int r;

	if (!service || !asked)
		return out_of_memory(e);
	if ((r = http_origin(c->realm, origin, e)) < 0)
		return err_wrap(e, "the registry names as its token server");
	if (strchr(c->realm, '#'))
		return err_set(e, ERR_PROTOCOL, 0, "the token server's address holds a '#'");
	if ((r = token_url(c, service, asked, &t.url, e)) < 0 ||
		(r = basic_authorization(a, &t.authorization, e)) < 0)
		return r;
	if (a->credentials.identity_token &&
		(r = refresh_form(a, service, asked, &t, c->realm, e)) < 0)
		return r;
	*ret = t;
	t = (struct token_request){0};
	return 0;
}

static int denied(const struct auth *a, struct err *e)
{
	(void)err_set(e, ERR_DENIED, 0, "%s refuses access (401)", a->registry);
	return hint_login(a, e);
}

/* Nothing was sent that it could have refused. */
static int no_way_in(const struct auth *a, const struct challenge *c, struct err *e)
{
	if (c->unreadable)
		return err_set(e, ERR_PROTOCOL, 0,
			"%s refuses access with 401, and its WWW-Authenticate header cannot be "
			"read",
			a->registry);
	(void)err_set(e, ERR_DENIED, 0,
		"%s refuses access with 401, and does not say how to log in", a->registry);
	return err_hint(e, "check the name; whoever runs the registry knows what is missing");
}

/* What the registry itself gets; once. */
static int answer_directly(struct auth *a, const char *scheme, const char *value, struct err *e)
{
	size_t len = strlen(scheme);

	if (a->authorization && strncmp(a->authorization, scheme, len) == 0 &&
		strcmp(a->authorization + len, value) == 0)
		return denied(a, e);
	return set_authorization(a, scheme, value, e);
}

static int answer_basic(struct auth *a, struct err *e)
{
	cleanup_secret char *basic = NULL;

	if (!a->credentials.password)
		return denied(a, e);
	int r = basic_authorization(a, &basic, e);
	return r < 0 ? r : answer_directly(a, "", basic, e);
}

/* It becomes a header's value: no byte may end that. */
static bool is_usable(const char *token)
{
	for (const char *p = token; *p; p++)
		if (*p <= 0x20 || *p > 0x7e)
			return false;
	return *token != '\0';
}

static int answer_with_given_token(struct auth *a, struct err *e)
{
	if (!is_usable(a->credentials.registry_token))
		return err_set(e, ERR_INVALID, 0, "%.250s: \"registrytoken\" is not a token",
			a->credentials.from);
	return answer_directly(a, "Bearer ", a->credentials.registry_token, e);
}

int auth_respond(struct auth *a, const struct challenge *c, const char *scope,
	struct token_request *ret, struct err *e)
{
	bool anonymous_will_do = c->scheme == CHALLENGE_BEARER && c->realm[0];

	if (c->scheme != CHALLENGE_NONE && auth_look_up(a, true) == 0 &&
		a->failed.kind != ERR_NONE && !(is_others_fault(a) && anonymous_will_do)) {
		*e = a->failed;
		return err_code(e);
	}
	*ret = (struct token_request){0};
	if (c->scheme == CHALLENGE_BEARER && a->credentials.registry_token)
		return answer_with_given_token(a, e);
	if (c->scheme == CHALLENGE_BEARER && c->realm[0])
		return request_token(a, c, scope, ret, e);
	if (c->scheme == CHALLENGE_BASIC)
		return answer_basic(a, e);
	return a->authorization ? denied(a, e) : no_way_in(a, c, e);
}

/* Some servers give a new identity token with each use of the former. */
static int take_identity(struct auth *a, const json_t *answer, struct err *e)
{
	const char *token = json_string_value(json_object_get(answer, "refresh_token"));

	if (!a->credentials.identity_token || !token || !is_usable(token) ||
		strlen(token) > CREDENTIAL_MAX)
		return 0;
	char *copy = strdup(token);
	if (!copy)
		return out_of_memory(e);
	secret_freep(&a->credentials.identity_token);
	a->credentials.identity_token = copy;
	return 0;
}

int auth_accept_token(struct auth *a, const void *data, size_t len, struct err *e)
{
	cleanup_json *answer = NULL;
	const char *token;
	int r;

	if ((r = secret_json_parse(data, len, "the token server's answer", &answer, e)) < 0 ||
		(r = json_get_str_or(answer, "token", AUTH_TOKEN_MAX, "", &token, e)) < 0)
		return r;
	if (*token == '\0' &&
		(r = json_get_str_or(answer, "access_token", AUTH_TOKEN_MAX, "", &token, e)) < 0)
		return r;
	if (!is_usable(token))
		return err_set(e, ERR_PROTOCOL, 0, "the token server sent no usable token");
	r = take_identity(a, answer, e);
	return r < 0 ? r : set_authorization(a, "Bearer ", token, e);
}
