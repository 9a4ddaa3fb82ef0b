/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/reference.h"

#include <assert.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What parses has a canonical form that parses to itself. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[1024], first[REFERENCE_CANONICAL_SIZE], second[REFERENCE_CANONICAL_SIZE];
	struct reference r;
	struct err e;

	if (size >= sizeof(text))
		return 0;
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	if (reference_parse(text, &r, &e) < 0)
		return 0;
	reference_canonical(&r, first);
	int again = reference_parse(first, &r, &e);
	assert(again == 0);
	reference_canonical(&r, second);
	assert(strcmp(first, second) == 0);
	return 0;
}
