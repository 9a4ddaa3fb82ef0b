/* SPDX-License-Identifier: Apache-2.0 */
/* Points in time as people and records write them. */
#ifndef KOSA8_CLI_SINCE_H
#define KOSA8_CLI_SINCE_H

#include <stdint.h>

/* RFC 3339 ("2026-01-31T12:00:00Z", with fraction or offset), as clock_wall_ns(). 0 or -EINVAL. */
int since_parse_rfc3339(const char *s, int64_t *ret_ns) __attribute__((warn_unused_result));
/* The same, or a duration before now ("1h"). */
int since_parse(const char *s, int64_t now_ns, int64_t *ret_ns) __attribute__((warn_unused_result));

#endif
