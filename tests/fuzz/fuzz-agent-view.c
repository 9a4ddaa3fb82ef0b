/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent says of containers and failures, on its way into JSON. The first byte chooses. */
#include "proto/client.h"
#include "supervisor/agent-view.h"

#include "base/cursor.h"
#include "base/strv.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void container(struct cursor *c)
{
	struct agent_container m;
	cleanup_json *o = NULL;

	if (agent_container_decode(c, &m) < 0 || agent_container_json(&m, &o) < 0)
		return;
	/* What was accepted can be sent. */
	assert(json_is_string(json_object_get(o, "command")));
	assert(json_is_string(json_object_get(o, "image_name")));
	cleanup_str char *text = json_dumps(o, 0);
	assert(text);
}

static void failure(struct cursor *c, bool names_container)
{
	struct agent_reply m;
	struct err e;

	if (agent_reply_decode(c, &m) < 0)
		return;
	int r = agent_error(&m, names_container, "box", &e);
	assert(r < 0);
	cleanup_json *o = client_error_encode(&e);
	assert(o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cursor c;

	if (size < 1)
		return 0;
	cursor_init(&c, data + 1, size - 1);
	if (data[0] % 3 == 0)
		container(&c);
	else
		failure(&c, data[0] % 3 == 1);
	return 0;
}
