/* SPDX-License-Identifier: Apache-2.0 */
#include "fetch.h"

#include "token.h"

#include "../../base/clock.h"
#include "../../base/json.h"
#include "../../base/log.h"
#include "../../base/strv.h"
#include "../../base/text.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RETRY_MS 1000
#define IDLE_MS 1000
#define NOTICE_MS 3000 /* a pause that people would wonder about */
#define LOGINS_MAX 3

int fetcher_init(
	struct fetcher *f, struct auth *auth, const char *host, const char *scope, struct err *e)
{
	struct fetcher made = {.auth = auth,
		.host = host,
		.scope = scope,
		.tries = FETCH_TRIES,
		.secrets = auth,
		.retry_ms = http_env_ms("KOSA8_PULL_RETRY_MS", RETRY_MS)};
	int r;

	if ((r = http_new(&made.http, e)) < 0)
		return r;
	if (auth && (r = http_new(&made.token_http, e)) < 0) {
		http_free(made.http);
		return r;
	}
	*f = made;
	return 0;
}

void fetcher_release(struct fetcher *f)
{
	http_freep(&f->http);
	http_freep(&f->token_http);
}

/* "bytes FIRST-LAST/WHOLE" (RFC 9110 section 14.4) is exactly the rest that was asked for. */
static bool is_wanted_range(const struct fetch *f)
{
	unsigned long long first, last, whole;
	uint64_t size = f->sink->size(f->sink);
	int used = 0;

	if (sscanf(f->call.answer.content_range, "bytes %20llu-%20llu/%20llu%n", &first, &last,
		    &whole, &used) != 3 ||
		f->call.answer.content_range[used] != '\0')
		return false;
	return first == f->started_at && first <= last && last + 1 == whole && whole == size;
}

static int on_answer(struct http_call *c, struct err *e)
{
	struct fetch *f = c->ctx;
	uint64_t offset = 0;

	if (f->document && c->answer.encoding[0])
		return err_set(e, ERR_PROTOCOL, 0, "%s: %s sent the %s compressed (%s)", f->what,
			f->fetcher->host, f->document, c->answer.encoding);
	if (c->answer.status == 206) {
		if (f->started_at == 0 || !is_wanted_range(f)) {
			int r = f->sink->begin(f->sink, 0, -1, e);
			if (r < 0)
				return r;
			(void)err_set(e, ERR_PROTOCOL, 0,
				"%s: %s sent another part of it than was asked for", f->what,
				f->fetcher->host);
			return -EAGAIN;
		}
		offset = f->started_at;
	}
	return f->sink->begin(f->sink, offset, c->answer.length, e);
}

static int on_data(struct http_call *c, const void *data, size_t len, struct err *e)
{
	struct fetch *f = c->ctx;

	return f->sink->data(f->sink, data, len, e);
}

static int start(struct fetcher *x, struct fetch *f, struct err *e)
{
	f->fetcher = x;
	f->started_at = f->sink->offset(f->sink);
	secret_freep(&f->authorization);
	if (x->auth && x->auth->authorization) {
		f->authorization = strdup(x->auth->authorization);
		if (!f->authorization)
			return err_errno(e, ENOMEM, "%s", f->what);
	}
	f->generation = x->auth ? x->auth->generation : 0;
	f->call = (struct http_call){.url = f->url,
		.accept = f->accept,
		.authorization = f->authorization,
		.form = f->form,
		.range_from = f->started_at,
		.head = f->head,
		.on_answer = on_answer,
		.on_data = on_data,
		.ctx = f};
	f->tries++;
	f->tries_all++;
	f->state = FETCH_RUNNING;
	return http_start(x->http, &f->call, e);
}

/* *e says why the last try failed: 0 when there is to be another one. */
static int try_again(struct fetcher *x, struct fetch *f, uint64_t after_ms, struct err *e)
{
	if (f->sink->offset(f->sink) > f->started_at)
		f->tries = 0;
	if ((f->once && x->status == 0) || (f->head && x->status >= 500) || f->tries >= x->tries ||
		f->tries_all >= FETCH_TRIES_ALL)
		return err_code(e);
	unsigned doublings = f->tries > 0 ? f->tries - 1 : 0;
	uint64_t pause = after_ms > 0 ? after_ms : x->retry_ms << doublings;
	log_debug("%s: %s; next try in %llu ms", f->what, e->what, (unsigned long long)pause);
	if (x->output && pause >= NOTICE_MS)
		output_notice(x->output, "%s; the next try is in %llu seconds", e->what,
			(unsigned long long)(pause + 999) / 1000);
	f->due_ms = clock_mono_ms() + (int64_t)pause;
	f->state = FETCH_WAITING;
	return 0;
}

/* The registry's own words for an error: {"errors":[{"code":..,"message":..}]}, made printable; not
 * when they repeat a secret. */
static void registry_says(const struct fetch *f, char *ret, size_t size)
{
	cleanup_json *body = NULL;
	struct err ignored;
	const char *message = NULL;
	const struct buf *b = &f->call.error_body;

	*ret = '\0';
	if (b->len == 0 || json_parse_object(b->data, b->len, "it", &body, &ignored) < 0)
		return;
	json_t *first = json_array_get(json_object_get(body, "errors"), 0);
	message = json_string_value(json_object_get(first, "message"));
	const struct auth *secrets = f->fetcher->secrets;
	if (!message || !*message || (secrets && auth_is_told(secrets, message)))
		return;
	char text[160];
	text_escape(message, text, sizeof(text));
	(void)snprintf(ret, size, " (\"%s\")", text);
}

static int too_many(struct fetcher *x, struct fetch *f, struct err *e)
{
	uint64_t after_s = f->call.answer.retry_after_s;
	char when[32] = "", says[200];
	struct tm tm;

	registry_says(f, says, sizeof(says));
	time_t at = time(NULL) + (time_t)(after_s < 30000000 ? after_s : 30000000);
	if (after_s > 0 && localtime_r(&at, &tm))
		(void)strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
	(void)err_set(e, ERR_UNAVAILABLE, 0, "%s: %s limits the number of requests (429)%s%s%s",
		f->what, x->host, after_s ? ": it asks to wait until " : "", when, says);
	(void)err_hint(e, "try again %s%s", after_s ? "after " : "later", when);
	if (after_s > FETCH_RETRY_AFTER_MAX_S)
		return err_code(e);
	return try_again(x, f, after_s * 1000, e);
}

static int status_error(struct fetcher *x, struct fetch *f, struct err *e)
{
	long status = f->call.answer.status;
	uint64_t after_s = f->call.answer.retry_after_s;
	char says[200];

	registry_says(f, says, sizeof(says));
	if (status == 403) {
		(void)err_set(
			e, ERR_DENIED, 0, "%s: %s refuses access (403)%s", f->what, x->host, says);
		(void)err_hint(e, "`kosa8 login` with an account that may read it");
		return x->secrets ? auth_blame_others(x->secrets, e) : err_code(e);
	}
	if (status == 404) {
		return err_set(e, ERR_NOT_FOUND, 0, "%s: %s does not have it (404)%s", f->what,
			x->host, says);
	}
	if (status == 429)
		return too_many(x, f, e);
	(void)err_set(e, status >= 500 ? ERR_UNAVAILABLE : ERR_PROTOCOL, 0, "%s: %s answers %ld%s",
		f->what, x->host, status, says);
	if (status == 416 && f->started_at > 0) { /* what is there is longer than what it has */
		int r = f->sink->begin(f->sink, 0, -1, e);
		return r < 0 ? r : try_again(x, f, 0, e);
	}
	if (status >= 500 || status == 408)
		return try_again(x, f, after_s <= FETCH_RETRY_AFTER_MAX_S ? after_s * 1000 : 0, e);
	return err_code(e);
}

/* 401: with a newer token if there is one, else after asking for one. */
static int log_in(struct fetcher *x, struct fetch *f, struct err *e)
{
	cleanup_token_request struct token_request token = {0};
	int r;

	f->tries--;
	f->state = FETCH_READY;
	/* The challenge of a host that a redirect led to gets no answer. */
	if (!x->token_http || f->call.answer.elsewhere || ++f->logins > LOGINS_MAX)
		return auth_refused(x->secrets, f->what, x->host, e);
	if (f->generation != x->auth->generation)
		return 0;
	if ((r = auth_respond(x->auth, &f->call.answer.challenge, x->scope, &token, e)) < 0)
		return err_wrap(e, "%s", f->what);
	const char *notice = auth_notice(x->auth);
	if (notice && x->output)
		output_notice(x->output, "%s; going on without credentials", notice);
	if (!token.url)
		return 0;
	r = token_get(x, &token, f->url, e);
	return r < 0 ? err_wrap(e, "%s", f->what) : 0;
}

static int body_ended(struct fetcher *x, struct fetch *f, struct err *e)
{
	int r = f->sink->end(f->sink, e);

	if (r == -EAGAIN)
		return try_again(x, f, 0, e);
	if (r < 0)
		return r;
	(void)snprintf(f->content_type, sizeof(f->content_type), "%s", f->call.answer.content_type);
	(void)snprintf(f->digest, sizeof(f->digest), "%s", f->call.answer.digest);
	f->state = FETCH_DONE;
	return 0;
}

/* The call of f has ended: sets f's next state, or fails. */
static int ended(struct fetcher *x, struct fetch *f, struct err *e)
{
	struct http_call *c = &f->call;
	int r = 0;

	assert(c->result != HTTP_PENDING);
	switch (c->result) {
	case HTTP_FAILED:
		*e = c->err;
		return err_code(e);
	case HTTP_BROKEN:
		if (f->sink->size(f->sink) > 0 &&
			f->sink->offset(f->sink) == f->sink->size(f->sink)) {
			r = body_ended(x, f, e);
			break;
		}
		*e = c->err;
		r = try_again(x, f, 0, e);
		break;
	case HTTP_ANSWERED:
		x->status = c->answer.status;
		if (c->answer.status == 401)
			r = log_in(x, f, e);
		else if (c->answer.status != 200 && c->answer.status != 206)
			r = status_error(x, f, e);
		else
			r = body_ended(x, f, e);
		break;
	case HTTP_PENDING:
		break;
	}
	http_call_release(x->http, c);
	return r;
}

/* Sends what is ready or due; returns how many are not done, *wait_ms being cut to the next due. */
static int advance(struct fetcher *x, struct fetch *fetches, size_t n, size_t *ret_open,
	int64_t *wait_ms, struct err *e)
{
	size_t running = 0, open = 0;
	int64_t now = clock_mono_ms();

	for (size_t i = 0; i < n; i++)
		running += fetches[i].state == FETCH_RUNNING;
	for (size_t i = 0; i < n; i++) {
		struct fetch *f = &fetches[i];
		open += f->state != FETCH_DONE;
		if (f->state == FETCH_WAITING && f->due_ms <= now)
			f->state = FETCH_READY;
		if (f->state == FETCH_WAITING && f->due_ms - now < *wait_ms)
			*wait_ms = f->due_ms - now;
		if (f->state != FETCH_READY || running >= FETCH_PARALLEL)
			continue;
		int r = start(x, f, e);
		if (r < 0)
			return r;
		running++;
	}
	*ret_open = open;
	return 0;
}

int fetch_run(struct fetcher *x, struct fetch *fetches, size_t n, struct err *e)
{
	int r = 0;

	for (;;) {
		int64_t wait_ms = IDLE_MS;
		size_t open;
		if ((r = advance(x, fetches, n, &open, &wait_ms, e)) < 0 || open == 0)
			break;
		struct http_call *c = http_wait(x->http, (int)wait_ms);
		if (c && (r = ended(x, c->ctx, e)) < 0)
			break;
		if (x->output && output_failed(x->output)) {
			r = err_set(e, ERR_CANCELLED, 0, "nobody waits for the result");
			break;
		}
	}
	for (size_t i = 0; i < n; i++) {
		http_call_release(x->http, &fetches[i].call);
		secret_freep(&fetches[i].authorization);
	}
	return r;
}
