/* SPDX-License-Identifier: Apache-2.0 */
#include "err.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *name;
	int errnum;
} kinds[] = {
	[ERR_NONE] = {"none", EINVAL},
	[ERR_USAGE] = {"usage", EINVAL},
	[ERR_INVALID] = {"invalid", EINVAL},
	[ERR_NOT_FOUND] = {"not_found", ENOENT},
	[ERR_EXISTS] = {"exists", EEXIST},
	[ERR_WRONG_STATE] = {"state", EBUSY},
	[ERR_LIMIT] = {"limit", E2BIG},
	[ERR_NO_SPACE] = {"no_space", ENOSPC},
	[ERR_DENIED] = {"denied", EACCES},
	[ERR_CORRUPT] = {"corrupt", EBADMSG},
	[ERR_INCOMPATIBLE] = {"incompatible", ENOEXEC},
	[ERR_UNAVAILABLE] = {"unavailable", EHOSTUNREACH},
	[ERR_PROTOCOL] = {"protocol", EPROTO},
	[ERR_TIMEOUT] = {"timeout", ETIMEDOUT},
	[ERR_CANCELLED] = {"cancelled", ECANCELED},
	[ERR_UNSUPPORTED] = {"unsupported", EOPNOTSUPP},
	[ERR_CMD_NOT_EXEC] = {"cmd_not_exec", EACCES},
	[ERR_CMD_NOT_FOUND] = {"cmd_not_found", ENOENT},
	[ERR_IO] = {"io", EIO},
	[ERR_INTERNAL] = {"internal", EFAULT},
};
static_assert(sizeof(kinds) / sizeof(kinds[0]) == ERR_KIND_COUNT, "a name for every kind");

int err_code(const struct err *e)
{
	return -(e->errnum > 0 ? e->errnum : kinds[e->kind].errnum);
}

int err_set(struct err *e, enum err_kind kind, int errnum, const char *fmt, ...)
{
	va_list ap;

	e->errnum = errnum;
	e->kind = kind;
	e->hint[0] = '\0';
	va_start(ap, fmt);
	(void)vsnprintf(e->what, sizeof(e->what), fmt, ap);
	va_end(ap);
	return err_code(e);
}

static enum err_kind kind_of_errno(int errnum)
{
	switch (errnum) {
	case ENOSPC:
	case EDQUOT:
		return ERR_NO_SPACE;
	case EACCES:
	case EPERM:
		return ERR_DENIED;
	case ENOENT:
		return ERR_NOT_FOUND;
	case ETIMEDOUT:
		return ERR_TIMEOUT;
	default:
		return ERR_IO;
	}
}

int err_errno(struct err *e, int errnum, const char *fmt, ...)
{
	char text[ERR_WHAT_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return err_set(e, kind_of_errno(errnum), errnum, "%s: %s", text, strerror(errnum));
}

int err_wrap(struct err *e, const char *fmt, ...)
{
	char inner[ERR_WHAT_MAX], outer[ERR_WHAT_MAX];
	va_list ap;

	memcpy(inner, e->what, sizeof(inner));
	va_start(ap, fmt);
	(void)vsnprintf(outer, sizeof(outer), fmt, ap);
	va_end(ap);
	(void)snprintf(e->what, sizeof(e->what), "%.180s: %.200s", outer, inner);
	return err_code(e);
}

int err_hint(struct err *e, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(e->hint, sizeof(e->hint), fmt, ap);
	va_end(ap);
	return err_code(e);
}

const char *err_kind_name(enum err_kind kind)
{
	return kinds[kind].name;
}

enum err_kind err_kind_from_name(const char *name)
{
	for (enum err_kind k = ERR_NONE; k < ERR_KIND_COUNT; k++)
		if (strcmp(kinds[k].name, name) == 0)
			return k;
	return ERR_INTERNAL;
}
