/* SPDX-License-Identifier: Apache-2.0 */
#include "dns.h"

#include "../base/clock.h"
#include "../base/fd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#define PORT 53
#define HEADER_SIZE 12
#define QUERIES_A_STEP 32

/* Header bits (RFC 1035 section 4.1.1), in the bytes 2 and 3. */
#define QR 0x80
#define OPCODE 0x78
#define RD 0x01
#define RA 0x80
enum rcode { RCODE_FORMERR = 1, RCODE_NXDOMAIN = 3, RCODE_NOTIMP = 4 };

/* The length of the question section's one entry, 0 when it is malformed. */
static size_t question_len(const unsigned char *at, size_t left)
{
	size_t n = 0;

	while (n < left && at[n] != 0) {
		if (at[n] > 63)
			return 0;
		n += 1u + at[n];
	}
	n += 1 + 4; /* the root label, type, class */
	return n <= left ? n : 0;
}

size_t dns_answer(const unsigned char *query, size_t len, unsigned char *ret)
{
	if (len < HEADER_SIZE || len > DNS_MESSAGE_MAX || (query[2] & QR))
		return 0;
	bool one = query[4] == 0 && query[5] == 1;
	size_t question = one ? question_len(query + HEADER_SIZE, len - HEADER_SIZE) : 0;
	enum rcode rcode = RCODE_NXDOMAIN;

	if (query[2] & OPCODE)
		rcode = RCODE_NOTIMP;
	else if (question == 0)
		rcode = RCODE_FORMERR;
	memset(ret, 0, HEADER_SIZE);
	memcpy(ret, query, 2);
	ret[2] = (unsigned char)(QR | (query[2] & (OPCODE | RD)));
	ret[3] = (unsigned char)(RA | rcode);
	ret[5] = question ? 1 : 0;
	memcpy(ret + HEADER_SIZE, query + HEADER_SIZE, question);
	return HEADER_SIZE + question;
}

static int open_socket(int family, int type)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
		.sin6_port = htons(PORT),
		.sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int on = 1;
	cleanup_fd int fd = socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0)
		return -errno;
	if (family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0)
		return -errno;
	int r = family == AF_INET ? bind(fd, (struct sockaddr *)&v4, sizeof(v4))
				  : bind(fd, (struct sockaddr *)&v6, sizeof(v6));
	if (r < 0 || (type == SOCK_STREAM && listen(fd, DNS_CONNECTIONS_MAX) < 0))
		return -errno;
	return fd_take(&fd);
}

int dns_init(struct dns *d, struct loop *loop, struct err *e)
{
	static const int families[] = {AF_INET, AF_INET6};

	*d = (struct dns){.loop = loop};
	for (size_t i = 0; i < DNS_CONNECTIONS_MAX; i++)
		d->connections[i].socket.fd = -1;
	for (size_t i = 0; i < 2; i++) {
		int udp = open_socket(families[i], SOCK_DGRAM);
		int r = udp < 0 ? err_errno(e, -udp, "name server")
				: loop_watch(loop, &d->udp[i], udp, WATCH_READ, e);
		if (r < 0)
			return r;
		int tcp = open_socket(families[i], SOCK_STREAM);
		r = tcp < 0 ? err_errno(e, -tcp, "name server")
			    : loop_watch(loop, &d->tcp[i], tcp, WATCH_READ, e);
		if (r < 0)
			return r;
	}
	return 0;
}

static int step_udp(struct watch *w)
{
	unsigned char query[DNS_MESSAGE_MAX + 1], answer[DNS_MESSAGE_MAX];

	for (int i = 0; w->readable && i < QUERIES_A_STEP; i++) {
		struct sockaddr_storage from;
		socklen_t from_len = sizeof(from);
		ssize_t n = recvfrom(
			w->fd, query, sizeof(query), 0, (struct sockaddr *)&from, &from_len);

		if (n < 0) {
			w->readable = errno == EINTR;
			continue;
		}
		size_t len = dns_answer(query, (size_t)n, answer);
		if (len > 0)
			(void)sendto(w->fd, answer, len, MSG_DONTWAIT | MSG_NOSIGNAL,
				(struct sockaddr *)&from, from_len);
	}
	return w->readable;
}

static void accept_one(struct dns *d, int fd)
{
	struct dns_connection *c = &d->connections[0];
	struct err e;

	for (size_t i = 0; i < DNS_CONNECTIONS_MAX && c->socket.fd >= 0; i++) {
		struct dns_connection *other = &d->connections[i];

		if (other->socket.fd < 0 || other->deadline_ms < c->deadline_ms)
			c = other;
	}
	loop_unwatch(d->loop, &c->socket);
	c->len = 0;
	c->deadline_ms = clock_mono_ms() + DNS_IDLE_MS;
	if (loop_watch(d->loop, &c->socket, fd, WATCH_READ, &e) < 0)
		c->socket.fd = -1;
}

static int step_accept(struct dns *d, struct watch *w)
{
	for (int i = 0; w->readable && i < QUERIES_A_STEP; i++) {
		int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0)
			accept_one(d, fd);
		else if (errno == EAGAIN || errno == EMFILE || errno == ENFILE || errno == ENOMEM)
			w->readable = false;
	}
	return w->readable;
}

/* Answers the message in c->in if it is whole. False: the connection is to be closed. */
static bool answer_connection(struct dns_connection *c)
{
	unsigned char out[2 + DNS_MESSAGE_MAX];

	while (c->len >= 2) {
		size_t len = (size_t)c->in[0] << 8 | c->in[1];

		if (len > DNS_MESSAGE_MAX)
			return false;
		if (c->len < 2 + len)
			break;
		size_t n = dns_answer(c->in + 2, len, out + 2);
		out[0] = (unsigned char)(n >> 8);
		out[1] = (unsigned char)n;
		if (n == 0 || send(c->socket.fd, out, 2 + n, MSG_DONTWAIT | MSG_NOSIGNAL) !=
				      (ssize_t)(2 + n))
			return false;
		c->len -= 2 + len;
		memmove(c->in, c->in + 2 + len, c->len);
	}
	return true;
}

static int step_connection(struct dns *d, struct dns_connection *c)
{
	bool keep = c->socket.fd < 0 || clock_left_ms(c->deadline_ms) > 0;

	for (int i = 0; keep && c->socket.readable && i < QUERIES_A_STEP; i++) {
		ssize_t n = recv(c->socket.fd, c->in + c->len, sizeof(c->in) - c->len, 0);

		if (n > 0) {
			c->len += (size_t)n;
			keep = answer_connection(c);
		} else if (n < 0 && errno == EAGAIN) {
			c->socket.readable = false;
		} else if (n == 0 || errno != EINTR) {
			keep = false;
		}
	}
	if (!keep)
		loop_unwatch(d->loop, &c->socket);
	return c->socket.readable;
}

int dns_step(struct dns *d)
{
	int more = 0;

	for (size_t i = 0; i < 2; i++) {
		more |= step_udp(&d->udp[i]);
		more |= step_accept(d, &d->tcp[i]);
	}
	for (size_t i = 0; i < DNS_CONNECTIONS_MAX; i++)
		if (d->connections[i].socket.fd >= 0)
			more |= step_connection(d, &d->connections[i]);
	return more;
}
