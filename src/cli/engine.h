/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's part of `doctor` and `version`: what `kosa8-supervisor --doctor` prints,
 * {"checks":[{"name","status","text","hint"}],"qemu_version":..}; status is ok, warn or fail. */
#ifndef KOSA8_CLI_ENGINE_H
#define KOSA8_CLI_ENGINE_H

#include "../base/json.h"

/* The whole answer; "checks" is an array. The caller drops it. */
int engine_ask(json_t **ret, struct err *e) must_check;

#endif
