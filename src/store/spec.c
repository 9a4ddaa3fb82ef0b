/* SPDX-License-Identifier: Apache-2.0 */
#include "spec.h"

#include "../base/buf.h"
#include "../base/file.h"
#include "../base/hash.h"
#include "../base/json.h"
#include "../base/strv.h"
#include "../base/text.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CPUS_MAX 64
#define MEMORY_MIN_MB 128
#define MEMORY_MAX_MB (4u << 20) /* what fits in 32 bits of pages; no host has it */
#define DISK_MAX_GB 4096
#define LIST_MAX_ITEMS 1024
#define LIST_MAX_BYTES (256u * 1024)

static const char *const mode_names[] = {
	[EGRESS_DENY] = "deny",
	[EGRESS_ALLOW_LIST] = "allow",
	[EGRESS_ANY] = "any",
	[EGRESS_FAKENET] = "fakenet",
};
static_assert(
	sizeof(mode_names) / sizeof(mode_names[0]) == EGRESS_MODE_COUNT, "a name for every mode");

const char *egress_mode_name(enum egress_mode m)
{
	return mode_names[m];
}

void spec_init(struct spec *s)
{
	*s = (struct spec){.cpus = 2,
		.memory_mb = 2048,
		.disk_gb = 16,
		.egress = EGRESS_DENY,
		.mounts.next_id = 1};
}

void spec_release(struct spec *s)
{
	strv_free(s->egress_allow);
	strv_free(s->env);
	spec_mounts_release(&s->mounts);
	*s = (struct spec){0};
}

static int check_range(const char *what, uint32_t value, uint32_t min, uint32_t max,
	const char *unit, struct err *e)
{
	if (value >= min && value <= max)
		return 0;
	(void)err_set(e, ERR_LIMIT, 0, "%s %u%s is not in the range from %u to %u%s", what, value,
		unit, min, max, unit);
	return err_hint(e, "a value from %u to %u", min, max);
}

/* MemTotal of proc_meminfo(5), rounded down; 0 when it cannot be told. */
static uint32_t host_memory_mb(void)
{
	cleanup_buf struct buf b = {0};
	unsigned long kb = 0;

	buf_init(&b, 64u * 1024);
	if (file_read(AT_FDCWD, "/proc/meminfo", &b) < 0 || !buf_cstr(&b))
		return 0;
	const char *line = strstr((const char *)b.data, "MemTotal:");
	if (!line || sscanf(line, "MemTotal: %lu kB", &kb) != 1)
		return 0;
	return kb / 1024 > UINT32_MAX ? UINT32_MAX : (uint32_t)(kb / 1024);
}

static int check_host(const struct spec *s, struct err *e)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	uint32_t memory_mb = host_memory_mb();

	if (cpus > 0 && s->cpus > cpus) {
		(void)err_set(
			e, ERR_LIMIT, 0, "cpus %u is more than this host has (%ld)", s->cpus, cpus);
		return err_hint(e, "--cpus %ld or less", cpus);
	}
	if (memory_mb > 0 && s->memory_mb > memory_mb) {
		(void)err_set(e, ERR_LIMIT, 0, "memory %u MB is more than this host has (%u MB)",
			s->memory_mb, memory_mb);
		return err_hint(e, "--memory below %u", memory_mb);
	}
	return 0;
}

/* What can be stored as JSON and read back. */
static int check_list(const char *what, char *const *v, struct err *e)
{
	size_t items = 0, bytes = 0;

	for (; v && *v; v++) {
		size_t len = strlen(*v);
		items++;
		bytes += len + 1;
		if (!text_is_utf8(*v, len))
			return err_set(e, ERR_INVALID, 0, "%s has text that is not UTF-8", what);
	}
	if (items > LIST_MAX_ITEMS || bytes > LIST_MAX_BYTES)
		return err_set(e, ERR_LIMIT, 0, "%s has %zu entries, %zu bytes: more than %d, %u",
			what, items, bytes, LIST_MAX_ITEMS, LIST_MAX_BYTES);
	return 0;
}

static int check_env(const struct spec *s, struct err *e)
{
	int r = check_list("the environment", s->env, e);

	if (r < 0)
		return r;
	for (char **v = s->env; v && *v; v++)
		if ((*v)[0] == '=' || !strchr(*v, '=')) {
			(void)err_set(e, ERR_INVALID, 0,
				"the environment entry \"%.64s\" has no %s", *v,
				(*v)[0] == '=' ? "name" : "value");
			return err_hint(e, "--env NAME=VALUE");
		}
	return 0;
}

static int check_egress(const struct spec *s, struct err *e)
{
	bool listed = strv_len(s->egress_allow) > 0;
	int r = check_list("the list of allowed hosts", s->egress_allow, e);

	if (r < 0)
		return r;
	if (listed == (s->egress == EGRESS_ALLOW_LIST))
		return 0;
	if (listed)
		return err_set(e, ERR_INVALID, 0,
			"a list of allowed hosts does not go with egress \"%s\"",
			egress_mode_name(s->egress));
	return err_set(e, ERR_INVALID, 0, "the list of allowed hosts is empty");
}

int spec_check(const struct spec *s, struct err *e)
{
	int r = check_range("cpus", s->cpus, 1, CPUS_MAX, "", e);

	if (r < 0 ||
		(r = check_range("memory", s->memory_mb, MEMORY_MIN_MB, MEMORY_MAX_MB, " MB", e)) <
			0 ||
		(r = check_range("disk", s->disk_gb, 1, DISK_MAX_GB, " GB", e)) < 0 ||
		(r = check_host(s, e)) < 0 || (r = check_env(s, e)) < 0)
		return r;
	return check_egress(s, e);
}

char *spec_encode(const struct spec *s)
{
	cleanup_json *o = json_object();
	cleanup_buf struct buf b = {0};

	buf_init(&b, 4 * LIST_MAX_BYTES);
	if (json_object_set_new(o, "cpus", json_integer(s->cpus)) < 0 ||
		json_object_set_new(o, "memory_mb", json_integer(s->memory_mb)) < 0 ||
		json_object_set_new(o, "disk_gb", json_integer(s->disk_gb)) < 0 ||
		json_object_set_new(o, "egress", json_string(egress_mode_name(s->egress))) < 0 ||
		json_object_set_new(o, "egress_allow", json_from_strv(s->egress_allow)) < 0 ||
		json_object_set_new(o, "env", json_from_strv(s->env)) < 0 ||
		json_object_set_new(o, "mounts", spec_mounts_encode(&s->mounts)) < 0 ||
		json_object_set_new(o, "next_mount", json_integer(s->mounts.next_id)) < 0 ||
		json_object_set_new(o, "ports", spec_ports_encode(&s->ports)) < 0)
		return NULL;
	json_put_canonical(&b, o);
	return buf_take_cstr(&b);
}

static int decode_mode(const json_t *o, enum egress_mode *ret, struct err *e)
{
	const char *name;
	int r = json_get_str(o, "egress", 16, &name, e);

	if (r < 0)
		return r;
	for (enum egress_mode m = EGRESS_DENY; m < EGRESS_MODE_COUNT; m++)
		if (strcmp(name, mode_names[m]) == 0) {
			*ret = m;
			return 0;
		}
	return err_set(e, ERR_CORRUPT, 0, "egress \"%.16s\" is not known", name);
}

/* Sandboxes made by an earlier version have neither. */
static int decode_mounts_and_ports(const json_t *o, struct spec *s, struct err *e)
{
	json_t *mounts, *ports;
	uint64_t next;
	int r;

	if ((r = json_get_array_or_null(o, "mounts", SPEC_MOUNTS_MAX, &mounts, e)) < 0 ||
		(r = json_get_array_or_null(o, "ports", SPEC_PORTS_MAX, &ports, e)) < 0 ||
		(r = json_get_u64_or(o, "next_mount", INT32_MAX, 1, &next, e)) < 0 ||
		(r = spec_mounts_decode(mounts, &s->mounts, e)) < 0 ||
		(r = spec_ports_decode(ports, &s->ports, e)) < 0)
		return r;
	if (next > s->mounts.next_id)
		s->mounts.next_id = (uint32_t)next;
	return 0;
}

static int decode_object(const json_t *o, struct spec *s, struct err *e)
{
	uint64_t cpus, memory_mb, disk_gb;
	int r;

	if ((r = json_get_u64(o, "cpus", UINT32_MAX, &cpus, e)) < 0 ||
		(r = json_get_u64(o, "memory_mb", UINT32_MAX, &memory_mb, e)) < 0 ||
		(r = json_get_u64(o, "disk_gb", UINT32_MAX, &disk_gb, e)) < 0 ||
		(r = decode_mode(o, &s->egress, e)) < 0 ||
		(r = json_get_strv_or_empty(o, "egress_allow", LIST_MAX_ITEMS, LIST_MAX_BYTES,
			 &s->egress_allow, e)) < 0 ||
		(r = json_get_strv_or_empty(o, "env", LIST_MAX_ITEMS, LIST_MAX_BYTES, &s->env, e)) <
			0 ||
		(r = decode_mounts_and_ports(o, s, e)) < 0)
		return r;
	s->cpus = (uint32_t)cpus;
	s->memory_mb = (uint32_t)memory_mb;
	s->disk_gb = (uint32_t)disk_gb;
	return 0;
}

int spec_decode(const char *json, struct spec *ret, struct err *e)
{
	cleanup_json *o = NULL;
	cleanup_spec struct spec s = {0};
	int r = json_parse_object(json, strlen(json), "it", &o, e);

	if (r < 0 || (r = decode_object(o, &s, e)) < 0) {
		/* It was stored by us: whatever is wrong with it is damage, not a wrong request. */
		e->kind = ERR_CORRUPT;
		e->errnum = 0;
		return err_wrap(e, "the stored description of the sandbox is damaged");
	}
	*ret = s;
	s = (struct spec){0};
	return 0;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Host names are compared without case, and their order and number say nothing. */
static char **normal_hosts(char *const *hosts)
{
	cleanup_strv char **v = strv_new();

	for (; v && hosts && *hosts; hosts++)
		if (strv_add(&v, *hosts) < 0)
			return NULL;
	size_t n = strv_len(v), kept = 0;
	for (size_t i = 0; i < n; i++)
		for (char *p = v[i]; *p; p++)
			*p = (char)tolower((unsigned char)*p);
	if (n > 1)
		qsort(v, n, sizeof(v[0]), compare);
	for (size_t i = 0; i < n; i++) {
		char *s = v[i];
		v[i] = NULL;
		if (kept > 0 && strcmp(v[kept - 1], s) == 0)
			free(s);
		else
			v[kept++] = s;
	}
	return strv_take(&v);
}

int spec_policy_hash(const struct spec *s, char ret[static 65], struct err *e)
{
	cleanup_strv char **hosts = normal_hosts(s->egress_allow);
	cleanup_json *o = json_object();
	cleanup_buf struct buf b = {0};

	buf_init(&b, 4 * LIST_MAX_BYTES);
	if (!hosts || json_object_set_new(o, "allow", json_from_strv(hosts)) < 0 ||
		json_object_set_new(o, "mode", json_string(egress_mode_name(s->egress))) < 0 ||
		(s->mounts.len > 0 &&
			json_object_set_new(o, "mounts", spec_mounts_encode(&s->mounts)) < 0) ||
		(s->ports.len > 0 &&
			json_object_set_new(o, "ports", spec_ports_encode(&s->ports)) < 0))
		return err_errno(e, ENOMEM, "cannot hash the policy");
	json_put_canonical(&b, o);
	if (buf_failed(&b))
		return err_errno(e, ENOMEM, "cannot hash the policy");
	sha256_hex_of(b.data, b.len, ret);
	return 0;
}
