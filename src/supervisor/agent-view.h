/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent says of programs and containers, in the words of the client's protocol. The agent
 * is not trusted: texts are escaped, names checked. */
#ifndef KOSA8_SUPERVISOR_AGENT_VIEW_H
#define KOSA8_SUPERVISOR_AGENT_VIEW_H

#include "../base/err.h"
#include "../base/json.h"
#include "../proto/agent-session.h"

#include <stdbool.h>

/* RUN_FAILED, or the REPLY to a request about a container. names_container: the errno is about the
 * container that was named. sandbox: its name, for the hint. Returns the negative errno of e. */
int agent_error(
	const struct agent_reply *r, bool names_container, const char *sandbox, struct err *e);
/* how, code, oom */
void agent_end_put(const struct agent_exit *x, json_t *members);
/* A member of `containers` (proto/client.h). -EPROTO: what cannot be a container; -ENOMEM. */
int agent_container_json(const struct agent_container *c, json_t **ret) must_check;
bool agent_name_is_valid(const char *name);
/* A name, an id, or the beginning of one, as a client may give it. */
int agent_ref_check(const char *ref, const char *sandbox, struct err *e) must_check;

#endif
