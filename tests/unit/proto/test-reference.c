/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/reference.h"

#include "tap.h"

#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define TEN "abcdefghij"
#define FIFTY TEN TEN TEN TEN TEN
#define HUNDRED FIFTY FIFTY

static const struct {
	const char *text, *canonical;
} good[] = {
	{"python:3.12-slim", "docker.io/library/python:3.12-slim"},
	{"busybox", "docker.io/library/busybox:latest"},
	{"someone/app", "docker.io/someone/app:latest"},
	{"docker.io/busybox", "docker.io/library/busybox:latest"},
	{"index.docker.io/library/busybox:1", "docker.io/library/busybox:1"},
	{"localhost/app", "localhost/app:latest"},
	{"localhost:5000/a/b-c__d.e/f:V_1.0-x", "localhost:5000/a/b-c__d.e/f:V_1.0-x"},
	{"127.0.0.1:5000/app", "127.0.0.1:5000/app:latest"},
	{"[::1]:5000/app:1", "[::1]:5000/app:1"},
	{"registry.example.com/app@sha256:" HEX64, "registry.example.com/app@sha256:" HEX64},
	{"app:1@sha256:" HEX64, "docker.io/library/app:1@sha256:" HEX64},
	{"sha256/app", "docker.io/sha256/app:latest"},
	{"someone/sha256", "docker.io/someone/sha256:latest"},
	{"example.com/sha256:1", "example.com/sha256:1"},
	{"example.com/" HEX64, "example.com/" HEX64 ":latest"},
	{"sha512:1", "docker.io/library/sha512:1"},
	{"Registry.Example.COM:5000/a/b:V1", "registry.example.com:5000/a/b:V1"},
	{"LocalHost/app", "localhost/app:latest"},
	{"[FE80::A]:5000/app", "[fe80::a]:5000/app:latest"},
	{"Index.Docker.io/busybox", "docker.io/library/busybox:latest"},
	{"registry-1.docker.io/library/busybox", "docker.io/library/busybox:latest"},
	{"a---b", "docker.io/library/a---b:latest"},
	{"app:" HUNDRED "abcdefghijabcdefghijabcdefgh",
		"docker.io/library/app:" HUNDRED "abcdefghijabcdefghijabcdefgh"},
};

static const char *const bad[] = {
	"",
	":",
	"@",
	"/",
	"a/",
	"/a",
	"a//b",
	"a:",
	"a: ",
	"a b",
	"a\n",
	"Python",
	"Registry/app",
	"a/B:1",
	"http://example.com/app",
	"-a",
	"a-",
	"a..b",
	"a___b",
	"_a",
	"a/-b",
	"a:-1",
	"a:.1",
	"a@sha256:",
	"a@sha256:0123",
	"a@sha512:" HEX64,
	"a@sha256:" HEX64 "0",
	"a@sha256:0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef",
	"a@@b",
	"host:port/app",
	"host.:5000/app",
	"-host.com/app",
	"host..com/app",
	"[::1/app",
	"[]/app",
	"[x]/app",
	"host:123456/app",
	"../x",
	"..",
	".",
	"a/../b",
	"a\x01",
	"caf\xc3\xa9",
	HEX64,
	HEX64 ":1",
	"docker.io/" HEX64,
	"docker.io/library/" HEX64 ":1",
	"sha256",
	"sha256:53a9c8f5cf67",
	"docker.io/sha256:1",
	"library/sha256",
	"index.docker.io/library/sha256:1",
	"sha256@sha256:" HEX64,
	"app:" HUNDRED FIFTY,
	HUNDRED HUNDRED HUNDRED "/a",
	HUNDRED HUNDRED "abcdefghij" FIFTY /* 260 with library/ */,
};

static void test_hints(void)
{
	struct reference r;
	struct err e = {0};

	OK(reference_parse("https://example.com/app", &r, &e) < 0, "an address");
	EQ_STR(e.hint, "without https://", "its hint");
	OK(reference_parse("example.com/Team/App:1", &r, &e) < 0, "upper case in a repository");
	EQ_STR(e.hint, "lower case: team/app", "its hint");
	EQ_INT(e.kind, ERR_INVALID, "the kind");
	OK(reference_parse("a\x1b[31m", &r, &e) < 0 && !strchr(e.what, '\x1b'),
		"a control byte never reaches the message");
}

int main(void)
{
	char canonical[REFERENCE_CANONICAL_SIZE];
	struct reference r;
	struct err e = {0};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		if (!OK(reference_parse(good[i].text, &r, &e) == 0, good[i].text)) {
			printf("# %s\n", e.what);
			continue;
		}
		reference_canonical(&r, canonical);
		EQ_STR(canonical, good[i].canonical, "its canonical form");
		OK(reference_parse(canonical, &r, &e) == 0, "which parses");
		reference_canonical(&r, canonical);
		EQ_STR(canonical, good[i].canonical, "to itself");
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct reference untouched = {.tag = "x"};
		printf("# input %zu\n", i);
		OK(reference_parse(bad[i], &untouched, &e) < 0, "refused");
		EQ_STR(untouched.tag, "x", "and nothing is written");
	}
	test_hints();
	OK(reference_is_digest("sha256:" HEX64), "a digest");
	OK(!reference_is_digest(HEX64), "a digest without its algorithm");
	return tap_done();
}
