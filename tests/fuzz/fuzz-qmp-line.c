/* SPDX-License-Identifier: Apache-2.0 */
/* What QEMU sends on QMP after the greeting: events, the reply to one command, anything. */
#include "vm/qmp.h"

#include "base/fd.h"
#include "base/sock.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define READY "{\"QMP\": {}}\n{\"return\": {}, \"id\": 1}\n"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct qmp *q = NULL;
	struct err e;
	json_t *event, *result = NULL;
	int pair[2];

	if (size > 100000) /* what the socket holds */
		return 0;
	if (sock_pair(pair) < 0 || fd_write_all(pair[1], READY, sizeof(READY) - 1) < 0)
		abort();
	/* A message at the greeting's end may be unexpected already: then there is no client. */
	if (fd_write_all(pair[1], data, size) < 0 || shutdown(pair[1], SHUT_WR) < 0)
		abort();
	if (qmp_open(pair[0], 1000, &q, &e) == 0) {
		if (qmp_call(q, "anything", NULL, QMP_FD_NONE, &result, &e) < 0)
			assert(e.kind != ERR_NONE && e.what[0] && !result);
		(void)!qmp_pump(q, &e);
		while ((event = qmp_event(q))) {
			assert(qmp_event_name(event));
			json_decref(event);
		}
	}
	json_decref(result);
	qmp_free(q);
	(void)fd_close(pair[1]);
	return 0;
}
