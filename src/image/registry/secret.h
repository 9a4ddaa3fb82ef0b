/* SPDX-License-Identifier: Apache-2.0 */
/* Strings and buffers that hold a secret: wiped before they are freed, and quoted by no error. */
#ifndef KOSA8_IMAGE_REGISTRY_SECRET_H
#define KOSA8_IMAGE_REGISTRY_SECRET_H

#include "../../base/json.h"

#include <stdlib.h>
#include <string.h>

static inline void secret_freep(char **s)
{
	if (*s)
		explicit_bzero(*s, strlen(*s));
	free(*s);
	*s = NULL;
}
#define cleanup_secret __attribute__((cleanup(secret_freep)))

static inline void secret_buf_release(struct buf *b)
{
	if (b->data)
		explicit_bzero(b->data, b->cap);
	buf_release(b);
}
#define cleanup_secret_buf __attribute__((cleanup(secret_buf_release)))

/* As json_parse_object(), whose error would quote what stands where the JSON breaks. */
int secret_json_parse(
	const void *data, size_t len, const char *what, json_t **ret, struct err *e) must_check;

/* Files of credentials may be empty, as docker has it: then they hold none. */
static inline bool secret_is_blank(const struct buf *b)
{
	size_t i = 0;

	while (i < b->len && b->data[i] && strchr(" \t\r\n", b->data[i]))
		i++;
	return i == b->len;
}

#endif
