/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/args.h"

#include "tap.h"

#define ARGV_MAX 16

/* Parses the words; what the caller does not want to know of the error is dropped. */
static int parse(struct args *a, struct err *e, char *const *words)
{
	char *argv[ARGV_MAX + 1] = {(char[]){"kosa8"}};
	int argc = 1;

	while (*words && argc < ARGV_MAX)
		argv[argc++] = *words++;
	args_release(a);
	return args_parse(argc, argv, a, e);
}

#define PARSE(...) parse(&a, &e, (char *[]){__VA_ARGS__, NULL})

static void test_words(void)
{
	struct args a = {0};
	struct err e;

	OK(PARSE("sandbox", "create", "x") >= 0 &&
			a.command == command_find("sandbox", "create", NULL),
		"two words");
	OK(PARSE("checkpoint", "x") >= 0 && a.command == command_find("checkpoint", NULL, NULL),
		"a group that is a command");
	OK(PARSE("checkpoint", "ls", "x") >= 0 &&
			a.command == command_find("checkpoint", "ls", NULL),
		"and has others");
	OK(PARSE("checkpoint", "--label", "ls", "x") >= 0 && a.command->name == NULL &&
			strcmp(args_value(&a, "label"), "ls") == 0,
		"a flag's value is no command word");
	OK(PARSE("sandbox", "--memory", "512", "create", "x") >= 0 &&
			strcmp(args_value(&a, "memory"), "512") == 0,
		"a flag between the words");
	OK(PARSE("--json", "sandbox", "ls") >= 0 && args_on(&a, "json"), "a flag before them");
	OK(PARSE("checkpoint", "--", "ls") >= 0 && a.command->name == NULL &&
			strcmp(a.operands[0], "ls") == 0,
		"after -- there are only operands");
	OK(PARSE("sandbox", "inspect") < 0 && e.kind == ERR_USAGE && a.command,
		"an operand is missing; the command is known for its usage line");
	OK(PARSE("sandbox", "inspect", "x", "y") < 0 && e.kind == ERR_USAGE, "one too many");
	OK(PARSE("sandbox") < 0 && e.kind == ERR_USAGE && !a.command && a.group, "a group alone");
	OK(PARSE("sandbox", "--help") >= 0 && a.help && !a.command, "help of a group");
	OK(PARSE("--version") >= 0 && a.version && !a.command, "the version");
	args_release(&a);
}

static void test_flags(void)
{
	struct args a = {0};
	struct err e;
	uint64_t v = 7;

	OK(PARSE("sandbox", "run", "-it", "-e", "A=1", "--env=B=2", "-eC=3", "b", "i") >= 0,
		"flags of a run");
	OK(args_on(&a, "interactive") && args_on(&a, "tty"), "a cluster of letters");
	OK(strcmp(args_list(&a, "env")[0], "A=1") == 0 &&
			strcmp(args_list(&a, "env")[1], "B=2") == 0 &&
			strcmp(args_list(&a, "env")[2], "C=3") == 0 && !args_list(&a, "env")[3],
		"a list in its order");
	OK(!args_value(&a, "user") && !*args_list(&a, "entrypoint"), "what was not given");
	OK(PARSE("sandbox", "run", "-ie", "A=1", "b", "i") >= 0 && args_on(&a, "interactive") &&
			strcmp(args_value(&a, "env"), "A=1") == 0,
		"a value at the end of a cluster");
	OK(PARSE("sandbox", "run", "b", "--timeout", "3s", "i", "-x", "--", "--help") >= 0 &&
			a.operands_len == 5 && !a.help &&
			strcmp(args_value(&a, "timeout"), "3s") == 0 &&
			strcmp(a.operands[3], "--") == 0,
		"flags up to IMAGE; what follows is the command's");
	OK(PARSE("sandbox", "create", "--memory", "1", "x", "--memory=2") >= 0 &&
			strcmp(args_value(&a, "memory"), "2") == 0,
		"the last value counts");
	OK(PARSE("sandbox", "ls", "--json=false") >= 0 && !args_on(&a, "json"), "a switch off");
	OK(PARSE("sandbox", "ls", "--json=2") < 0, "a switch with a value");
	OK(PARSE("sandbox", "create", "x", "--memory") < 0, "a value is missing");
	OK(PARSE("sandbox", "create", "x", "-z") < 0 && strstr(e.what, "\"-z\""), "a letter");
	OK(PARSE("sandbox", "create", "x", "-label") < 0 && strstr(e.what, "-label"),
		"a long flag with one dash");
	OK(PARSE("checkpoint", "x", "--lable", "y") < 0 && strstr(e.what, "--label"),
		"did you mean");
	OK(PARSE("image", "load", "-") >= 0 && strcmp(a.operands[0], "-") == 0,
		"a dash is an operand");
	OK(PARSE("sandbox", "create", "x", "--cpus", "3") >= 0, "a number");
	OK(args_u64(&a, "memory", 1, 9, &v, &e) >= 0 && v == 7, "not given: as it was");
	OK(args_u64(&a, "cpus", 1, 9, &v, &e) >= 0 && v == 3, "its value");
	OK(args_u64(&a, "cpus", 4, 9, &v, &e) < 0 && e.kind == ERR_USAGE, "out of range");
	OK(PARSE("sandbox", "run", "--timeout", "x", "b", "i") >= 0 &&
			args_duration_ms(&a, "timeout", &v, &e) < 0 && e.kind == ERR_USAGE,
		"no duration");
	args_release(&a);
}

static void test_later(void)
{
	struct args a = {0};
	struct err e;

	OK(PARSE("sandbox", "run", "b", "i") >= 0 && args_check_built(&a, &e) >= 0, "built");
	OK(PARSE("sandbox", "create", "--ttl", "1h", "b") >= 0 && args_check_built(&a, &e) < 0 &&
			e.kind == ERR_UNSUPPORTED && strstr(e.what, "not yet"),
		"a flag that comes later");
	OK(PARSE("fork", "x") >= 0 && args_check_built(&a, &e) < 0 && e.kind == ERR_UNSUPPORTED,
		"a command that comes later");
	args_release(&a);
}

/* What the parser and the documents rely on. */
static void test_table(void)
{
	bool kinds = true, runs = true, lengths = true, lines = true;

	for (const struct command *c = command_table; c->summary; c++) {
		size_t n = 0;
		char title[COMMAND_TITLE_MAX];
		command_title(c, title);
		runs = runs && !c->run == !!c->later;
		lines = lines && strlen(title) < 20 && !strchr(c->summary, '\n');
		for (const struct flag *f = c->flags; f->name; f++, n++) {
			const struct flag *same = command_any_flag(f->name, strlen(f->name), 0);
			const struct flag *letter = command_any_flag(NULL, 0, f->letter);
			kinds = kinds && same->kind == f->kind;
			kinds = kinds && (!f->letter || (letter->kind == FLAG_SWITCH) ==
								(f->kind == FLAG_SWITCH));
			kinds = kinds && !f->value == (f->kind == FLAG_SWITCH);
		}
		lengths = lengths && n < COMMAND_FLAGS_MAX;
	}
	OK(kinds, "a flag means the same kind in every command");
	OK(runs, "a command is built or comes later");
	OK(lengths, "no command has too many flags");
	OK(lines, "titles and summaries fit the overview");
	EQ_STR(command_nearest("run", NULL)->name, "run", "docker's habit");
	EQ_STR(command_nearest("snadbox", "ls")->name, "ls", "a slip in the group");
	OK(!command_nearest("zzzzzzzz", NULL), "nothing is near");
}

int main(void)
{
	test_words();
	test_flags();
	test_later();
	test_table();
	return tap_done();
}
