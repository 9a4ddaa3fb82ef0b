/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one error object. It lives on the caller's stack and is the last parameter of every fallible
 * function above base/. It is set once, where the fault happens; callers on the way up may add
 * context with err_wrap(). On success it is untouched.
 *
 * The kind is stable: it chooses the exit code of the command line and travels in the client
 * protocol by name. `what` is the text after "kosa8: "; `hint` is what the user can do about it.
 */
#ifndef KOSA8_BASE_ERR_H
#define KOSA8_BASE_ERR_H

#include <stdarg.h>

/* Only clang lets an explicit (void) say that a result is ignored on purpose; CI has both. */
#ifdef __clang__
#define must_check __attribute__((warn_unused_result))
#else
#define must_check
#endif
#define format_printf(fmt, args) __attribute__((format(printf, fmt, args)))

enum err_kind {
	ERR_NONE,
	ERR_USAGE,	   /* the command line is wrong: exit 2 */
	ERR_INVALID,	   /* a value is out of its documented range */
	ERR_NOT_FOUND,	   /* no such sandbox, image, checkpoint, ... */
	ERR_EXISTS,	   /* the name or label is taken */
	ERR_WRONG_STATE,   /* the sandbox is stopped, busy, ... */
	ERR_LIMIT,	   /* a named limit would be exceeded */
	ERR_NO_SPACE,	   /* the host's disk is full */
	ERR_DENIED,	   /* permission, 401/403, policy */
	ERR_CORRUPT,	   /* stored data fails its check */
	ERR_INCOMPATIBLE,  /* made by another QEMU, machine, accelerator, architecture */
	ERR_UNAVAILABLE,   /* registry down, 429, QEMU missing, supervisor gone */
	ERR_PROTOCOL,	   /* the peer sent what it may not send */
	ERR_TIMEOUT,	   /* a deadline passed */
	ERR_CANCELLED,	   /* the stream or operation was ended: rewind, stop, client gone */
	ERR_UNSUPPORTED,   /* accepted by the parser, not built yet */
	ERR_CMD_NOT_EXEC,  /* run: found but cannot be executed: exit 126 */
	ERR_CMD_NOT_FOUND, /* run: not found: exit 127 */
	ERR_IO,		   /* any other system error */
	ERR_INTERNAL,	   /* a bug of ours */
	ERR_KIND_COUNT
};

#define ERR_WHAT_MAX 384
#define ERR_HINT_MAX 192

struct err {
	int errnum; /* positive errno, 0 when there is none behind it */
	enum err_kind kind;
	char what[ERR_WHAT_MAX];
	char hint[ERR_HINT_MAX];
};

/* Sets *e and returns a negative errno: -errnum, or the kind's own when errnum is 0. */
int err_set(struct err *e, enum err_kind kind, int errnum, const char *fmt, ...)
	format_printf(4, 5);

/* Like err_set() with ": <strerror(errnum)>" appended; the kind follows from errnum
 * (ENOSPC/EDQUOT: ERR_NO_SPACE, EACCES/EPERM: ERR_DENIED, ENOENT: ERR_NOT_FOUND, else ERR_IO). */
int err_errno(struct err *e, int errnum, const char *fmt, ...) format_printf(3, 4);

/* Puts "<text>: " in front of what; keeps kind and errnum. Returns the negative errno again. */
int err_wrap(struct err *e, const char *fmt, ...) format_printf(2, 3);

/* Sets the hint (no leading "try:"). Returns the negative errno of e. */
int err_hint(struct err *e, const char *fmt, ...) format_printf(2, 3);

/* The negative errno that functions return for this error; never 0 or positive. */
int err_code(const struct err *e);

/* Stable name ("not_found") and back; an unknown name gives ERR_INTERNAL. */
const char *err_kind_name(enum err_kind kind);
enum err_kind err_kind_from_name(const char *name);

#endif
