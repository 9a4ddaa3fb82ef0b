/* SPDX-License-Identifier: Apache-2.0 */
/* What a run executes: the image's configuration (OCI image-spec, config.md, "config"), the
 * sandbox's environment and the request, put together as docker does. */
#ifndef KOSA8_SUPERVISOR_IMAGE_CONFIG_H
#define KOSA8_SUPERVISOR_IMAGE_CONFIG_H

#include "../proto/agent.h"
#include "../proto/client.h"

/* config: the image configuration's JSON text. Fills argv, env, cwd, user of *ret, which the caller
 * releases with agent_run_release() (on success). */
int image_config_apply(const char *config, char *const *sandbox_env, const struct client_run *run,
	struct agent_run *ret, struct err *e) must_check;

#endif
