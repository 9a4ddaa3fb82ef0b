/* SPDX-License-Identifier: Apache-2.0 */
/* Asking a person on the terminal. Prompts go to stderr, answers come from stdin. */
#ifndef KOSA8_CLI_PASSWORD_H
#define KOSA8_CLI_PASSWORD_H

#include "../base/buf.h"
#include "../base/err.h"

#include <stdbool.h>

#define PASSWORD_MAX 16383

/* One line without its end, appended to b. echo off: what is typed is not shown. The terminal is as
 * before on return, and before a signal (^C, a hangup, SIGTERM, ^Z) has its effect. ERR_CANCELLED
 * at the end of the input, if nothing came before it. */
int password_ask(const char *prompt, bool echo, struct buf *b, struct err *e) must_check;

#endif
