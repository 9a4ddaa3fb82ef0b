/* SPDX-License-Identifier: Apache-2.0 */
/* What is made from the command table: help, the man page, the shell completion. */
#ifndef KOSA8_CLI_DOCUMENTS_H
#define KOSA8_CLI_DOCUMENTS_H

#include "command-table.h"

#include <stdio.h>

/* "usage: kosa8 sandbox start NAME"; without a command (NULL) that of the group or of kosa8. */
void document_usage(FILE *to, const struct command *c, const char *group);
void document_help(FILE *to, const struct command *c);
/* The commands of a group, or all of them (NULL). */
void document_overview(FILE *to, const char *group);
/* kosa8.1 in man(7) macros. */
void document_man(FILE *to);
/* For bash. It asks `kosa8 __names sandboxes|images` for names. */
void document_completion(FILE *to);

#endif
