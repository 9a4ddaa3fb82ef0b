/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/user.h"

#include "base/buf.h"
#include "tap.h"

static const char passwd[] = "root:x:0:0:root:/root:/bin/sh\n"
			     "\n"
			     "short:x\n"
			     "joe:x:1000:100:Joe,,,:/home/joe:/bin/sh\n"
			     "nohome:x:1001:1001::\n"
			     "bad:x:12z:1:::\n"
			     "big:x:4294967295:1:::\n"
			     "1234:x:77:78::/seven:/bin/sh";
static const char group[] = "root:x:0:\n"
			    "users:x:100:\n"
			    "wheel:x:10:root,joe\n"
			    "joey:x:11:joey\n"
			    "video:x:44:joe";

static void check(const char *spec, long uid, long gid, size_t groups, const char *home)
{
	struct user u;
	struct err e;
	int r = user_resolve(spec, passwd, group, &u, &e);

	if (!OK(r == 0, spec))
		return;
	EQ_INT(u.uid, uid, "uid");
	EQ_INT(u.gid, gid, "gid");
	EQ_INT(u.groups_len, groups, "supplementary groups");
	EQ_STR(u.home, home, "home");
}

static void refuse(const char *spec, const char *text)
{
	struct user u = {.uid = 7};
	struct err e = {0};

	OK(user_resolve(spec, passwd, group, &u, &e) < 0, spec);
	OK(strstr(e.what, text) != NULL, e.what);
	EQ_INT(u.uid, 7, "nothing was written");
}

static void test_limits(void)
{
	cleanup_buf struct buf many;
	struct user u;
	struct err e;

	buf_init(&many, 1 << 20);
	for (int i = 0; i < USER_GROUPS_MAX + 50; i++)
		buf_putf(&many, "g%d:x:%d:joe\n", i, i + 1);
	EQ_INT(user_resolve("joe", passwd, buf_cstr(&many), &u, &e), 0, "more groups than fit");
	EQ_INT(u.groups_len, USER_GROUPS_MAX, "are cut off");
	EQ_INT(user_resolve("5:6", NULL, NULL, &u, &e), 0, "no files at all");
	EQ_INT(u.uid, 5, "uid as it is");
	EQ_INT(u.gid, 6, "gid as it is");
	EQ_INT(user_resolve("", NULL, NULL, &u, &e), 0, "root without files");
	EQ_STR(u.home, "/", "with a home");
}

int main(void)
{
	check("", 0, 0, 1, "/root");
	check("root", 0, 0, 1, "/root");
	check("joe", 1000, 100, 2, "/home/joe");
	check("1000", 1000, 100, 2, "/home/joe");
	check("joe:wheel", 1000, 10, 0, "/home/joe");
	check("joe:7", 1000, 7, 0, "/home/joe");
	check("joe:", 1000, 100, 2, "/home/joe");
	check(":video", 0, 44, 0, "/root");
	check("nohome", 1001, 1001, 0, "/");
	check("1234", 77, 78, 0, "/seven");
	check("9999", 9999, 0, 0, "/");
	check("2147483647:2147483647", 2147483647, 2147483647, 0, "/");
	refuse("bob", "no user \"bob\"");
	refuse("short", "no user \"short\"");
	refuse("jo", "no user \"jo\"");
	refuse("joe:nogroup", "no group \"nogroup\"");
	refuse("bad", "malformed");
	refuse("big", "malformed");
	refuse("4294967295", "no user");
	refuse("2147483648", "no user");
	refuse("-1", "no user");
	refuse("99999999999999999999", "no user");
	test_limits();
	return tap_done();
}
