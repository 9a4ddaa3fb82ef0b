/* SPDX-License-Identifier: Apache-2.0 */
/* What containers can feed to the agent's parsers: DNS queries, an image's passwd and group, and
 * the names of folders in mountinfo; and the paths of mounts. */
#include "guest/dns.h"
#include "guest/fs-attach.h"
#include "guest/mountinfo.h"
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

static void mounts(const char *text, size_t size)
{
	static struct mountinfo m;
	struct err e;

	if (mountinfo_parse(text, size, &m))
		assert(*m.path && strlen(m.path) <= size && strlen(m.device) <= size);
	if (fs_path_check(text, &e) == 0)
		assert(*text == '/' && !strstr(text, "/../") && !strstr(text, "//"));
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
	mounts(text, strlen(text));
	resolve("", text);
	resolve("joe:users", text);
	resolve("1000", text);
	free(spec);
	free(text);
	return 0;
}
