/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include "tap.h"

#include <errno.h>

static void test_set(void)
{
	struct err e;

	EQ_INT(err_set(&e, ERR_NOT_FOUND, 0, "no sandbox %s", "x"), -ENOENT, "the kind's errno");
	EQ_STR(e.what, "no sandbox x", "the text");
	EQ_STR(e.hint, "", "no hint");
	EQ_INT(err_hint(&e, "kosa8 %s", "ls"), -ENOENT, "a hint");
	EQ_STR(e.hint, "kosa8 ls", "its text");
	EQ_INT(err_wrap(&e, "rewind"), -ENOENT, "wrapped");
	EQ_STR(e.what, "rewind: no sandbox x", "in front");
	OK(e.kind == ERR_NOT_FOUND && strcmp(e.hint, "kosa8 ls") == 0, "kind and hint stay");
	EQ_INT(err_set(&e, ERR_IO, EPIPE, "again"), -EPIPE, "an errno of its own");
	EQ_STR(e.hint, "", "a new error has no old hint");
}

static void test_errno(void)
{
	static const struct {
		int errnum;
		enum err_kind kind;
	} cases[] = {{ENOSPC, ERR_NO_SPACE}, {EDQUOT, ERR_NO_SPACE}, {EACCES, ERR_DENIED},
		{EPERM, ERR_DENIED}, {ENOENT, ERR_NOT_FOUND}, {ETIMEDOUT, ERR_TIMEOUT},
		{EIO, ERR_IO}};
	struct err e;
	int wrong = 0;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int r = err_errno(&e, cases[i].errnum, "open x");
		wrong += r != -cases[i].errnum || e.kind != cases[i].kind;
	}
	EQ_INT(wrong, 0, "the kind follows from the errno");
	(void)err_errno(&e, ENOENT, "open %s", "x");
	EQ_STR(e.what, "open x: No such file or directory", "with its text");
}

static void test_names(void)
{
	int wrong = 0;

	for (enum err_kind k = ERR_NONE; k < ERR_KIND_COUNT; k++)
		wrong += err_kind_from_name(err_kind_name(k)) != k;
	EQ_INT(wrong, 0, "every kind has a name of its own");
	EQ_INT(err_kind_from_name("no such"), ERR_INTERNAL, "an unknown name");
	EQ_STR(err_kind_name(ERR_NO_SPACE), "no_space", "a name");
}

static void test_long(void)
{
	char text[2000];
	struct err e;

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	(void)err_set(&e, ERR_IO, 0, "%s", text);
	EQ_INT(strlen(e.what), ERR_WHAT_MAX - 1, "a long text is cut");
	(void)err_hint(&e, "%s", text);
	EQ_INT(strlen(e.hint), ERR_HINT_MAX - 1, "a long hint too");
	for (int i = 0; i < 10; i++)
		(void)err_wrap(&e, "%s", text);
	OK(strlen(e.what) < ERR_WHAT_MAX, "and a long chain of contexts");
	OK(err_code(&e) < 0, "the code is negative");
}

int main(void)
{
	test_set();
	test_errno();
	test_names();
	test_long();
	return tap_done();
}
