/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user's terminal while a program in the guest has it. There is one a process, and it has to be
 * given back on every way out: by terminal_restore(), by exit(), and by the signals that end a
 * process (those that can be waited for are blocked and read by stream.c; all others are caught
 * here). SIGKILL alone leaves it as it is.
 *
 *   WAITING  the program has not started: nothing is echoed, ^C and ^Z are still this process's
 *   RAW      all that is typed is the program's
 *   ENDING   the program has ended, its output is still written: as RAW, but ^C is ours again
 */
#ifndef KOSA8_CLI_TERMINAL_H
#define KOSA8_CLI_TERMINAL_H

#include "../proto/agent-session.h"

#include <stdbool.h>

enum terminal_mode { TERMINAL_WAITING, TERMINAL_RAW, TERMINAL_ENDING };

/* Whether it was taken; false, and nothing is done, when fd is no terminal or this process is in
 * its background. May be called again: for another mode, or after terminal_restore(). */
bool terminal_take(int fd, enum terminal_mode mode);
/* Safe in a signal handler; does nothing when it is not taken. Never waits for the terminal. */
void terminal_restore(void);
/* Of the first standard descriptor that is a terminal; 24 by 80 when there is none or it has no
 * size. */
struct agent_size terminal_size(void);
/* Restores the terminal, stops this process as ^Z does, and returns when it goes on. */
void terminal_stop(void);

/* Sets TERM and COLORTERM of this process in a vector of K=V, unless it has them. 0 or -ENOMEM. */
int terminal_env(char ***env) __attribute__((warn_unused_result));

#endif
