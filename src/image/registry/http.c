/* SPDX-License-Identifier: Apache-2.0 */
#include "http.h"

#include "http-internal.h"

#include "../../base/clock.h"
#include "../../base/log.h"
#include "../../base/text.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define REDIRECTS_MAX 5
#define ERROR_BODY_MAX 8192
#define STALL_MS 30000
#define CONNECT_MS 15000
#define LIMIT_MS_MAX 600000

struct http {
	CURLM *multi;
	struct http_call *calls[HTTP_CALLS_MAX];
	int64_t stall_ms;
	long connect_ms;
};

uint64_t http_env_ms(const char *name, uint64_t fallback)
{
	const char *v = getenv(name);
	uint64_t ms;

	return v && text_parse_u64(v, 1, LIMIT_MS_MAX, &ms) == 0 ? ms : fallback;
}

int http_new(struct http **ret, struct err *e)
{
	cleanup_http struct http *h = calloc(1, sizeof(*h));

	if (!h || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return err_errno(e, ENOMEM, "cannot start an HTTP client");
	h->multi = curl_multi_init();
	if (!h->multi)
		return err_errno(e, ENOMEM, "cannot start an HTTP client");
	h->stall_ms = (int64_t)http_env_ms("KOSA8_PULL_STALL_MS", STALL_MS);
	h->connect_ms = (long)http_env_ms("KOSA8_PULL_CONNECT_MS", CONNECT_MS);
	*ret = h;
	h = NULL;
	return 0;
}

void http_free(struct http *h)
{
	if (!h)
		return;
	for (size_t i = 0; i < HTTP_CALLS_MAX; i++)
		if (h->calls[i])
			http_call_release(h, h->calls[i]);
	if (h->multi)
		(void)curl_multi_cleanup(h->multi);
	free(h);
}

void http_freep(struct http **h)
{
	http_free(*h);
	*h = NULL;
}

static void copy_header(char *ret, size_t size, const char *value, size_t len, bool first_word)
{
	size_t n = 0;

	for (size_t i = 0; i < len && n + 1 < size; i++) {
		unsigned char ch = (unsigned char)value[i];
		if (first_word && (ch == ';' || ch == ' '))
			break;
		if (ch < 0x20 || ch > 0x7e)
			break;
		if (first_word && ch >= 'A' && ch <= 'Z')
			ch = (unsigned char)(ch - 'A' + 'a');
		ret[n++] = (char)ch;
	}
	ret[n] = '\0';
}

static void arrived(struct http_transfer *t, size_t len)
{
	t->fresh += len;
	if (t->fresh < t->fresh_min && t->began)
		return;
	t->began = true;
	t->fresh = 0;
	t->last_ms = clock_mono_ms();
}

static size_t on_header(char *line, size_t size, size_t count, void *ctx)
{
	struct http_call *c = ctx;
	struct http_answer *a = &c->answer;
	size_t len = size * count;
	const char *colon = memchr(line, ':', len);

	arrived(c->transfer, len);
	if (len >= 5 && memcmp(line, "HTTP/", 5) == 0) /* 100, a proxy's, then the real one */
		*a = (struct http_answer){.length = -1};
	if (!colon)
		return len;
	size_t name = (size_t)(colon - line);
	const char *value = colon + 1, *end = line + len;
	while (value < end && (*value == ' ' || *value == '\t'))
		value++;
	while (end > value && (end[-1] == '\r' || end[-1] == '\n' || end[-1] == ' '))
		end--;
	size_t n = (size_t)(end - value);
	if (name == 12 && strncasecmp(line, "Content-Type", name) == 0)
		copy_header(a->content_type, sizeof(a->content_type), value, n, true);
	else if (name == 13 && strncasecmp(line, "Content-Range", name) == 0)
		copy_header(a->content_range, sizeof(a->content_range), value, n, false);
	else if (name == 21 && strncasecmp(line, "Docker-Content-Digest", name) == 0)
		copy_header(a->digest, sizeof(a->digest), value, n, false);
	else if (name == 16 && strncasecmp(line, "Content-Encoding", name) == 0)
		copy_header(a->encoding, sizeof(a->encoding), value, n, true);
	else if (name == 16 && strncasecmp(line, "WWW-Authenticate", name) == 0 &&
		 challenge_parse(&a->challenge, value, n) < 0)
		log_debug("a WWW-Authenticate header cannot be read");
	if (strcmp(a->encoding, "identity") == 0)
		a->encoding[0] = '\0';
	return len;
}

static void read_answer(struct http_call *c)
{
	CURL *easy = c->transfer->easy;
	curl_off_t length = -1, retry = 0;

	(void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &c->answer.status);
	(void)curl_easy_getinfo(easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
	(void)curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &retry);
	c->answer.length = length;
	c->answer.retry_after_s = retry > 0 ? (uint64_t)retry : 0;
}

static bool has_body(const struct http_call *c)
{
	return c->answer.status == 200 || c->answer.status == 206;
}

static int tell_answer(struct http_call *c)
{
	struct http_transfer *t = c->transfer;

	if (t->answered)
		return 0;
	t->answered = true;
	t->refused = c->on_answer ? c->on_answer(c, &c->err) : 0;
	return t->refused;
}

static size_t on_body(char *data, size_t size, size_t count, void *ctx)
{
	struct http_call *c = ctx;
	struct http_transfer *t = c->transfer;
	size_t len = size * count;

	arrived(t, len);
	if (!t->answered)
		read_answer(c);
	if (!has_body(c)) {
		size_t room = ERROR_BODY_MAX - c->error_body.len;
		buf_put(&c->error_body, data, len < room ? len : room);
		/* What follows is of no use: end the call instead of reading for ever. */
		return len <= room ? len : CURL_WRITEFUNC_ERROR;
	}
	if (tell_answer(c) < 0)
		return CURL_WRITEFUNC_ERROR;
	t->refused = c->on_data ? c->on_data(c, data, len, &c->err) : 0;
	return t->refused < 0 ? CURL_WRITEFUNC_ERROR : len;
}

/* To where transfer->url leads now. */
static int send_request(struct http *h, struct http_call *c, struct err *e)
{
	struct http_transfer *t = c->transfer;
	int r = http_request_prepare(c, e);

	if (r < 0)
		return r;
	if (curl_multi_add_handle(h->multi, t->easy) != CURLM_OK)
		return err_errno(e, ENOMEM, "cannot send a request to %s", t->current);
	buf_reset(&c->error_body);
	c->answer = (struct http_answer){.length = -1};
	t->last_ms = clock_mono_ms();
	t->fresh_min = (uint64_t)h->stall_ms * HTTP_SPEED_MIN / 1000;
	t->fresh = 0;
	t->began = false;
	return 0;
}

static void set_callbacks(struct http_call *c)
{
	CURL *easy = c->transfer->easy;

	(void)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
	(void)curl_easy_setopt(easy, CURLOPT_HEADERDATA, c);
	(void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	(void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, c);
}

int http_start(struct http *h, struct http_call *c, struct err *e)
{
	size_t slot = 0;
	int r;

	while (slot < HTTP_CALLS_MAX && h->calls[slot])
		slot++;
	assert(slot < HTTP_CALLS_MAX && !c->transfer);
	struct http_transfer *t = calloc(1, sizeof(*t));
	if (!t)
		return err_errno(e, ENOMEM, "cannot send a request");
	c->transfer = t;
	c->result = HTTP_PENDING;
	buf_init(&c->error_body, ERROR_BODY_MAX);
	h->calls[slot] = c;
	t->easy = curl_easy_init();
	t->url = strdup(c->url);
	if (!t->easy || !t->url)
		r = err_errno(e, ENOMEM, "cannot send a request");
	else
		r = http_origin(t->url, t->origin, e);
	if (r == 0) {
		http_request_init(c, h->connect_ms);
		set_callbacks(c);
		r = send_request(h, c, e);
	}
	if (r < 0)
		http_call_release(h, c);
	return r;
}

static void detach(struct http *h, struct http_call *c)
{
	for (size_t i = 0; i < HTTP_CALLS_MAX; i++)
		if (h->calls[i] == c)
			h->calls[i] = NULL;
	if (c->transfer->easy)
		(void)curl_multi_remove_handle(h->multi, c->transfer->easy);
}

void http_call_release(struct http *h, struct http_call *c)
{
	struct http_transfer *t = c->transfer;

	if (t) {
		detach(h, c);
		curl_easy_cleanup(t->easy);
		http_request_release(t);
		free(t->url);
		free(t);
		c->transfer = NULL;
	}
	buf_release(&c->error_body);
}

/* Answers to 301, 302, 303, 307, 308 with a Location: 1 when the request went on to there. */
static int redirect(struct http *h, struct http_call *c, struct err *e)
{
	struct http_transfer *t = c->transfer;
	char origin[HTTP_ORIGIN_MAX];
	char *to = NULL;

	(void)curl_easy_getinfo(t->easy, CURLINFO_REDIRECT_URL, &to);
	if (!to)
		return 0;
	if (c->form)
		return err_set(e, ERR_PROTOCOL, 0, "%s redirects a request that holds credentials",
			t->current);
	if (http_origin(to, origin, e) < 0)
		return err_wrap(e, "%s redirects to", t->current);
	if (text_starts_with(t->current, "https:") && !text_starts_with(origin, "https:"))
		return err_set(e, ERR_PROTOCOL, 0, "%s redirects to %s, which is not encrypted",
			t->current, origin);
	if (++t->redirects > REDIRECTS_MAX)
		return err_set(e, ERR_PROTOCOL, 0, "%s redirects more than %d times", t->origin,
			REDIRECTS_MAX);
	char *copy = strdup(to);
	if (!copy)
		return err_errno(e, ENOMEM, "cannot follow a redirect");
	free(t->url);
	t->url = copy;
	(void)curl_multi_remove_handle(h->multi, t->easy);
	int r = send_request(h, c, e);
	return r < 0 ? r : 1;
}

/* One transfer is over: false when it went on to another address. */
static bool finish(struct http *h, struct http_call *c, CURLcode code)
{
	struct http_transfer *t = c->transfer;

	read_answer(c);
	c->answer.elsewhere = strcmp(t->origin, t->current) != 0;
	if (t->refused < 0) {
		c->result = t->refused == -EAGAIN ? HTTP_BROKEN : HTTP_FAILED;
		return true;
	}
	if (code != CURLE_OK && !(code == CURLE_WRITE_ERROR && c->answer.status && !has_body(c))) {
		http_fault(c, code);
		return true;
	}
	if (c->answer.status == 407) {
		http_proxy_wants_credentials(c);
		return true;
	}
	int r = c->answer.status >= 300 && c->answer.status < 400 ? redirect(h, c, &c->err) : 0;
	if (r > 0)
		return false;
	if (r == 0 && has_body(c))
		r = tell_answer(c);
	c->result = r == 0 ? HTTP_ANSWERED : r == -EAGAIN ? HTTP_BROKEN : HTTP_FAILED;
	return true;
}

static struct http_call *next_finished(struct http *h)
{
	CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(h->multi, &left))) {
		struct http_call *c = NULL;
		CURLcode code = m->data.result;
		if (m->msg != CURLMSG_DONE)
			continue;
		(void)curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&c);
		if (finish(h, c, code)) {
			detach(h, c);
			return c;
		}
	}
	return NULL;
}

static void stalled(const struct http *h, struct http_call *c)
{
	const struct http_transfer *t = c->transfer;
	long long seconds = (long long)((h->stall_ms + 999) / 1000);

	if (t->fresh == 0)
		(void)err_set(&c->err, ERR_TIMEOUT, 0, "%s sent nothing for %lld seconds",
			t->current, seconds);
	else
		(void)err_set(&c->err, ERR_TIMEOUT, 0, "%s sent only %llu bytes in %lld seconds",
			t->current, (unsigned long long)t->fresh, seconds);
}

/* A call that has stalled, as ended; else NULL, and *wait_ms is cut to the next possible stall. */
static struct http_call *next_stalled(struct http *h, int64_t *wait_ms)
{
	int64_t now = clock_mono_ms();

	for (size_t i = 0; i < HTTP_CALLS_MAX; i++) {
		struct http_call *c = h->calls[i];
		if (!c)
			continue;
		int64_t left = c->transfer->last_ms + h->stall_ms - now;
		if (left <= 0) {
			detach(h, c);
			c->result = HTTP_BROKEN;
			stalled(h, c);
			return c;
		}
		if (left < *wait_ms)
			*wait_ms = left;
	}
	return NULL;
}

struct http_call *http_wait(struct http *h, int timeout_ms)
{
	int64_t deadline = clock_mono_ms() + timeout_ms;

	for (;;) {
		int running;
		(void)curl_multi_perform(h->multi, &running);
		struct http_call *c = next_finished(h);
		if (c)
			return c;
		int64_t wait_ms = deadline - clock_mono_ms();
		if ((c = next_stalled(h, &wait_ms)))
			return c;
		if (wait_ms <= 0 && clock_mono_ms() >= deadline)
			return NULL;
		(void)curl_multi_poll(h->multi, NULL, 0, wait_ms > 0 ? (int)wait_ms : 0, NULL);
	}
}
