/* SPDX-License-Identifier: Apache-2.0 */
#include "connect.h"

#include "output.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/sock.h"
#include "../proto/client.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#define READ_CHUNK (128u * 1024)
#define IN_MAX (FRAME_HEADER_SIZE + FRAME_PAYLOAD_MAX + READ_CHUNK)
#define TEXT_MAX 4096

void connection_init(struct connection *c, int fd, const struct sandbox_row *s)
{
	*c = (struct connection){.fd = fd};
	buf_init(&c->in, IN_MAX);
	(void)snprintf(c->name, sizeof(c->name), "%s", s->name);
	(void)snprintf(c->id, sizeof(c->id), "%s", s->id);
}

int connection_open(const struct sandbox *s, struct connection *ret, struct err *e)
{
	int r = sandbox_require_running(s, e);

	if (r < 0)
		return r;
	int fd = sock_connect(s->dirfd, "control.sock");
	if (fd == -ECONNREFUSED || fd == -ENOENT) {
		(void)err_set(e, ERR_WRONG_STATE, -fd,
			"the sandbox %s does not answer: it ends just now, or its control socket "
			"is gone",
			s->row.name);
		return err_hint(
			e, "again; kosa8 sandbox rm --force %s ends it in any case", s->row.name);
	}
	if (fd < 0)
		return err_errno(e, -fd, "cannot reach the supervisor of %s", s->row.name);
	connection_init(ret, fd, &s->row);
	return 0;
}

void connection_close(struct connection *c)
{
	if (!*c->name)
		return;
	c->fd = fd_close(c->fd);
	buf_release(&c->in);
	c->name[0] = '\0';
}

int connection_lost(struct connection *c, struct err *e)
{
	c->lost = true;
	(void)err_set(e, ERR_UNAVAILABLE, 0, "the supervisor of %s ended unexpectedly", c->name);
	return err_hint(
		e, "kosa8 sandbox start %s (why: sandboxes/%s/supervisor.log)", c->name, c->id);
}

int connection_request(struct connection *c, const json_t *request, struct err *e)
{
	cleanup_buf struct buf json, out;

	buf_init(&json, 8 * CLIENT_JSON_MAX);
	buf_init(&out, FRAME_HEADER_SIZE + FRAME_PAYLOAD_MAX);
	json_put_canonical(&json, request);
	if (buf_failed(&json) || json.len > CLIENT_JSON_MAX)
		return err_set(e, ERR_LIMIT, 0,
			"the command line and its variables are too long: at most %u kB together",
			CLIENT_JSON_MAX / 1024);
	frame_put(&out, CLIENT_REQUEST, 0, 0, json.data, json.len);
	if (buf_failed(&out))
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	for (size_t sent = 0; sent < out.len;) {
		ssize_t n = send(c->fd, out.data + sent, out.len - sent, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		/* EPIPE, ECONNRESET: what it wrote before may still say why. */
		if (n < 0)
			break;
		sent += (size_t)n;
	}
	return 0;
}

int connection_write(struct connection *c, struct buf *out, struct err *e)
{
	ssize_t n = send(c->fd, out->data, out->len, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n >= 0)
		buf_consume(out, (size_t)n);
	else if (errno == EPIPE || errno == ECONNRESET)
		buf_reset(out);
	else if (errno != EAGAIN && errno != EINTR)
		return err_errno(e, errno, "writing to the supervisor of %s", c->name);
	return 0;
}

ssize_t connection_fill(struct connection *c)
{
	buf_consume(&c->in, c->at);
	c->at = 0;
	size_t len = c->in.len;
	void *to = buf_extend(&c->in, READ_CHUNK);
	if (!to)
		return -ENOMEM;
	ssize_t n = recv(c->fd, to, READ_CHUNK, MSG_DONTWAIT);
	c->in.len = len + (n > 0 ? (size_t)n : 0);
	if (n >= 0)
		return n;
	if (errno == EINTR)
		return -EAGAIN;
	return errno == ECONNRESET ? 0 : -errno;
}

int connection_frame(struct connection *c, struct frame *ret)
{
	int n = frame_parse(c->in.data + c->at, c->in.len - c->at, ret);

	if (n <= 0)
		return n;
	c->at += (size_t)n;
	return 1;
}

int connection_result(
	const struct connection *c, const struct frame *f, json_t **ret, struct err *e)
{
	cleanup_json *j = NULL;
	bool ok = false;
	int r = json_parse_object(f->payload, f->len, "the supervisor's result", &j, e);

	if (r < 0 || (r = json_get_bool_or(j, "ok", false, &ok, e)) < 0)
		return err_wrap(e, "%s", c->name);
	if (!ok) {
		client_error_decode(json_object_get(j, "error"), e);
		return err_code(e);
	}
	*ret = json_incref(j);
	return 0;
}

void connection_notice(const struct frame *f)
{
	cleanup_json *j = NULL;
	struct err ignored;
	const char *text;

	if (json_parse_object(f->payload, f->len, "a notice", &j, &ignored) == 0 &&
		json_get_str(j, "text", TEXT_MAX, &text, &ignored) == 0)
		output_notice("%s", text);
}

/* The frames that are there. 1: RESULT came (*ret or *e is set by *ret_r), 0: not yet. */
static int handle_frames(struct connection *c, json_t **ret, int *ret_r, struct err *e)
{
	struct frame f;
	int r;

	while ((r = connection_frame(c, &f)) > 0) {
		if (f.type == CLIENT_NOTICE)
			connection_notice(&f);
		if (f.type == CLIENT_RESULT) {
			*ret_r = connection_result(c, &f, ret, e);
			return 1;
		}
	}
	return r < 0 ? err_set(e, ERR_PROTOCOL, 0, "%s: the supervisor sent what is no frame",
			       c->name)
		     : 0;
}

int connection_wait(struct connection *c, int64_t deadline_ms, json_t **ret, struct err *e)
{
	for (;;) {
		struct pollfd p = {.fd = c->fd, .events = POLLIN};
		int result = 0, n = poll(&p, 1, clock_left_ms(deadline_ms));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(e, errno, "waiting for the supervisor of %s", c->name);
		if (n == 0)
			return err_set(
				e, ERR_TIMEOUT, 0, "the supervisor of %s does not answer", c->name);
		ssize_t got = connection_fill(c);
		if (got == -EAGAIN)
			continue;
		if (got < 0)
			return err_errno(
				e, (int)-got, "reading from the supervisor of %s", c->name);
		if (got == 0)
			return connection_lost(c, e);
		n = handle_frames(c, ret, &result, e);
		if (n != 0)
			return n < 0 ? n : result;
	}
}

int supervisor_ask(
	const struct sandbox *s, json_t *request, int64_t deadline_ms, json_t **ret, struct err *e)
{
	cleanup_json *owned = request;
	cleanup_connection struct connection c = {.fd = -1};
	int r;

	if (!owned)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	if ((r = connection_open(s, &c, e)) < 0 || (r = connection_request(&c, owned, e)) < 0)
		return r;
	return connection_wait(&c, deadline_ms, ret, e);
}
