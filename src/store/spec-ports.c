/* SPDX-License-Identifier: Apache-2.0 */
#include "spec-mounts.h"

#include "../base/text.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_IP "127.0.0.1"

static int bad_port(struct err *e, const char *text, const char *why)
{
	char safe[120];

	text_escape(text, safe, sizeof(safe));
	(void)err_set(e, ERR_INVALID, 0, "the port \"%s\": %s", safe, why);
	return err_hint(e, "8080:80, 127.0.0.1:8080:80 or [::1]:8080:80: the host's, then the "
			   "sandbox's");
}

/* Any spelling of an address, made one. */
static int take_ip(const char *ip, char ret[static SPEC_IP_SIZE])
{
	unsigned char raw[sizeof(struct in6_addr)];

	for (int family = AF_INET;; family = AF_INET6) {
		if (inet_pton(family, ip, raw) == 1)
			return inet_ntop(family, raw, ret, SPEC_IP_SIZE) ? 0 : -EINVAL;
		if (family == AF_INET6)
			return -EINVAL;
	}
}

int spec_port_make(const char *ip, uint64_t host_port, uint64_t guest_port, struct spec_port *ret,
	struct err *e)
{
	struct spec_port p = {0};

	if (take_ip(ip, p.ip) < 0)
		return bad_port(e, ip, "that is no IP address");
	if (host_port > UINT16_MAX || guest_port > UINT16_MAX || guest_port == 0)
		return bad_port(e, ip, "a port is a number from 1 to 65535");
	p.host_port = (uint16_t)host_port;
	p.guest_port = (uint16_t)guest_port;
	*ret = p;
	return 0;
}

/* Takes [IP:] off the front; *rest is what follows. */
static int take_address(const char *text, size_t colons, char ret[static SPEC_IP_SIZE],
	const char **rest, struct err *e)
{
	char ip[SPEC_IP_SIZE + 8];
	size_t len, found = 0;

	*rest = text;
	(void)snprintf(ret, SPEC_IP_SIZE, "%s", DEFAULT_IP);
	for (const char *p = text; *p; p++)
		found += *p == ':';
	if (*text == '[') {
		len = strcspn(++text, "]");
		if (text[len] != ']' || text[len + 1] != ':')
			return bad_port(e, text, "the address does not end with ]:");
		*rest = text + len + 2;
	} else if (found == colons) {
		return 0;
	} else if (found == colons + 1) {
		len = strcspn(text, ":");
		*rest = text + len + 1;
	} else {
		return bad_port(e, text,
			found < colons ? "a port is missing" : "an IPv6 address stands in []");
	}
	if (len >= sizeof(ip))
		return bad_port(e, text, "that is no IP address");
	memcpy(ip, text, len);
	ip[len] = '\0';
	return take_ip(ip, ret) < 0 ? bad_port(e, text, "that is no IP address") : 0;
}

static int take_number(
	const char *whole, const char *text, size_t len, uint64_t *ret, struct err *e)
{
	char number[8];

	if (len == 0 || len >= sizeof(number))
		return bad_port(e, whole, "a port is a number from 1 to 65535");
	memcpy(number, text, len);
	number[len] = '\0';
	if (text_parse_u64(number, 0, UINT16_MAX, ret) < 0)
		return bad_port(e, whole, "a port is a number from 1 to 65535");
	return 0;
}

int spec_port_parse(const char *text, struct spec_port *ret, struct err *e)
{
	char ip[SPEC_IP_SIZE];
	uint64_t host, guest;
	const char *rest;

	if (strchr(text, '/'))
		return bad_port(e, text, "only TCP is published, and no /PROTOCOL is named");
	int r = take_address(text, 1, ip, &rest, e);

	if (r < 0)
		return r;
	size_t len = strcspn(rest, ":");
	if (rest[len] != ':')
		return bad_port(e, text, "the sandbox's port is missing");
	if ((r = take_number(text, rest, len, &host, e)) < 0 ||
		(r = take_number(text, rest + len + 1, strlen(rest + len + 1), &guest, e)) < 0)
		return r;
	if (guest == 0)
		return bad_port(e, text, "the sandbox's port cannot be 0");
	return spec_port_make(ip, host, guest, ret, e);
}

int spec_port_parse_host(const char *text, struct spec_port *ret, struct err *e)
{
	struct spec_port p = {0};
	uint64_t host;
	const char *rest;
	int r = take_address(text, 0, p.ip, &rest, e);

	if (r < 0 || (r = take_number(text, rest, strlen(rest), &host, e)) < 0)
		return r;
	p.host_port = (uint16_t)host;
	*ret = p;
	return 0;
}

bool spec_port_is_loopback(const struct spec_port *p)
{
	return text_starts_with(p->ip, "127.") || strcmp(p->ip, "::1") == 0 ||
	       text_starts_with(p->ip, "::ffff:127.");
}

void spec_port_address(const struct spec_port *p, char ret[static SPEC_ADDRESS_SIZE])
{
	(void)snprintf(ret, SPEC_ADDRESS_SIZE, strchr(p->ip, ':') ? "[%s]:%u" : "%s:%u", p->ip,
		p->host_port);
}

static bool same_address(const struct spec_port *a, const struct spec_port *b)
{
	return a->host_port == b->host_port && strcmp(a->ip, b->ip) == 0;
}

int spec_ports_add(struct spec_ports *all, const struct spec_port *p, struct err *e)
{
	char address[SPEC_ADDRESS_SIZE];

	if (all->len == SPEC_PORTS_MAX)
		return err_set(
			e, ERR_LIMIT, 0, "a sandbox publishes at most %d ports", SPEC_PORTS_MAX);
	spec_port_address(p, address);
	for (size_t i = 0; i < all->len; i++)
		if (p->host_port != 0 && same_address(&all->list[i], p))
			return err_set(e, ERR_EXISTS, 0, "%s is published already", address);
	all->list[all->len++] = *p;
	return 0;
}

int spec_ports_find(
	const struct spec_ports *all, const struct spec_port *wanted, size_t *ret, struct err *e)
{
	char address[SPEC_ADDRESS_SIZE];

	for (size_t i = 0; i < all->len; i++)
		if (same_address(&all->list[i], wanted)) {
			*ret = i;
			return 0;
		}
	spec_port_address(wanted, address);
	return err_set(e, ERR_NOT_FOUND, 0, "%s is not published", address);
}

void spec_ports_remove(struct spec_ports *all, size_t i)
{
	assert(i < all->len);
	memmove(&all->list[i], &all->list[i + 1], (all->len - i - 1) * sizeof(all->list[0]));
	all->len--;
}

json_t *spec_ports_encode(const struct spec_ports *all)
{
	json_t *list = json_array();

	for (size_t i = 0; i < all->len; i++)
		if (json_array_append_new(
			    list, json_pack("{s:s, s:i, s:i}", "ip", all->list[i].ip, "host_port",
					  (int)all->list[i].host_port, "guest_port",
					  (int)all->list[i].guest_port)) < 0) {
			json_decref(list);
			return NULL;
		}
	return list;
}

int spec_ports_decode(const json_t *list, struct spec_ports *ret, struct err *e)
{
	struct spec_ports all = {0};
	struct spec_port p;
	uint64_t host, guest;
	const char *ip;
	json_t *item;
	size_t i;
	int r;

	json_array_foreach (list, i, item) {
		if ((r = json_get_str(item, "ip", SPEC_IP_SIZE - 1, &ip, e)) < 0 ||
			(r = json_get_u64(item, "host_port", UINT16_MAX, &host, e)) < 0 ||
			(r = json_get_u64(item, "guest_port", UINT16_MAX, &guest, e)) < 0 ||
			(r = spec_port_make(ip, host, guest, &p, e)) < 0 ||
			(r = spec_ports_add(&all, &p, e)) < 0)
			return r;
	}
	*ret = all;
	return 0;
}
