/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"

#include "engine.h"
#include "output.h"

#include "../proto/agent.h"

int cmd_version(const struct args *a, struct err *e)
{
	cleanup_json *engine = NULL;
	struct err silent;
	const char *qemu = NULL;

	/* Without an engine there is still a version; doctor says what is wrong with it. */
	if (engine_ask(&engine, &silent) >= 0)
		qemu = json_string_value(json_object_get(engine, "qemu_version"));
	if (qemu && !*qemu)
		qemu = NULL;
	if (args_on(a, "json"))
		return output_json(json_pack("{s:s, s:s?, s:{s:i}}", "kosa8", KOSA8_VERSION, "qemu",
					   qemu, "protocol", "agent", AGENT_PROTOCOL_VERSION),
			e);
	output_line("kosa8 %s", KOSA8_VERSION);
	if (qemu)
		output_line("QEMU %s", qemu);
	output_line("agent protocol %d", AGENT_PROTOCOL_VERSION);
	return 0;
}
