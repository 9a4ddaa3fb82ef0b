/* SPDX-License-Identifier: Apache-2.0 */
#include "space.h"

#include "file.h"
#include "text.h"

#include <errno.h>
#include <stdio.h>

int space_error(int fd, const char *what, uint64_t needed_bytes, struct err *e)
{
	char free_text[TEXT_SIZE_MAX] = "an unknown amount";
	char needed[TEXT_SIZE_MAX + 32] = "did not fit", size[TEXT_SIZE_MAX];
	uint64_t available;

	if (file_free_bytes(fd, &available) == 0)
		text_size(available, free_text);
	if (needed_bytes > 0) {
		text_size(needed_bytes, size);
		(void)snprintf(needed, sizeof(needed), "needs about %s", size);
	}
	(void)err_set(e, ERR_NO_SPACE, ENOSPC, "no space on the host: %s %s, and %s is free", what,
		needed, free_text);
	return err_hint(e, "free some space, or set KOSA8_HOME to a folder on a larger disk");
}

int space_check(int fd, const char *what, uint64_t needed_bytes, struct err *e)
{
	uint64_t available;
	int r = file_free_bytes(fd, &available);

	if (r < 0)
		return err_errno(e, -r, "cannot ask for the free space");
	return available < needed_bytes ? space_error(fd, what, needed_bytes, e) : 0;
}
