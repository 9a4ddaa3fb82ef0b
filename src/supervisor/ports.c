/* SPDX-License-Identifier: Apache-2.0 */
#include "ports.h"

#include "port-conn.h"

#include "../base/fd.h"
#include "../base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* Bytes that wait for the guest: above the first, no more are read; below the second, again. */
#define QUEUED_HIGH (8u * 1024 * 1024)
#define QUEUED_LOW (2u * 1024 * 1024)
/* Clients that are let in by one listener in one turn of the loop. */
#define STEP_ACCEPTS 16
/* Nothing tells when a descriptor is free again. */
#define STARVED_MS 1000

struct listener {
	struct ports *p;
	size_t number; /* never used again */
	struct spec_port port;
	int fd;
	uv_poll_t poll;
	struct listener *next;
};

struct ports {
	uv_loop_t *loop;
	struct listener *listeners;
	struct port_conn *conns;
	size_t conns_len, listeners_made;
	struct link *net;
	void (*kick)(void *ctx);
	void *ctx;
	uint32_t next_stream;
	uv_prepare_t prepare; /* active while the link is full */
	uv_timer_t starved;   /* active while nobody is let in for lack of descriptors */
	bool told;	      /* of that */
};

struct ports *ports_new(uv_loop_t *loop)
{
	struct ports *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->loop = loop;
	p->next_stream = 1;
	(void)uv_prepare_init(loop, &p->prepare);
	p->prepare.data = p;
	(void)uv_timer_init(loop, &p->starved);
	p->starved.data = p;
	return p;
}

/* ---- the link ---- */

static void set_blocked(struct ports *p, bool blocked)
{
	for (struct port_conn *c = p->conns; c; c = c->next)
		port_conn_block(c, blocked);
}

static void on_prepare(uv_prepare_t *prepare)
{
	struct ports *p = prepare->data;

	if (p->net && link_queued(p->net) >= QUEUED_LOW)
		return;
	(void)uv_prepare_stop(prepare);
	set_blocked(p, false);
}

static bool is_full(const struct ports *p)
{
	return uv_is_active((const uv_handle_t *)&p->prepare);
}

static void on_send(void *ctx, uint16_t type, uint32_t stream, const void *payload, size_t len)
{
	struct ports *p = ctx;

	if (!p->net)
		return;
	link_send(p->net, type, stream, payload, len);
	p->kick(p->ctx);
	if (link_queued(p->net) > QUEUED_HIGH && !is_full(p)) {
		(void)uv_prepare_start(&p->prepare, on_prepare);
		set_blocked(p, true);
	}
}

/* ---- connections ---- */

static void watch_listeners(struct ports *p);

static void on_conn_closed(void *ctx, struct port_conn *c)
{
	struct ports *p = ctx;

	for (struct port_conn **at = &p->conns; *at; at = &(*at)->next)
		if (*at == c) {
			*at = c->next;
			break;
		}
	p->conns_len--;
	(void)uv_timer_stop(&p->starved);
	watch_listeners(p);
}

/* 1: a client was let in; <0: none. */
static int accept_one(struct listener *l)
{
	static const struct port_conn_events events = {on_send, on_conn_closed};
	struct ports *p = l->p;
	struct port_conn *c;
	int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return -errno;
	int r = port_conn_new(p->loop, fd, p->next_stream, l->port.guest_port, &events, p, &c);
	if (r < 0)
		return r;
	p->next_stream++;
	c->listener = l->number;
	c->next = p->conns;
	p->conns = c;
	p->conns_len++;
	if (is_full(p))
		port_conn_block(c, true);
	return 1;
}

static void on_starved_end(uv_timer_t *timer)
{
	watch_listeners(timer->data);
}

/* No descriptor is free: who wants in waits until a connection has ended, or a moment. */
static void let_nobody_in(struct ports *p, int errnum)
{
	if (!p->told)
		log_warn("the published ports let nobody in for now: %s", strerror(errnum));
	p->told = true;
	(void)uv_timer_start(&p->starved, on_starved_end, STARVED_MS, 0);
}

static void on_listener(uv_poll_t *handle, int status, int events)
{
	struct listener *l = handle->data;
	struct ports *p = l->p;
	int r = 1;

	(void)status;
	(void)events;
	for (int i = 0; i < STEP_ACCEPTS && r > 0 && p->conns_len < PORTS_CONNECTIONS_MAX; i++) {
		r = accept_one(l);
		if (r > 0)
			p->told = false;
	}
	if (r < 0 && r != -EAGAIN && r != -ECONNABORTED && r != -EINTR)
		let_nobody_in(p, -r);
	watch_listeners(p);
}

static void watch_listeners(struct ports *p)
{
	bool on = p->net && p->conns_len < PORTS_CONNECTIONS_MAX &&
		  !uv_is_active((const uv_handle_t *)&p->starved);

	for (struct listener *l = p->listeners; l; l = l->next)
		if (on)
			(void)uv_poll_start(&l->poll, UV_READABLE, on_listener);
		else
			(void)uv_poll_stop(&l->poll);
}

static void reset_all(struct ports *p, bool tell)
{
	while (p->conns)
		port_conn_reset(p->conns, tell);
}

void ports_bind(struct ports *p, struct link *net, void (*kick)(void *ctx), void *ctx)
{
	p->net = NULL;
	reset_all(p, false);
	(void)uv_prepare_stop(&p->prepare);
	p->net = net;
	p->kick = kick;
	p->ctx = ctx;
	p->next_stream = 1;
	watch_listeners(p);
}

int ports_frame(struct ports *p, const struct frame *f, struct err *e)
{
	struct port_conn *c = p->conns;

	switch (f->type) {
	case AGENT_RUN_STARTED:
	case AGENT_RUN_FAILED:
	case AGENT_STDOUT:
	case AGENT_STDOUT_EOF:
	case AGENT_WINDOW:
	case AGENT_RUN_EXIT:
		break;
	default:
		return err_set(e, ERR_PROTOCOL, 0,
			"the guest's agent sent a frame that does not belong to a connection");
	}
	while (c && c->stream != f->stream)
		c = c->next;
	/* Else of one that was reset here while this was on its way. */
	if (c)
		port_conn_frame(c, f);
	return 0;
}

/* ---- listeners ---- */

static void on_listener_closed(uv_handle_t *handle)
{
	free(handle->data);
}

static void drop_listener(struct listener *l)
{
	(void)uv_poll_stop(&l->poll);
	l->fd = fd_close(l->fd);
	uv_close((uv_handle_t *)&l->poll, on_listener_closed);
}

int ports_listen(struct ports *p, const struct spec_port *port, uint16_t *ret_port, struct err *e)
{
	struct listener *l = calloc(1, sizeof(*l));
	uint16_t actual = 0;
	int r;

	if (!l)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	l->fd = -1;
	r = spec_port_listen(port, &l->fd, &actual, e);
	if (r == 0 && (r = uv_poll_init(p->loop, &l->poll, l->fd)) < 0)
		r = err_errno(e, -r, "cannot watch a published port");
	if (r < 0) {
		(void)fd_close(l->fd);
		free(l);
		return r;
	}
	l->poll.data = l;
	l->p = p;
	l->number = p->listeners_made++;
	l->port = *port;
	l->port.host_port = actual;
	l->next = p->listeners;
	p->listeners = l;
	watch_listeners(p);
	*ret_port = actual;
	return 0;
}

void ports_unlisten(struct ports *p, const struct spec_port *port)
{
	struct listener **at = &p->listeners;

	while (*at &&
		((*at)->port.host_port != port->host_port || strcmp((*at)->port.ip, port->ip) != 0))
		at = &(*at)->next;
	struct listener *l = *at;
	if (!l)
		return;
	*at = l->next;
	for (struct port_conn *c = p->conns, *next; c; c = next) {
		next = c->next;
		if (c->listener == l->number)
			port_conn_reset(c, true);
	}
	drop_listener(l);
}

static void on_prepare_closed(uv_handle_t *handle)
{
	free(handle->data);
}

static void on_timer_closed(uv_handle_t *handle)
{
	struct ports *p = handle->data;

	uv_close((uv_handle_t *)&p->prepare, on_prepare_closed);
}

void ports_free(struct ports *p)
{
	if (!p)
		return;
	ports_bind(p, NULL, NULL, NULL);
	while (p->listeners) {
		struct listener *l = p->listeners;
		p->listeners = l->next;
		drop_listener(l);
	}
	uv_close((uv_handle_t *)&p->starved, on_timer_closed);
}

json_t *ports_status(const struct ports *p)
{
	json_t *list = json_array();

	for (const struct listener *l = p->listeners; l; l = l->next) {
		int connections = 0;
		for (const struct port_conn *c = p->conns; c; c = c->next)
			connections += c->listener == l->number;
		(void)json_array_insert_new(list, 0,
			json_pack("{s:s, s:i, s:i, s:i}", "ip", l->port.ip, "host_port",
				(int)l->port.host_port, "guest_port", (int)l->port.guest_port,
				"connections", connections));
	}
	return list;
}
