/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests print TAP (Test Anything Protocol 13). A failed check is reported and counted; the
 * test goes on. main() ends with `return tap_done();`. */
#ifndef KOSA8_TESTS_TAP_H
#define KOSA8_TESTS_TAP_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int tap_count, tap_failed;

static inline bool tap_ok(bool ok, const char *file, int line, const char *what)
{
	printf("%sok %d - %s\n", ok ? "" : "not ", ++tap_count, what);
	if (!ok) {
		tap_failed++;
		printf("# failed at %s:%d\n", file, line);
	}
	return ok;
}

static inline int tap_done(void)
{
	printf("1..%d\n", tap_count);
	return tap_failed ? 1 : 0;
}

#define OK(condition, what) tap_ok((condition), __FILE__, __LINE__, (what))
#define EQ_INT(got, want, what)                                          \
	do {                                                             \
		long long g_ = (long long)(got), w_ = (long long)(want); \
		if (!tap_ok(g_ == w_, __FILE__, __LINE__, (what)))       \
			printf("# got %lld, want %lld\n", g_, w_);       \
	} while (0)
#define EQ_STR(got, want, what)                                                           \
	do {                                                                              \
		const char *g_ = (got), *w_ = (want);                                     \
		if (!tap_ok(g_ && w_ && strcmp(g_, w_) == 0, __FILE__, __LINE__, (what))) \
			printf("# got \"%s\", want \"%s\"\n", g_ ? g_ : "(null)",         \
				w_ ? w_ : "(null)");                                      \
	} while (0)

#endif
