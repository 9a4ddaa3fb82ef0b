/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line, taken apart after the command table. Flags may stand anywhere: --flag=value,
 * --flag value, -f value, -fvalue, clusters of switches (-it); `--` ends them, and so does the last
 * operand before a command's own words (command-table.h, operands_cut). All strings are borrowed
 * from argv.
 */
#ifndef KOSA8_CLI_ARGS_H
#define KOSA8_CLI_ARGS_H

#include "command-table.h"

#include <stdint.h>

struct flag_use {
	bool on;	   /* a switch that is on, or a value that was given */
	const char *last;  /* the value given last */
	const char **list; /* all values, NULL-terminated */
	size_t list_len;
};

struct args {
	const struct command *command; /* set as soon as it is known, even when parsing fails */
	const char *group;	       /* the first word when it is a group, likewise */
	bool help;		       /* --help: of the command, the group or kosa8 */
	bool version;		       /* kosa8 --version */
	struct flag_use uses[COMMAND_FLAGS_MAX];
	const char **operands; /* NULL-terminated */
	size_t operands_len;
};

/* ERR_USAGE for what the table does not know. */
int args_parse(int argc, char *const *argv, struct args *ret, struct err *e) must_check;
void args_release(struct args *a);
#define cleanup_args __attribute__((cleanup(args_release)))

/* ERR_UNSUPPORTED when the command or a flag that is used is not built yet. */
int args_check_built(const struct args *a, struct err *e) must_check;

/* The flag must be in the command's table. */
bool args_on(const struct args *a, const char *flag);
const char *args_value(const struct args *a, const char *flag); /* NULL: not given */
/* Never NULL. */
const char *const *args_list(const struct args *a, const char *flag);
/* The value as a number in [min, max] or a duration; *ret is untouched when it was not given. */
int args_u64(const struct args *a, const char *flag, uint64_t min, uint64_t max, uint64_t *ret,
	struct err *e) must_check;
int args_duration_ms(
	const struct args *a, const char *flag, uint64_t *ret, struct err *e) must_check;

#endif
