/* SPDX-License-Identifier: Apache-2.0 */
/* Published ports against a scripted agent at the other end of the link. */
#include "supervisor/ports.h"

#include "base/cursor.h"
#include "base/fd.h"
#include "base/sock.h"

#include "tap.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct bench {
	uv_loop_t loop;
	struct ports *ports;
	struct link link;
	int net[2];
	uint16_t port;
	struct buf in; /* what the agent got and did not look at yet */
};

static int on_frame(void *ctx, const struct frame *f, struct err *e)
{
	return ports_frame(((struct bench *)ctx)->ports, f, e);
}

static void on_broken(void *ctx, const struct err *why)
{
	(void)ctx;
	(void)why;
}

static void kick(void *ctx)
{
	(void)ctx;
}

static void begin(struct bench *b)
{
	static const struct link_events events = {on_frame, on_broken};
	static const unsigned char nonce[AGENT_NONCE_SIZE] = {1, 2, 3};
	struct spec_port p;
	struct err e;

	*b = (struct bench){0};
	buf_init(&b->in, 1 << 26);
	if (uv_loop_init(&b->loop) < 0 || sock_pair(b->net) < 0 ||
		fd_set_nonblock(b->net[0], true) < 0 || fd_set_nonblock(b->net[1], true) < 0 ||
		!(b->ports = ports_new(&b->loop)) || spec_port_parse("0:80", &p, &e) < 0)
		_exit(1);
	link_init(&b->link, b->net[0], 1, 1 << 26, &events, b);
	EQ_INT(ports_listen(b->ports, &p, &b->port, &e), 0, "listening");
	if (link_sync(&b->link, nonce) < 0 || fd_write_all(b->net[1], nonce, sizeof(nonce)) < 0 ||
		link_process(&b->link) < 0)
		_exit(1);
	unsigned char got[AGENT_NONCE_SIZE];
	if (fd_read_full(b->net[1], got, sizeof(got)) != sizeof(got))
		_exit(1);
	ports_bind(b->ports, &b->link, kick, b);
}

static void end(struct bench *b)
{
	ports_free(b->ports);
	while (uv_run(&b->loop, UV_RUN_DEFAULT) != 0)
		;
	OK(uv_loop_close(&b->loop) == 0, "all is closed");
	link_release(&b->link);
	(void)fd_close(b->net[0]);
	(void)fd_close(b->net[1]);
	buf_release(&b->in);
}

/* One turn of everything that can be done now. */
static void turn(struct bench *b)
{
	unsigned char chunk[65536];
	ssize_t n;

	(void)uv_run(&b->loop, UV_RUN_NOWAIT);
	(void)link_process(&b->link);
	while ((n = read(b->net[1], chunk, sizeof(chunk))) > 0)
		buf_put(&b->in, chunk, (size_t)n);
	(void)link_process(&b->link);
}

static void agent(struct bench *b, uint16_t type, uint32_t stream, const void *data, size_t len)
{
	cleanup_buf struct buf out = {0};

	buf_init(&out, 1 << 20);
	frame_put(&out, type, stream, 1, data, len);
	if (fd_write_all(b->net[1], out.data, out.len) < 0)
		_exit(1);
	turn(b);
}

static void grant(struct bench *b, uint32_t stream, uint32_t bytes)
{
	cleanup_buf struct buf out = {0};
	struct agent_window w = {AGENT_WHICH_STDIN, bytes};

	buf_init(&out, 64);
	agent_window_encode(&out, &w);
	agent(b, AGENT_WINDOW, stream, out.data, out.len);
}

static void ends(struct bench *b, uint32_t stream, enum agent_end how)
{
	cleanup_buf struct buf out = {0};
	struct agent_exit x = {.how = how};

	buf_init(&out, 64);
	agent_exit_encode(&out, &x);
	agent(b, AGENT_RUN_EXIT, stream, out.data, out.len);
}

/* Waits for the agent's next frame and copies its payload to data. 0: none came. */
static uint16_t next(struct bench *b, uint32_t *stream, struct buf *data)
{
	struct frame f;
	int n;

	for (int i = 0; (n = frame_parse(b->in.data, b->in.len, &f)) == 0; i++) {
		if (i == 200)
			return 0;
		turn(b);
		(void)poll(NULL, 0, i > 20);
	}
	if (n < 0)
		return 0;
	uint16_t type = f.type;
	*stream = f.stream;
	buf_reset(data);
	buf_put(data, f.payload, f.len);
	buf_consume(&b->in, (size_t)n);
	return type;
}

static int dial(const struct bench *b)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
		.sin_port = htons(b->port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		_exit(1);
	return fd;
}

/* What the client reads next; -errno, 0 the end, -EAGAIN nothing within a second. */
static ssize_t client_reads(struct bench *b, int fd, void *ret, size_t size)
{
	for (int i = 0; i < 200; i++) {
		ssize_t n = recv(fd, ret, size, MSG_DONTWAIT);
		if (n >= 0)
			return n;
		if (errno != EAGAIN)
			return -errno;
		turn(b);
		(void)poll(NULL, 0, i > 20);
	}
	return -EAGAIN;
}

/* A connection that the agent has opened. */
static int open_one(struct bench *b, uint32_t *stream)
{
	struct buf data;
	uint32_t s = 0;

	buf_init(&data, 1 << 20);
	int fd = dial(b);
	EQ_INT(next(b, stream, &data), AGENT_CONNECT, "a connection is asked for");
	OK(data.len == 2 && data.data[0] == 80, "to the port in the guest");
	EQ_INT(next(b, &s, &data), AGENT_WINDOW, "with a window");
	agent(b, AGENT_RUN_STARTED, *stream, NULL, 0);
	buf_release(&data);
	return fd;
}

static void test_both_ways(void)
{
	struct bench b;
	struct buf data;
	uint32_t stream = 0, s = 0;
	char text[16] = "";

	begin(&b);
	buf_init(&data, 1 << 20);
	cleanup_fd int fd = open_one(&b, &stream);
	EQ_INT(send(fd, "hello", 5, 0), 5, "the client writes");
	EQ_INT(next(&b, &s, &data), 0, "nothing goes out that was not granted");
	grant(&b, stream, 3);
	EQ_INT(next(&b, &s, &data), AGENT_STDIN, "what was granted does");
	OK(data.len == 3 && memcmp(data.data, "hel", 3) == 0, "and no more");
	grant(&b, stream, 100);
	EQ_INT(next(&b, &s, &data), AGENT_STDIN, "the rest");
	EQ_INT(data.len, 2, "of it");
	agent(&b, AGENT_STDOUT, stream, "answer", 6);
	EQ_INT(client_reads(&b, fd, text, sizeof(text)), 6, "the client gets the answer");
	EQ_INT(shutdown(fd, SHUT_WR), 0, "the client has no more to say");
	EQ_INT(next(&b, &s, &data), AGENT_STDIN_EOF, "which the guest is told");
	agent(&b, AGENT_STDOUT, stream, "more", 4);
	EQ_INT(client_reads(&b, fd, text, sizeof(text)), 4, "it still listens");
	agent(&b, AGENT_STDOUT_EOF, stream, NULL, 0);
	EQ_INT(client_reads(&b, fd, text, sizeof(text)), 0, "the end of the server's side");
	ends(&b, stream, AGENT_END_EXITED);
	json_t *status = ports_status(b.ports);
	EQ_INT(json_integer_value(json_object_get(json_array_get(status, 0), "connections")), 0,
		"no connection is left");
	json_decref(status);
	buf_release(&data);
	end(&b);
}

static void test_resets(void)
{
	struct bench b;
	struct buf data;
	uint32_t stream = 0, s = 0;
	char text[16];
	const struct linger now = {1, 0};
	struct agent_reply reply = {.status = ECONNREFUSED, .fail = AGENT_FAIL_SETUP};

	begin(&b);
	buf_init(&data, 1 << 20);
	int fd = dial(&b);
	EQ_INT(next(&b, &stream, &data), AGENT_CONNECT, "a connection");
	EQ_INT(next(&b, &s, &data), AGENT_WINDOW, "its window");
	buf_reset(&data);
	agent_reply_encode(&data, &reply);
	agent(&b, AGENT_RUN_FAILED, stream, data.data, data.len);
	EQ_INT(client_reads(&b, fd, text, sizeof(text)), -ECONNRESET, "nobody listens: reset");
	fd = fd_close(fd);

	fd = open_one(&b, &stream);
	ends(&b, stream, AGENT_END_KILLED);
	EQ_INT(client_reads(&b, fd, text, sizeof(text)), -ECONNRESET, "the server resets");
	fd = fd_close(fd);

	fd = open_one(&b, &stream);
	grant(&b, stream, 100);
	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	fd = fd_close(fd);
	EQ_INT(next(&b, &s, &data), AGENT_KILL, "the client resets");
	EQ_INT(s, stream, "its own stream");

	fd = open_one(&b, &stream);
	ports_bind(b.ports, NULL, NULL, NULL);
	EQ_INT(client_reads(&b, fd, text, sizeof(text)), -ECONNRESET, "another machine: reset");
	fd = fd_close(fd);
	fd = dial(&b);
	EQ_INT(client_reads(&b, fd, text, sizeof(text)), -EAGAIN, "without a machine clients wait");
	ports_bind(b.ports, &b.link, kick, &b);
	EQ_INT(next(&b, &stream, &data), AGENT_CONNECT, "until there is one");
	fd = fd_close(fd);
	buf_release(&data);
	end(&b);
}

static void test_hostile(void)
{
	static const unsigned char flood[AGENT_DATA_MAX];
	struct bench b;
	struct buf data;
	struct err e;
	uint32_t stream = 0, other = 0, s = 0;
	char text[16];

	begin(&b);
	buf_init(&data, 1 << 20);
	int fd = open_one(&b, &stream);
	cleanup_fd int fd2 = open_one(&b, &other);
	/* The kernel takes some of it for a client that does not read. */
	for (size_t sent = 0; sent < 400 * sizeof(flood); sent += sizeof(flood))
		agent(&b, AGENT_STDOUT, stream, flood, sizeof(flood));
	do
		s = next(&b, &stream, &data);
	while (s == AGENT_WINDOW);
	EQ_INT(s, AGENT_KILL, "more than was granted ends the connection");
	(void)fd_close(fd);
	agent(&b, AGENT_STDOUT, other, "alive", 5);
	EQ_INT(client_reads(&b, fd2, text, sizeof(text)), 5, "and no other");
	agent(&b, AGENT_STDOUT, 12345, "x", 1);
	agent(&b, AGENT_WINDOW, other, "junk", 4);
	EQ_INT(b.link.state, LINK_OPEN, "frames of no connection say nothing");
	const struct frame f = {.type = AGENT_QUIESCED, .stream = other};
	OK(ports_frame(b.ports, &f, &e) < 0 && e.kind == ERR_PROTOCOL,
		"a frame of another kind does");
	buf_release(&data);
	end(&b);
}

static void test_slow_guest(void)
{
	static unsigned char flood[1 << 20];
	struct bench b;
	struct buf data;
	uint32_t stream = 0;
	size_t sent = 0;

	begin(&b);
	buf_init(&data, 1 << 20);
	cleanup_fd int fd = open_one(&b, &stream);
	grant(&b, stream, AGENT_WINDOW_MAX);
	grant(&b, stream, AGENT_WINDOW_MAX);
	for (int i = 0; i < 100; i++) {
		ssize_t n = send(fd, flood, sizeof(flood), MSG_DONTWAIT);
		sent += n > 0 ? (size_t)n : 0;
		(void)uv_run(&b.loop, UV_RUN_NOWAIT);
	}
	OK(sent > AGENT_WINDOW_MAX, "a client that writes more than the guest takes");
	OK(link_queued(&b.link) <= AGENT_WINDOW_MAX + 64 * 1024, "fills one window and no more");
	buf_release(&data);
	end(&b);
}

/* While the guest grants nothing, nothing is read; the end of the client is seen all the same. */
static void test_vanishes_ungranted(void)
{
	const struct linger now = {.l_onoff = 1, .l_linger = 0};
	struct bench b;
	struct buf data;
	uint32_t stream = 0, s = 0;

	begin(&b);
	buf_init(&data, 1 << 20);
	cleanup_fd int half = open_one(&b, &stream);
	OK(send(half, "x", 1, 0) == 1 && shutdown(half, SHUT_WR) == 0, "one says its last");
	EQ_INT(next(&b, &s, &data), 0, "which is not granted yet");
	grant(&b, stream, 10);
	EQ_INT(next(&b, &s, &data), AGENT_STDIN, "and is not lost");
	EQ_INT(next(&b, &s, &data), AGENT_STDIN_EOF, "nor is its end");
	int fd = open_one(&b, &stream);
	EQ_INT(send(fd, "x", 1, 0), 1, "another one writes");
	EQ_INT(next(&b, &s, &data), 0, "which is not granted");
	EQ_INT(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0, "and");
	(void)fd_close(fd);
	EQ_INT(next(&b, &s, &data), AGENT_KILL, "is reset");
	EQ_INT(s, stream, "by its number");
	buf_release(&data);
	end(&b);
}

static void test_many(void)
{
	int fds[PORTS_CONNECTIONS_MAX + 4];
	struct bench b;
	struct buf data;
	uint32_t stream, last = 0;
	int asked = 0;
	uint16_t type;

	begin(&b);
	buf_init(&data, 1 << 20);
	for (int i = 0; i < PORTS_CONNECTIONS_MAX + 4; i++) {
		fds[i] = dial(&b);
		turn(&b);
	}
	while ((type = next(&b, &stream, &data)) != 0) {
		asked += type == AGENT_CONNECT;
		last = type == AGENT_CONNECT ? stream : last;
	}
	EQ_INT(asked, PORTS_CONNECTIONS_MAX, "as many connections as there may be");
	ends(&b, last, AGENT_END_KILLED);
	EQ_INT(next(&b, &stream, &data), AGENT_CONNECT, "one has ended: the next is let in");
	for (int i = 0; i < PORTS_CONNECTIONS_MAX + 4; i++)
		(void)fd_close(fds[i]);
	buf_release(&data);
	end(&b);
}

static void test_listeners(void)
{
	struct bench b;
	struct spec_port p;
	struct err e;
	uint32_t stream = 0;
	uint16_t port;
	char text[16];

	begin(&b);
	OK(spec_port_make("127.0.0.1", b.port, 80, &p, &e) == 0 &&
			ports_listen(b.ports, &p, &port, &e) < 0 && e.kind == ERR_EXISTS,
		"a taken address");
	OK(strstr(e.what, "127.0.0.1:") != NULL, "is named");
	cleanup_fd int fd = open_one(&b, &stream);
	ports_unlisten(b.ports, &p);
	EQ_INT(client_reads(&b, fd, text, sizeof(text)), -ECONNRESET,
		"no more published: its connections are reset");
	EQ_INT(ports_listen(b.ports, &p, &port, &e), 0, "control: the address is free again");
	EQ_INT(port, b.port, "the same");
	end(&b);
}

int main(void)
{
	test_both_ways();
	test_resets();
	test_hostile();
	test_slow_guest();
	test_vanishes_ungranted();
	test_many();
	test_listeners();
	return tap_done();
}
