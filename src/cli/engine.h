/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's part of `doctor` and `version`: what `kosa8-supervisor --doctor` prints,
 * {"checks":[{"name","status","text","hint"}]}; status is ok, warn or fail. */
#ifndef KOSA8_CLI_ENGINE_H
#define KOSA8_CLI_ENGINE_H

#include "../base/json.h"

/* The array of checks; the caller drops it. */
int engine_checks(json_t **ret, struct err *e) must_check;
/* The text of the check with this name, or NULL. */
const char *engine_text(const json_t *checks, const char *name);

#endif
