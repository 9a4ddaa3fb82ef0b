/* SPDX-License-Identifier: Apache-2.0 */
#include "image/registry/challenge.h"

#include <assert.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_printable(const char *s, size_t size)
{
	size_t len = strnlen(s, size);

	assert(len < size);
	for (size_t i = 0; i < len; i++)
		assert(s[i] >= 0x20 && s[i] <= 0x7e);
}

/* Two headers, one after the other, as they come in. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct challenge c = {0};
	size_t half = size / 2;

	int first = challenge_parse(&c, (const char *)data, half);
	int second = challenge_parse(&c, (const char *)data + half, size - half);
	assert(first <= 0 && second <= 0);
	check_printable(c.realm, sizeof(c.realm));
	check_printable(c.service, sizeof(c.service));
	check_printable(c.scope, sizeof(c.scope));
	return 0;
}
