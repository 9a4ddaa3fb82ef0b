/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-fields.h"

#include "../base/strv.h"
#include "agent.h"

#include <stdlib.h>
#include <string.h>

void agent_get_fixed(struct cursor *c, char *ret, size_t size)
{
	cleanup_str char *s = cursor_strdup(c, size - 1);

	ret[0] = '\0';
	if (s)
		memcpy(ret, s, strlen(s) + 1);
}

void agent_get_raw(struct cursor *c, unsigned char *ret, size_t size)
{
	const unsigned char *p = cursor_bytes(c, size);

	if (p)
		memcpy(ret, p, size);
}

void agent_put_strv(struct buf *b, char *const *v)
{
	buf_put_u32(b, (uint32_t)strv_len(v));
	for (; v && *v; v++)
		buf_put_str(b, *v);
}

char **agent_get_strv(struct cursor *c)
{
	uint32_t count = cursor_u32(c);

	if (c->failed || count > AGENT_ARGS_MAX || count > c->left / 4) {
		c->failed = true;
		return NULL;
	}
	char **v = calloc((size_t)count + 1, sizeof(char *));
	if (!v)
		c->failed = true;
	for (uint32_t i = 0; i < count && !c->failed; i++)
		v[i] = cursor_strdup(c, AGENT_ARGS_BYTES_MAX);
	return v;
}
