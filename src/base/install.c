/* SPDX-License-Identifier: Apache-2.0 */
#include "install.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int own_dir(char *ret, size_t size, struct err *e)
{
	ssize_t n = readlink("/proc/self/exe", ret, size - 1);

	if (n < 0)
		return err_errno(e, errno, "cannot find kosa8's own program file");
	ret[n] = '\0';
	char *slash = strrchr(ret, '/');
	if (!slash)
		return err_set(e, ERR_INTERNAL, 0, "kosa8's program file has no folder");
	*slash = '\0';
	return 0;
}

static int format(char *ret, size_t size, struct err *e, const char *dir, const char *rest)
{
	int n = snprintf(ret, size, "%s/%s", dir, rest);

	if (n < 0 || (size_t)n >= size)
		return err_set(e, ERR_LIMIT, ENAMETOOLONG, "the path %s/%s is too long", dir, rest);
	return 0;
}

int install_program(const char *name, char *ret, size_t size, struct err *e)
{
	const char *override = getenv("KOSA8_LIBEXEC");
	char dir[PATH_MAX], below[64];
	int r;

	if (override && *override)
		return format(ret, size, e, override, name);
	if ((r = own_dir(dir, sizeof(dir), e)) < 0 || (r = format(ret, size, e, dir, name)) < 0)
		return r;
	if (access(ret, X_OK) == 0)
		return 0;
	(void)snprintf(below, sizeof(below), "../libexec/kosa8/%s", name);
	if ((r = format(ret, size, e, dir, below)) < 0)
		return r;
	if (access(ret, X_OK) == 0)
		return 0;
	r = err_set(
		e, ERR_UNAVAILABLE, 0, "cannot find %s beside kosa8 or in ../libexec/kosa8", name);
	(void)err_hint(e, "make install");
	return r;
}

int install_assets_dir(char *ret, size_t size, struct err *e)
{
	/* Of a build folder; of bin/; of libexec/kosa8/, where the supervisor is. */
	static const char *const places[] = {"assets", "../lib/kosa8", "../../lib/kosa8"};
	const char *override = getenv("KOSA8_ASSETS");
	char dir[PATH_MAX];
	int r;

	if (override && *override)
		return format(ret, size, e, override, "");
	if ((r = own_dir(dir, sizeof(dir), e)) < 0)
		return r;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if ((r = format(ret, size, e, dir, places[i])) < 0)
			return r;
		if (access(ret, F_OK) == 0)
			return 0;
	}
	return 0;
}
