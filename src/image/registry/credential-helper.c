/* SPDX-License-Identifier: Apache-2.0 */
#include "credential-helper.h"

#include "http.h"

#include "../../base/clock.h"
#include "../../base/fd.h"
#include "../../base/json.h"
#include "../../base/spawn.h"
#include "../../base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#define LIMIT_MS 60000
#define TOKEN_USER "<token>"
#define NOT_FOUND "credentials not found in native keychain"

bool helper_is_name(const char *name)
{
	size_t n =
		strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.");

	return n > 0 && n < HELPER_NAME_SIZE && name[n] == '\0' && *name != '-' && *name != '.';
}

struct helper {
	char program[HELPER_NAME_SIZE + 24];
	pid_t pid;
	int pidfd, in, out; /* in: its stdin */
};

static void release(struct helper *h)
{
	h->in = fd_close(h->in);
	h->out = fd_close(h->out);
	h->pidfd = fd_close(h->pidfd);
}

static int start(struct helper *h, const char *verb, struct err *e)
{
	char *argv[] = {h->program, (char *)verb, NULL};
	int to[2], from[2] = {-1, -1};

	if (pipe2(to, O_CLOEXEC) < 0)
		return err_errno(e, errno, "cannot start %s", h->program);
	h->in = to[1];
	if (pipe2(from, O_CLOEXEC) < 0) {
		(void)fd_close(to[0]);
		return err_errno(e, errno, "cannot start %s", h->program);
	}
	h->out = from[0];
	/* A session of its own: it is ended together with what it started. */
	struct spawn s = {.argv = argv,
		.fds = {to[0], from[1], -1},
		.fds_len = 3,
		.die_with_parent = true,
		.new_session = true};
	int r = spawn_start(&s, &h->pid, &h->pidfd, e);
	(void)fd_close(to[0]);
	(void)fd_close(from[1]);
	if (r < 0 && e->errnum == ENOENT)
		return err_set(e, ERR_NOT_FOUND, 0,
			"the credential helper %s is not installed: no such program in PATH",
			h->program);
	if (r >= 0 &&
		((r = fd_set_nonblock(h->in, true)) < 0 || (r = fd_set_nonblock(h->out, true)) < 0))
		return err_errno(e, -r, "cannot talk to %s", h->program);
	return r;
}

/* Writes what the pipe takes; closes it when all is written, or when nobody reads. */
static void feed(struct helper *h, const char **data, size_t *left)
{
	ssize_t n = write(h->in, *data, *left);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0) {
		*data += n;
		*left -= (size_t)n;
	}
	if (n < 0 || *left == 0)
		h->in = fd_close(h->in);
}

/* 1: more may come, 0: the end. */
static int drain(struct helper *h, struct buf *b)
{
	char chunk[4096];
	ssize_t n = read(h->out, chunk, sizeof(chunk));

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 1 : 0;
	buf_put(b, chunk, (size_t)n);
	explicit_bzero(chunk, sizeof(chunk));
	return n > 0;
}

/* Until it has ended; what a process that it left behind writes later is not waited for. */
static int converse(struct helper *h, const char *data, struct buf *b, int64_t deadline)
{
	size_t left = strlen(data);
	bool open = true;

	for (;;) {
		struct pollfd p[3] = {{.fd = h->pidfd, .events = POLLIN},
			{.fd = open ? h->out : -1, .events = POLLIN},
			{.fd = h->in, .events = POLLOUT}};
		int n = poll(p, 3, clock_left_ms(deadline));
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			return -ETIMEDOUT;
		if (n < 0)
			continue;
		if (p[2].revents)
			feed(h, &data, &left);
		if (p[1].revents)
			open = drain(h, b) > 0;
		else if (p[0].revents)
			return 0;
		if (buf_failed(b))
			return -E2BIG;
	}
}

/* The exit code. */
static int run(struct helper *h, const char *verb, const char *data, struct buf *b, struct err *e)
{
	uint64_t limit_ms = http_env_ms("KOSA8_CREDENTIAL_HELPER_MS", LIMIT_MS);
	int r = start(h, verb, e);

	if (r < 0)
		return r;
	r = converse(h, data, b, clock_mono_ms() + (int64_t)limit_ms);
	if (r < 0)
		(void)kill(-h->pid, SIGKILL);
	int code = spawn_wait(h->pid);
	if (r == -ETIMEDOUT)
		return err_set(e, ERR_TIMEOUT, 0, "%s %s did not answer within %llu seconds",
			h->program, verb, (unsigned long long)(limit_ms + 999) / 1000);
	if (r == -E2BIG)
		return err_set(e, ERR_PROTOCOL, 0, "%s %s: its answer is longer than %u bytes",
			h->program, verb, HELPER_OUTPUT_MAX);
	if (r < 0 || code < 0)
		return err_errno(e, r < 0 ? -r : -code, "cannot talk to %s", h->program);
	return code;
}

/* 0: done, 1: it has none. */
static int ask(const char *name, const char *verb, const char *data, struct buf *b, struct err *e)
{
	struct helper h = {.in = -1, .out = -1, .pidfd = -1};

	(void)snprintf(h.program, sizeof(h.program), "docker-credential-%s", name);
	int code = run(&h, verb, data, b, e);
	release(&h);
	if (code <= 0)
		return code;
	const char *said = buf_cstr(b);
	if (said && strstr(said, NOT_FOUND))
		return 1;
	return err_set(e, ERR_UNAVAILABLE, 0, "the credential helper %s failed (%s: status %d)",
		h.program, verb, code);
}

int helper_hint(
	const char *name, const char *verb, const char *server, const char *file, struct err *e)
{
	if (e->kind == ERR_NOT_FOUND)
		return err_hint(e, "install it, or take it out of %.140s", file);
	if (strcmp(verb, "get") == 0)
		return err_hint(e,
			"try it: echo %.40s | docker-credential-%s get; or take it out of "
			"%.90s",
			server, name, file);
	return err_hint(e, "find out why `docker-credential-%s %s` fails, or take it out of %.90s",
		name, verb, file);
}

int helper_parse(
	const char *name, const void *data, size_t len, struct credentials *ret, struct err *e)
{
	cleanup_json *answer = NULL;
	cleanup_credentials struct credentials c = {0};
	const char *user, *secret;
	char what[HELPER_NAME_SIZE + 40];
	int r;

	(void)snprintf(what, sizeof(what), "the answer of docker-credential-%s", name);
	if ((r = secret_json_parse(data, len, what, &answer, e)) < 0 ||
		(r = json_get_str_or(answer, "Username", CREDENTIAL_MAX, "", &user, e)) < 0 ||
		(r = json_get_str_or(answer, "Secret", CREDENTIAL_MAX, "", &secret, e)) < 0)
		return r;
	*ret = (struct credentials){0};
	if (*secret == '\0')
		return 0;
	bool token = strcmp(user, TOKEN_USER) == 0;
	c.user = strdup(user);
	*(token ? &c.identity_token : &c.password) = strdup(secret);
	if (!c.user || !(token ? c.identity_token : c.password))
		return err_errno(e, ENOMEM, "cannot keep credentials");
	(void)snprintf(c.from, sizeof(c.from), "docker-credential-%s", name);
	*ret = c;
	c = (struct credentials){0};
	return 0;
}

int helper_get(const char *name, const char *server, struct credentials *ret, struct err *e)
{
	cleanup_secret_buf struct buf b = {0};

	buf_init(&b, HELPER_OUTPUT_MAX);
	*ret = (struct credentials){0};
	int r = ask(name, "get", server, &b, e);
	return r == 0 ? helper_parse(name, b.data, b.len, ret, e) : r < 0 ? r : 0;
}

int helper_store(
	const char *name, const char *server, const char *user, const char *secret, struct err *e)
{
	cleanup_secret_buf struct buf b = {0}, request = {0};
	cleanup_json *o = json_pack(
		"{s:s, s:s, s:s}", "ServerURL", server, "Username", user, "Secret", secret);

	buf_init(&b, HELPER_OUTPUT_MAX);
	buf_init(&request, 4 * CREDENTIAL_MAX);
	if (o)
		json_put_canonical(&request, o);
	const char *text = o ? buf_cstr(&request) : NULL;
	if (!text)
		return err_errno(e, ENOMEM, "cannot give the credentials to a helper");
	int r = ask(name, "store", text, &b, e);
	return r > 0 ? err_set(e, ERR_UNAVAILABLE, 0, "docker-credential-%s does not store", name)
		     : r;
}

int helper_erase(const char *name, const char *server, struct err *e)
{
	cleanup_secret_buf struct buf b = {0};

	buf_init(&b, HELPER_OUTPUT_MAX);
	int r = ask(name, "erase", server, &b, e);
	return r > 0 ? 0 : r;
}
