/* SPDX-License-Identifier: Apache-2.0 */
/* Mounts and published ports of a sandbox: as flags of create, and changes of them later: by the
 * supervisor when the sandbox runs, else here, under its lock. */
#ifndef KOSA8_CLI_SPEC_CHANGE_H
#define KOSA8_CLI_SPEC_CHANGE_H

#include "args.h"
#include "context.h"

#include "../store/spec.h"

/* --mount and --publish. Folders are opened once, and their paths made absolute. */
int spec_take_mounts(
	const struct context *c, const struct args *a, struct spec *s, struct err *e) must_check;
int spec_take_ports(const struct args *a, struct spec *s, struct err *e) must_check;
/* What others than this host's programs can reach is told on stderr. */
void spec_notice_port(const struct spec_port *p);

/* {"mounts": [...], "ports": [...]}, each only if there are any: of an audit record. */
void spec_describe(const struct sandbox_row *row, json_t *detail);

struct spec_change {
	const char *op;	    /* of the request to the supervisor */
	const char *action; /* in the audit log */
	json_t *members;    /* of the request, and the detail of the record; borrowed */
	/* What it is to a stopped sandbox. May replace members. */
	int (*apply)(struct spec *s, void *ctx, struct err *e);
	void *ctx;
};
/* *ret: the supervisor's result; NULL when the sandbox is stopped. */
int spec_change(struct context *c, const struct sandbox *s, const struct spec_change *change,
	json_t **ret, struct err *e) must_check;

/* The object of `sandbox inspect`'s "live", owned by the caller; NULL when the sandbox does not
 * run, or its supervisor does not say: a notice tells. */
json_t *sandbox_live(const struct context *c, const struct sandbox *s);
/* A member of the supervisor's "live" object, or NULL: not running, or it does not say. */
json_t *spec_live(const struct context *c, const struct sandbox *s, const char *member);

#endif
