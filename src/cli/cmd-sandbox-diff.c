/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"

#include "mount-diff.h"
#include "output.h"

int cmd_sandbox_diff(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	cleanup_sandbox struct sandbox s = {.dirfd = -1};
	cleanup_mount_diff struct mount_diff d = {.root = -1, .file = -1};
	struct copy_io io = COPY_IO_NONE;
	struct copy_progress progress;
	int r;

	copy_progress_init(&progress, args_on(a, "json"));
	io.progress = &progress;
	if ((r = context_open(&c, e)) < 0 || (r = sandbox_open(&c, a->operands[0], &s, e)) < 0)
		return r;
	r = mount_diff_get(&c, &s, a->operands[1], &d, &io, e);
	if (r < 0 && io.signal) {
		output_error(e);
		return 128 + io.signal;
	}
	if (r < 0)
		return r;
	if (args_on(a, "json"))
		return output_json(mount_diff_json(&d), e);
	(void)mount_diff_print(&d, false);
	return 0;
}
