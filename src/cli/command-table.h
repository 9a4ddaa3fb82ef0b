/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one table of commands. The parser, --help, the man page and the completion all read it, so
 * they cannot drift apart. A flag's name and letter mean the same kind of flag in every command:
 * the parser can tell a flag's value from a command word wherever the flag stands.
 */
#ifndef KOSA8_CLI_COMMAND_TABLE_H
#define KOSA8_CLI_COMMAND_TABLE_H

#include "../base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct args;

#define COMMAND_FLAGS_MAX 20
#define OPERANDS_ANY 1000000 /* operands_max of a command that takes any number */

enum flag_kind {
	FLAG_SWITCH, /* on or off */
	FLAG_VALUE,  /* the last one counts */
	FLAG_LIST,   /* repeatable */
};

/* What the completion offers for a value or operand. */
enum complete { COMPLETE_NONE, COMPLETE_SANDBOX, COMPLETE_IMAGE, COMPLETE_FILE };

struct flag {
	const char *name; /* long, without the dashes; NULL ends the list */
	char letter;	  /* 0: none */
	enum flag_kind kind;
	const char *value; /* what help calls the value; NULL for a switch */
	const char *help;
	const char *later; /* why using it is refused so far; NULL: built */
};

struct command {
	const char *group; /* "sandbox", or NULL */
	const char *name;  /* "create", "mount add"; NULL: the group's word alone is the command */
	const char *args;  /* of the usage line */
	size_t operands_min;
	size_t operands_max;
	size_t operands_cut;	   /* after so many operands nothing is a flag any more; 0: never */
	enum complete complete[2]; /* for the first two operands */
	const struct flag *flags;  /* ended by a NULL name; --help is implied */
	const char *summary;	   /* one line */
	const char *text;	   /* more, for help and man page; NULL: none */
	const char *later;	   /* why it is refused so far; NULL: built */
	int failure_exit;	   /* 1, or 125 where the guest's exit codes are passed on */
	/* Returns the exit status, or a negative errno with *e set. NULL when later is set. */
	int (*run)(const struct args *a, struct err *e);
};

extern const struct command command_table[]; /* ended by an entry without summary */

/* "sandbox create" */
#define COMMAND_TITLE_MAX 40
void command_title(const struct command *c, char ret[static COMMAND_TITLE_MAX]);
/* Whether any command is in this group, or is this word. */
bool command_group_exists(const char *word);
/* By its words; second NULL: the command that is first alone; third NULL: one of two words. NULL:
 * none. */
const struct command *command_find(const char *first, const char *second, const char *third);
/* Whether these two words begin commands of three. */
bool command_pair_exists(const char *first, const char *second);
/* The nearest command of what was typed, or NULL. */
const struct command *command_nearest(const char *first, const char *second);
/* A command's flag by name or letter (the name NULL or the letter 0); NULL: none. */
const struct flag *command_flag(const struct command *c, const char *name, size_t len, char letter);
/* The same over all commands. */
const struct flag *command_any_flag(const char *name, size_t len, char letter);
/* The nearest flag of a command, for "did you mean", or NULL. */
const struct flag *command_nearest_flag(const struct command *c, const char *name);

#endif
