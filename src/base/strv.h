/* SPDX-License-Identifier: Apache-2.0 */
/* NULL-terminated vectors of malloc'ed strings: argv, env, lists. */
#ifndef KOSA8_BASE_STRV_H
#define KOSA8_BASE_STRV_H

#include <stddef.h>

char **strv_new(void); /* empty; NULL when out of memory */
void strv_free(char **v);
void strv_freep(char ***v);
#define cleanup_strv __attribute__((cleanup(strv_freep)))
char **strv_take(char ***v);
size_t strv_len(char *const *v);
/* Appends a copy / printf text. 0 or -ENOMEM; *v stays valid either way. */
int strv_add(char ***v, const char *s) __attribute__((warn_unused_result));
int strv_addf(char ***v, const char *fmt, ...)
	__attribute__((warn_unused_result, format(printf, 2, 3)));
/* Appends K=V, replacing an earlier entry of the same K. */
int strv_env_set(char ***v, const char *assignment) __attribute__((warn_unused_result));
/* The value of K in K=V entries, or NULL. */
const char *strv_env_get(char *const *v, const char *key);

static inline void str_freep(char **s)
{
	__builtin_free(*s);
	*s = NULL;
}
#define cleanup_str __attribute__((cleanup(str_freep)))

#endif
