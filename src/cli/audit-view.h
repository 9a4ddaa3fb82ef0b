/* SPDX-License-Identifier: Apache-2.0 */
/* Records of the audit log joined to actions: one entry for a begin and its end. */
#ifndef KOSA8_CLI_AUDIT_VIEW_H
#define KOSA8_CLI_AUDIT_VIEW_H

#include "../base/json.h"

#include <stdbool.h>
#include <stdint.h>

struct audit_entry {
	uint64_t seq;
	json_t *begin;
	json_t *end; /* NULL: none yet */
};

struct audit_view {
	struct audit_entry *entries;
	size_t len;
	const char *sandbox; /* only this one's; NULL: all. Borrowed */
	int64_t since_ns;
	uint64_t last_seq; /* of the records seen, shown or not */
};

void audit_view_release(struct audit_view *v);
#define cleanup_audit_view __attribute__((cleanup(audit_view_release)))
/* Takes a record in: the index of the entry that it completed, -1 when it completed none (a begin,
 * or not to be shown). -ENOMEM is -2. */
ssize_t audit_view_add(struct audit_view *v, const json_t *record);
/* Forgets an entry. */
void audit_view_drop(struct audit_view *v, size_t index);

#define AUDIT_CELLS 7
#define AUDIT_CELL_SIZE 128
/* SEQ TIME ACTOR ACTION SANDBOX RESULT DETAIL, not escaped. */
void audit_entry_cells(const struct audit_entry *x, char ret[AUDIT_CELLS][AUDIT_CELL_SIZE]);
/* One object: the begin's members without chain and phase, with result and the end's members under
 * "end". NULL: out of memory. */
json_t *audit_entry_json(const struct audit_entry *x);

#endif
