/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One record of the audit log as a line of text. Canonical form: compact JSON, keys sorted, without
 * "hash". The line is that form with ,"hash":"<64 hex digits>" put before its last brace. So a
 * line's hash is checked over its very bytes, without parsing it: no byte of it can change unseen.
 */
#ifndef KOSA8_STORE_AUDIT_RECORD_H
#define KOSA8_STORE_AUDIT_RECORD_H

#include "audit.h"

#define AUDIT_LINE_MAX (64u * 1024) /* without the newline */
#define AUDIT_JSON_MAX (16u * 1024) /* of detail and of bound */
#define AUDIT_FIRST_PREV "0000000000000000000000000000000000000000000000000000000000000000"

struct audit_fields {
	int64_t wall_ns;
	uint64_t seq;
	const char *phase;
	bool has_of;
	uint64_t of;
	const char *result; /* NULL: none */
	const char *prev;
};
/* Appends the line with its newline to b, and gives its hash. */
int audit_record_put(struct buf *b, const struct audit_event *ev, const struct audit_fields *f,
	char ret_hash[static 65], struct err *e) must_check;

struct audit_scan {
	uint64_t seq;
	char prev[65];
	char hash[65];
};
/* The fields that make the chain, without parsing the line (no newline): false when it does not
 * have the form of a record. */
bool audit_record_scan(const char *line, size_t len, struct audit_scan *ret);
/* Whether the bytes of a scanned line give its hash. The line is changed and changed back. */
bool audit_record_holds(char *line, size_t len, const struct audit_scan *s);

/* A JSON string: bytes that are not UTF-8 become \xNN, cut to about max bytes. */
json_t *audit_text(const char *s, size_t max);
/* A copy that encodes to at most AUDIT_JSON_MAX: long strings end in "...[cut]", long lists and
 * objects lose their end, and an object that was cut says "cut": true. NULL: out of memory. */
json_t *audit_bounded_copy(const json_t *v);

#endif
