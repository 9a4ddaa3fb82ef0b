/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A name server on 127.0.0.1 and ::1, port 53, UDP and TCP (RFC 1035), that knows no name: every
 * query is answered NXDOMAIN at once, so that a lookup in a sandbox without network fails instead
 * of timing out. Hostile queries get a short answer or none; at most DNS_CONNECTIONS_MAX
 * connections are held, the oldest makes room.
 */
#ifndef KOSA8_GUEST_DNS_H
#define KOSA8_GUEST_DNS_H

#include "loop.h"

#include <stddef.h>
#include <stdint.h>

#define DNS_CONNECTIONS_MAX 16
#define DNS_MESSAGE_MAX 512
#define DNS_IDLE_MS 5000

struct dns_connection {
	struct watch socket;
	unsigned char in[2 + DNS_MESSAGE_MAX]; /* length, message */
	size_t len;
	int64_t deadline_ms;
};
struct dns {
	struct loop *loop;
	struct watch udp[2], tcp[2]; /* IPv4, IPv6 */
	struct dns_connection connections[DNS_CONNECTIONS_MAX];
};

int dns_init(struct dns *d, struct loop *loop, struct err *e) must_check;
/* One bounded round; 1 when there may be more to do. */
int dns_step(struct dns *d);

/* The answer to one query, at most DNS_MESSAGE_MAX bytes; 0: none is due. */
size_t dns_answer(const unsigned char *query, size_t len, unsigned char *ret);

#endif
