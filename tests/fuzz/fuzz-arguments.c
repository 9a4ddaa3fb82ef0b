/* SPDX-License-Identifier: Apache-2.0 */
/* A command line: words ended by newlines. */
#include "base/text.h"
#include "cli/args.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MAX 32

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *argv[WORDS_MAX + 1], safe[8];
	int argc = 0;
	struct args a = {0};
	struct err e = {0};
	char *text = calloc(1, size + 1);

	if (!text)
		return 0;
	memcpy(text, data, size);
	argv[argc++] = text + size; /* the program's name: empty */
	for (char *p = text, *end; argc < WORDS_MAX && (end = strchr(p, '\n')); p = end + 1) {
		*end = '\0';
		argv[argc++] = p;
	}
	argv[argc] = NULL;
	int r = args_parse(argc, argv, &a, &e);
	if (r < 0 && (e.kind != ERR_USAGE || !*e.what))
		abort();
	if (r >= 0 && a.command && !a.help &&
		(a.operands_len < a.command->operands_min ||
			a.operands_len > a.command->operands_max))
		abort();
	text_escape(text, safe, sizeof(safe));
	if (strlen(safe) >= sizeof(safe))
		abort();
	args_release(&a);
	free(text);
	return 0;
}
