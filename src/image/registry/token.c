/* SPDX-License-Identifier: Apache-2.0 */
#include "token.h"

#include "memory.h"

#include "../../base/text.h"

#define TOKEN_ANSWER_MAX (64u * 1024)

/* One request; *ret_status is that of an answer that is no token, 0 for none. */
static int ask(struct fetcher *x, const char *origin, const char *url, const char *form,
	char *authorization, long *ret_status, struct err *e)
{
	struct memory answer = {0};
	/* Lent: it is neither released nor responds. */
	struct auth lent = {.authorization = authorization};
	struct fetcher plain = {.http = x->token_http,
		.host = origin,
		.retry_ms = x->retry_ms,
		.tries = x->tries,
		.secrets = x->auth,
		.output = x->output};
	struct fetch f = {.url = url,
		.form = form,
		.what = "a token",
		.document = "token",
		.sink = &answer.sink};

	memory_init(&answer, "a token", 0, NULL, TOKEN_ANSWER_MAX);
	if (authorization)
		plain.auth = &lent;
	int r = fetch_run(&plain, &f, 1, e);
	*ret_status = plain.status;
	if (r >= 0)
		r = auth_accept_token(x->auth, answer.body.data, answer.body.len, e);
	secret_buf_release(&answer.body);
	return r;
}

int token_get(
	struct fetcher *x, const struct token_request *t, const char *registry_url, struct err *e)
{
	char ours[HTTP_ORIGIN_MAX], theirs[HTTP_ORIGIN_MAX];
	long status;
	int r;

	if ((r = http_origin(registry_url, ours, e)) < 0 ||
		(r = http_origin(t->url, theirs, e)) < 0)
		return r;
	if (text_starts_with(ours, "https:") && !text_starts_with(theirs, "https:"))
		return err_set(e, ERR_PROTOCOL, 0, "the token server %s is not encrypted", theirs);
	if (t->form) {
		r = ask(x, theirs, t->form_url, t->form, NULL, &status, e);
		if (r >= 0 || (status != 404 && status != 405))
			return r;
	}
	return ask(x, theirs, t->url, NULL, t->authorization, &status, e);
}
