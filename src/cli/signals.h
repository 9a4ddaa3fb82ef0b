/* SPDX-License-Identifier: Apache-2.0 */
/* Signals as events of a poll loop. */
#ifndef KOSA8_CLI_SIGNALS_H
#define KOSA8_CLI_SIGNALS_H

#include "../base/err.h"

#include <stddef.h>

/* Blocks them and ignores SIGPIPE; the descriptor to poll (signalfd(2), non-blocking). Those that
 * are ignored stay so (nohup, background jobs). */
int signals_watch(const int *signals, size_t len, struct err *e) must_check;
/* In a forked child that is to be ended by them. */
void signals_unblock(const int *signals, size_t len);

#endif
