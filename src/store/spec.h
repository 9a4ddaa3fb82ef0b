/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox was created with; kept as JSON in the catalog. */
#ifndef KOSA8_STORE_SPEC_H
#define KOSA8_STORE_SPEC_H

#include "spec-mounts.h"

#include "../base/err.h"

#include <stdint.h>

enum egress_mode { EGRESS_DENY, EGRESS_ALLOW_LIST, EGRESS_ANY, EGRESS_FAKENET, EGRESS_MODE_COUNT };
const char *egress_mode_name(enum egress_mode m); /* deny, allow, any, fakenet */

struct spec {
	uint32_t cpus;
	uint32_t memory_mb;
	uint32_t disk_gb;
	enum egress_mode egress;
	char **egress_allow; /* as given */
	char **env;	     /* K=V */
	struct spec_mounts mounts;
	struct spec_ports ports;
};
void spec_init(struct spec *s); /* the defaults: 2 CPUs, 2048 MB, 16 GB, deny */
void spec_release(struct spec *s);
#define cleanup_spec __attribute__((cleanup(spec_release)))
/* Ranges (1..64 CPUs, 128 MB.., 1..4096 GB) and what this host has: ERR_LIMIT says both. */
int spec_check(const struct spec *s, struct err *e) must_check;
char *spec_encode(const struct spec *s); /* malloc'ed JSON; NULL when out of memory */
int spec_decode(const char *json, struct spec *ret, struct err *e) must_check;
/* SHA-256 of the canonical policy: egress, mounts, published ports. Audit records are bound to it.
 */
int spec_policy_hash(const struct spec *s, char ret[static 65], struct err *e) must_check;

#endif
