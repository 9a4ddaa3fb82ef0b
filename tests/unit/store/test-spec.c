/* SPDX-License-Identifier: Apache-2.0 */
#include "base/strv.h"
#include "store/spec.h"

#include "tap.h"

#include <stdlib.h>
#include <unistd.h>

static struct err e;

static bool check_is(const struct spec *s, enum err_kind kind)
{
	e = (struct err){0};
	int r = spec_check(s, &e);

	return (r < 0) == (kind != ERR_NONE) && e.kind == kind;
}

static void test_ranges(void)
{
	cleanup_spec struct spec s;
	char want[80];
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	spec_init(&s);
	OK(s.cpus == 2 && s.memory_mb == 2048 && s.disk_gb == 16 && s.egress == EGRESS_DENY,
		"the defaults");
	s.cpus = 1;
	s.memory_mb = 128;
	OK(check_is(&s, ERR_NONE), "the least that is possible");
	s.cpus = 0;
	OK(check_is(&s, ERR_LIMIT), "no CPU");
	s.cpus = 65;
	OK(check_is(&s, ERR_LIMIT) && strstr(e.what, "65") && strstr(e.what, "64"),
		"65 CPUs: says both");
	if (cpus < 64) {
		s.cpus = (uint32_t)cpus + 1;
		(void)snprintf(want, sizeof(want), "cpus %ld is more than this host has (%ld)",
			cpus + 1, cpus);
		OK(check_is(&s, ERR_LIMIT), "more CPUs than the host has");
		EQ_STR(e.what, want, "says both");
	}
	s.cpus = 1;
	s.memory_mb = 127;
	OK(check_is(&s, ERR_LIMIT), "too little memory");
	s.memory_mb = 999999;
	OK(check_is(&s, ERR_LIMIT), "more memory than the host has");
	OK(strstr(e.what, "memory 999999 MB is more than this host has (") &&
			strstr(e.what, " MB)") && e.hint[0],
		"says both");
	s.memory_mb = UINT32_MAX;
	OK(check_is(&s, ERR_LIMIT), "more than any host has");
	s.memory_mb = 256;
	s.disk_gb = 0;
	OK(check_is(&s, ERR_LIMIT), "no disk");
	s.disk_gb = 4097;
	OK(check_is(&s, ERR_LIMIT), "too large a disk");
	s.disk_gb = 4096;
	OK(check_is(&s, ERR_NONE), "the largest");
}

static void test_lists(void)
{
	cleanup_spec struct spec s;

	spec_init(&s);
	s.cpus = 1;
	s.memory_mb = 128;
	s.env = strv_new();
	s.egress_allow = strv_new();
	OK(strv_add(&s.env, "A=") == 0 && check_is(&s, ERR_NONE), "an empty value");
	OK(strv_add(&s.env, "NOVALUE") == 0 && check_is(&s, ERR_INVALID), "no value");
	strv_free(s.env);
	s.env = strv_new();
	OK(strv_add(&s.env, "=x") == 0 && check_is(&s, ERR_INVALID), "no name");
	strv_free(s.env);
	s.env = strv_new();
	OK(strv_add(&s.env, "A=\xff") == 0 && check_is(&s, ERR_INVALID), "not UTF-8");
	strv_free(s.env);
	s.env = NULL;
	s.egress = EGRESS_ALLOW_LIST;
	OK(check_is(&s, ERR_INVALID), "an allow list without hosts");
	OK(strv_add(&s.egress_allow, "example.com:443") == 0 && check_is(&s, ERR_NONE),
		"an allow list");
	s.egress = EGRESS_ANY;
	OK(check_is(&s, ERR_INVALID), "hosts without an allow list");
	s.egress = EGRESS_ALLOW_LIST;
	for (int i = 0; i < 1100; i++)
		if (strv_addf(&s.egress_allow, "h%d.example.com", i) < 0)
			break;
	OK(check_is(&s, ERR_LIMIT), "too many hosts");
}

static void test_round_trip(void)
{
	cleanup_spec struct spec s, back = {0};
	cleanup_str char *json = NULL, *again = NULL;

	spec_init(&s);
	s.egress = EGRESS_ALLOW_LIST;
	s.egress_allow = strv_new();
	s.env = strv_new();
	OK(strv_add(&s.egress_allow, "Example.com") == 0 && strv_add(&s.env, "K=\"v\n") == 0,
		"a spec with lists");
	json = spec_encode(&s);
	OK(json != NULL, "encoded");
	EQ_INT(spec_decode(json, &back, &e), 0, "decoded");
	again = spec_encode(&back);
	EQ_STR(again, json, "is the same");
	EQ_STR(back.env[0], "K=\"v\n", "with its environment");
	EQ_STR(back.egress_allow[0], "Example.com", "and the hosts as given");
	OK(back.egress == EGRESS_ALLOW_LIST && back.cpus == 2 && back.memory_mb == 2048 &&
			back.disk_gb == 16,
		"and its numbers");
}

static void test_bad_json(void)
{
	static const char *const bad[] = {"", "[]", "{}", "{\"cpus\":1}",
		"{\"cpus\":-1,\"memory_mb\":1,\"disk_gb\":1,\"egress\":\"deny\"}",
		"{\"cpus\":4294967296,\"memory_mb\":1,\"disk_gb\":1,\"egress\":\"deny\"}",
		"{\"cpus\":\"1\",\"memory_mb\":1,\"disk_gb\":1,\"egress\":\"deny\"}",
		"{\"cpus\":1,\"memory_mb\":1,\"disk_gb\":1,\"egress\":\"x\"}",
		"{\"cpus\":1,\"memory_mb\":1,\"disk_gb\":1,\"egress\":\"deny\",\"env\":[1]}",
		"{\"cpus\":1,\"memory_mb\":1,\"disk_gb\":1,\"egress\":\"deny\",\"env\":{}}"};
	cleanup_spec struct spec s = {0};
	int refused = 0;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		int r = spec_decode(bad[i], &s, &e);
		refused += r < 0 && e.kind == ERR_CORRUPT;
	}
	EQ_INT(refused, sizeof(bad) / sizeof(bad[0]), "damaged descriptions are refused");
	OK(s.cpus == 0 && !s.env, "and nothing is filled in");
	EQ_INT(spec_decode("{\"cpus\":1,\"memory_mb\":1,\"disk_gb\":1,\"egress\":\"any\"}", &s, &e),
		0, "control: a good one");
}

static void hash_of(enum egress_mode mode, const char *a, const char *b, char ret[static 65])
{
	cleanup_spec struct spec s;

	spec_init(&s);
	s.egress = mode;
	s.egress_allow = strv_new();
	if ((a && strv_add(&s.egress_allow, a) < 0) || (b && strv_add(&s.egress_allow, b) < 0) ||
		spec_policy_hash(&s, ret, &e) < 0)
		ret[0] = '\0';
}

static void test_policy_hash(void)
{
	char deny[65], any[65], ab[65], ba[65], a[65], aa[65];

	hash_of(EGRESS_DENY, NULL, NULL, deny);
	hash_of(EGRESS_ANY, NULL, NULL, any);
	hash_of(EGRESS_ALLOW_LIST, "a.example.com", "b.example.com", ab);
	hash_of(EGRESS_ALLOW_LIST, "B.example.com", "A.Example.com", ba);
	hash_of(EGRESS_ALLOW_LIST, "a.example.com", NULL, a);
	hash_of(EGRESS_ALLOW_LIST, "a.example.com", "a.example.com", aa);
	EQ_INT(strlen(deny), 64, "a hash");
	OK(strcmp(deny, any) != 0, "another mode, another hash");
	EQ_STR(ba, ab, "order and case say nothing");
	EQ_STR(aa, a, "nor does saying it twice");
	OK(strcmp(ab, a) != 0, "another host does");
	/* sha256sum of {"allow":[],"mode":"deny"} */
	EQ_STR(deny, "7915ad4cd028b2d088a1d6b1b39577cd380422eeca44a8a9ea5e0e8909dd017f",
		"of the canonical form");
}

int main(void)
{
	test_ranges();
	test_lists();
	test_round_trip();
	test_bad_json();
	test_policy_hash();
	EQ_STR(egress_mode_name(EGRESS_FAKENET), "fakenet", "the name of a mode");
	return tap_done();
}
