/* SPDX-License-Identifier: Apache-2.0 */
/* port-add and port-rm, and the ports of the spec at a start. */
#include "op.h"

#include <errno.h>
#include <string.h>

static int ensure_ports(struct supervisor *s, struct err *e)
{
	if (!s->ports)
		s->ports = ports_new(&s->loop);
	return s->ports ? 0 : err_set(e, ERR_IO, ENOMEM, "out of memory");
}

int op_port_listen_all(struct supervisor *s, bool created, struct err *e)
{
	bool chosen = false;
	int r = ensure_ports(s, e);

	for (size_t i = 0; r == 0 && i < s->spec.ports.len; i++) {
		struct spec_port *p = &s->spec.ports.list[i];
		uint16_t port;
		char address[SPEC_ADDRESS_SIZE];
		r = ports_listen(s->ports, p, &port, e);
		if (r < 0 && !created) {
			spec_port_address(p, address);
			return err_hint(e, "kosa8 sandbox port rm %s %s", s->row.name, address);
		}
		chosen = chosen || (r == 0 && p->host_port == 0);
		if (r == 0)
			p->host_port = port;
	}
	return r == 0 && chosen ? supervisor_save_spec(s, e) : r;
}

static int take_port(struct op *op, struct spec_port *ret, bool add, struct err *e)
{
	const char *ip;
	uint64_t host, guest = 1;
	int r;

	if ((r = json_get_str(op->request, "ip", SPEC_IP_SIZE - 1, &ip, e)) < 0 ||
		(r = json_get_u64(op->request, "host_port", UINT16_MAX, &host, e)) < 0 ||
		(add && (r = json_get_u64(op->request, "guest_port", UINT16_MAX, &guest, e)) < 0))
		return r;
	return spec_port_make(ip, host, guest, ret, e);
}

static void describe(struct op *op, const struct spec_port *p, bool add)
{
	char address[SPEC_ADDRESS_SIZE];

	spec_port_address(p, address);
	(void)json_object_set_new(op->detail, "address", json_string(address));
	if (add)
		(void)json_object_set_new(op->detail, "guest_port", json_integer(p->guest_port));
}

static int prepare_add(struct op *op, struct err *e)
{
	struct spec_port p;
	int r = take_port(op, &p, true, e);

	if (r == 0)
		describe(op, &p, true);
	return r;
}

static void add(struct op *op)
{
	struct supervisor *s = op->s;
	struct spec_ports *all = &s->spec.ports;
	struct spec_port p;
	struct err e;
	uint16_t port = 0;

	if (take_port(op, &p, true, &e) < 0 || ensure_ports(s, &e) < 0 ||
		spec_ports_add(all, &p, &e) < 0) {
		op_fail(op, &e);
		return;
	}
	int r = ports_listen(s->ports, &p, &port, &e);
	if (r == 0) {
		p.host_port = all->list[all->len - 1].host_port = port;
		describe(op, &p, true);
		if ((r = supervisor_save_spec(s, &e)) < 0)
			ports_unlisten(s->ports, &p);
	}
	if (r < 0) {
		spec_ports_remove(all, all->len - 1);
		op_fail(op, &e);
		return;
	}
	op_succeed(op, json_pack("{s:i}", "host_port", (int)port));
}

static int prepare_rm(struct op *op, struct err *e)
{
	struct spec_port p;
	int r = take_port(op, &p, false, e);

	if (r == 0)
		describe(op, &p, false);
	return r;
}

static void rm(struct op *op)
{
	struct supervisor *s = op->s;
	struct spec_port p;
	struct err e;
	size_t at;

	if (take_port(op, &p, false, &e) < 0 || spec_ports_find(&s->spec.ports, &p, &at, &e) < 0) {
		op_fail(op, &e);
		return;
	}
	spec_ports_remove(&s->spec.ports, at);
	if (s->ports)
		ports_unlisten(s->ports, &p);
	if (supervisor_save_spec(s, &e) < 0)
		op_fail(op, &e);
	else
		op_succeed(op, NULL);
}

const struct op_kind op_port_add = {.name = "port-add",
	.action = "port.add",
	.exclusive = true,
	.prepare = prepare_add,
	.start = add};
const struct op_kind op_port_rm = {.name = "port-rm",
	.action = "port.rm",
	.exclusive = true,
	.prepare = prepare_rm,
	.start = rm};
