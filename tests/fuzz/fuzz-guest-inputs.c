/* SPDX-License-Identifier: Apache-2.0 */
/* What containers can feed to the agent's parsers: DNS queries and an image's passwd and group. */
#include "guest/dns.h"
#include "guest/user.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void resolve(const char *spec, const char *text)
{
	struct user u;
	struct err e;

	if (user_resolve(spec, text, text, &u, &e) == 0)
		assert(u.uid <= INT32_MAX && u.gid <= INT32_MAX && u.groups_len <= USER_GROUPS_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned char answer[DNS_MESSAGE_MAX];
	size_t len = dns_answer(data, size, answer);

	assert(len == 0 || (len >= 12 && len <= size));
	char *text = malloc(size + 1);
	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	char *spec = strndup(text, strcspn(text, "\n"));
	if (spec)
		resolve(spec, text);
	resolve("", text);
	resolve("joe:users", text);
	resolve("1000", text);
	free(spec);
	free(text);
	return 0;
}
