/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Published ports: sockets that listen on the host, each connection one CONNECT stream on kosa8.net
 * (proto/agent.h). The listeners live as long as the supervisor, the connections as long as the
 * machine: of another machine none of them is known, so they are reset.
 *
 * A connection's bytes: to the guest as STDIN within the window that the guest granted, from it as
 * STDOUT within what is granted here; an end of one direction is STDIN_EOF, STDOUT_EOF. RUN_EXIT
 * with code 0 and how EXITED ends it in order, all else (RUN_FAILED: nobody listens) resets it; a
 * reset by the client is KILL. What the guest sends is hostile.
 */
#ifndef KOSA8_SUPERVISOR_PORTS_H
#define KOSA8_SUPERVISOR_PORTS_H

#include "link.h"

#include "../base/json.h"
#include "../store/spec-mounts.h"

#include <uv.h>

/* Connections at once; more wait in the listeners' backlogs. */
#define PORTS_CONNECTIONS_MAX 256

struct ports;

struct ports *ports_new(uv_loop_t *loop); /* NULL: out of memory */
/* Closes all; connections are reset. Accepts NULL. */
void ports_free(struct ports *p);

/* Listens from now on; connections are accepted while there is a link. ret_port is the port, also
 * when 0 asked for any. Errors as of spec_port_listen(). */
int ports_listen(struct ports *p, const struct spec_port *port, uint16_t *ret_port,
	struct err *e) must_check;
/* Stops listening there and resets what came from there. */
void ports_unlisten(struct ports *p, const struct spec_port *port);

/* The machine's kosa8.net; NULL: none. All connections are reset. kick is called after a batch of
 * link_send(). */
void ports_bind(struct ports *p, struct link *net, void (*kick)(void *ctx), void *ctx);
/* -EPROTO: a frame of a type that does not belong on kosa8.net. */
int ports_frame(struct ports *p, const struct frame *f, struct err *e) must_check;

/* [{"ip", "host_port", "guest_port", "connections"}] */
json_t *ports_status(const struct ports *p);

#endif
