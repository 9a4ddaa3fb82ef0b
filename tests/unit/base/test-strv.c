/* SPDX-License-Identifier: Apache-2.0 */
#include "base/strv.h"

#include "tap.h"

static void test_add(void)
{
	cleanup_strv char **v = strv_new(), **none = NULL;

	OK(v && strv_len(v) == 0 && strv_len(NULL) == 0, "empty");
	OK(strv_add(&v, "a") == 0 && strv_addf(&v, "%s-%d", "b", 2) == 0, "two added");
	OK(strv_len(v) == 2 && !v[2], "ends in NULL");
	EQ_STR(v[0], "a", "the first");
	EQ_STR(v[1], "b-2", "the second");
	OK(strv_add(&none, "x") == 0 && strv_len(none) == 1, "a vector from NULL");
	char **taken = strv_take(&v);
	OK(v == NULL && strv_len(taken) == 2, "taken");
	strv_free(taken);
	strv_free(NULL);
}

static void test_env(void)
{
	cleanup_strv char **v = strv_new();

	OK(strv_env_set(&v, "A=1") == 0 && strv_env_set(&v, "AB=2") == 0 &&
			strv_env_set(&v, "A=3=4") == 0,
		"set");
	EQ_INT(strv_len(v), 2, "the later value replaces the earlier one");
	EQ_STR(strv_env_get(v, "A"), "3=4", "its value");
	EQ_STR(strv_env_get(v, "AB"), "2", "the other's");
	OK(strv_env_get(v, "B") == NULL && strv_env_get(NULL, "A") == NULL, "none");
	OK(strv_env_set(&v, "AB=") == 0, "an empty value");
	EQ_STR(strv_env_get(v, "AB"), "", "is a value");
}

int main(void)
{
	test_add();
	test_env();
	return tap_done();
}
