/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox port add, rm and ls. */
#include "commands.h"

#include "output.h"
#include "spec-change.h"

#include "../base/fd.h"

/* The address is tried now, so what is wrong with it is not found at the next start. */
static int add_stopped(struct spec *s, void *ctx, struct err *e)
{
	struct spec_port *p = ctx;
	cleanup_fd int fd = -1;
	int r = spec_ports_add(&s->ports, p, e);

	if (r == 0)
		r = spec_port_listen(p, &fd, &p->host_port, e);
	if (r == 0)
		s->ports.list[s->ports.len - 1].host_port = p->host_port;
	return r;
}

static json_t *members_of(const struct spec_port *p, bool add)
{
	json_t *o = json_pack("{s:s, s:i}", "ip", p->ip, "host_port", (int)p->host_port);

	if (o && add)
		(void)json_object_set_new(o, "guest_port", json_integer(p->guest_port));
	return o;
}

int cmd_sandbox_port_add(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	cleanup_sandbox struct sandbox s = {.dirfd = -1};
	cleanup_json *result = NULL;
	struct spec_port p;
	char address[SPEC_ADDRESS_SIZE];
	uint64_t port;
	int r;

	if ((r = spec_port_parse(a->operands[1], &p, e)) < 0 || (r = context_open(&c, e)) < 0 ||
		(r = sandbox_open(&c, a->operands[0], &s, e)) < 0)
		return r;
	cleanup_json *members = members_of(&p, true);
	struct spec_change change = {.op = "port-add",
		.action = "port.add",
		.members = members,
		.apply = add_stopped,
		.ctx = &p};
	if ((r = spec_change(&c, &s, &change, &result, e)) < 0)
		return r;
	if (result) {
		if ((r = json_get_u64(result, "host_port", UINT16_MAX, &port, e)) < 0)
			return r;
		p.host_port = (uint16_t)port;
	}
	spec_notice_port(&p);
	spec_port_address(&p, address);
	output_line("%s", address);
	return 0;
}

static int rm_stopped(struct spec *s, void *ctx, struct err *e)
{
	size_t at;
	int r = spec_ports_find(&s->ports, ctx, &at, e);

	if (r == 0)
		spec_ports_remove(&s->ports, at);
	return r;
}

int cmd_sandbox_port_rm(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	cleanup_sandbox struct sandbox s = {.dirfd = -1};
	cleanup_json *result = NULL;
	struct spec_port p;
	int r;

	if ((r = spec_port_parse_host(a->operands[1], &p, e)) < 0 ||
		(r = context_open(&c, e)) < 0 || (r = sandbox_open(&c, a->operands[0], &s, e)) < 0)
		return r;
	cleanup_json *members = members_of(&p, false);
	struct spec_change change = {.op = "port-rm",
		.action = "port.rm",
		.members = members,
		.apply = rm_stopped,
		.ctx = &p};
	r = spec_change(&c, &s, &change, &result, e);
	if (r < 0 && e->kind == ERR_NOT_FOUND)
		return err_hint(e, "kosa8 sandbox port ls %s", s.row.name);
	return r;
}

int cmd_sandbox_port_ls(const struct args *a, struct err *e)
{
	static const char *const headers[] = {"ADDRESS", "PORT", NULL};
	cleanup_context struct context c = {0};
	cleanup_sandbox struct sandbox s = {.dirfd = -1};
	cleanup_spec struct spec spec = {0};
	cleanup_table struct table t;
	cleanup_json *list = json_array();
	int r;

	table_init(&t, headers, 2);
	if ((r = context_open(&c, e)) < 0 || (r = sandbox_open(&c, a->operands[0], &s, e)) < 0)
		return r;
	if ((r = spec_decode(s.row.spec, &spec, e)) < 0)
		return err_wrap(e, "%s", s.row.name);
	for (size_t i = 0; i < spec.ports.len; i++) {
		const struct spec_port *p = &spec.ports.list[i];
		char address[SPEC_ADDRESS_SIZE], guest[8];
		spec_port_address(p, address);
		(void)snprintf(guest, sizeof(guest), "%u", p->guest_port);
		const char *const cells[] = {address, guest};
		table_row(&t, SHADE_NONE, cells);
		(void)json_array_append_new(list,
			json_pack("{s:s, s:s, s:i, s:i, s:b}", "address", address, "ip", p->ip,
				"host_port", (int)p->host_port, "guest_port", (int)p->guest_port,
				"loopback", (int)spec_port_is_loopback(p)));
	}
	return args_on(a, "json") ? output_json(json_incref(list), e) : table_print(&t, e);
}
