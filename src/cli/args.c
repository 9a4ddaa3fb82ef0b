/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two passes. The first finds the command's words: it knows from the whole table which flags take a
 * value, so flags may stand before and between them. The second takes flags and operands apart with
 * the command's own flags.
 */
#include "args.h"

#include "../base/text.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of a command: "sandbox mount add". */
#define WORDS_MAX 3

static const char *const no_list[] = {NULL};

static int out_of_memory(struct err *e)
{
	return err_set(e, ERR_IO, ENOMEM, "out of memory");
}

static bool is_flag(const char *arg)
{
	return arg[0] == '-' && arg[1] != '\0';
}

/* Whether the argument after this flag is its value, by what any command says of it. */
static bool takes_next(const char *arg)
{
	if (arg[1] == '-') {
		const char *name = arg + 2;
		const struct flag *f = command_any_flag(name, strcspn(name, "="), 0);
		return f && f->kind != FLAG_SWITCH && !strchr(name, '=');
	}
	for (const char *p = arg + 1; *p; p++) {
		const struct flag *f = command_any_flag(NULL, 0, *p);
		if (f && f->kind != FLAG_SWITCH)
			return p[1] == '\0';
	}
	return false;
}

static bool is_help(const char *arg)
{
	return strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0;
}

/* The index of the next argument from i on that is a word, or argc. */
static int next_word(int argc, char *const *argv, int i, struct args *a)
{
	for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (!is_flag(argv[i]))
			return i;
		if (is_help(argv[i]))
			a->help = true;
		else if (strcmp(argv[i], "--version") == 0)
			a->version = true;
		else if (takes_next(argv[i]))
			i++;
	}
	return argc;
}

static int unknown_command(const char *first, const char *second, struct err *e)
{
	const struct command *near = command_nearest(first, second);
	char title[COMMAND_TITLE_MAX], typed[160];

	if (!command_group_exists(first))
		second = NULL; /* it may be an operand */
	(void)snprintf(typed, sizeof(typed), "%.60s%s%.60s", first, second ? " " : "",
		second ? second : "");
	if (!near) {
		(void)err_set(e, ERR_USAGE, 0, "there is no command \"%s\"", typed);
		return err_hint(e, "kosa8 --help");
	}
	command_title(near, title);
	return err_set(e, ERR_USAGE, 0, "there is no command \"%s\": did you mean \"kosa8 %s\"?",
		typed, title);
}

/* A command of three words, of which two are known to begin some. */
static int find_third(
	int argc, char *const *argv, struct args *a, int words[WORDS_MAX], struct err *e)
{
	const char *first = argv[words[0]], *second = argv[words[1]];
	int third = next_word(argc, argv, words[1] + 1, a);
	char typed[160];

	if (third < argc) {
		a->command = command_find(first, second, argv[third]);
		words[2] = third;
		if (a->command)
			return 0;
		(void)snprintf(typed, sizeof(typed), "%.60s %.60s", second, argv[third]);
		return unknown_command(first, typed, e);
	}
	if (a->help)
		return 0;
	(void)err_set(e, ERR_USAGE, 0, "\"%s %s\" needs a command", first, second);
	return err_hint(e, "kosa8 %s --help", first);
}

/* Finds the command; its words' indices go to words[] (0: none). */
static int find_command(
	int argc, char *const *argv, struct args *a, int words[WORDS_MAX], struct err *e)
{
	int first = next_word(argc, argv, 1, a);

	if (first == argc) {
		if (a->help || a->version)
			return 0;
		(void)err_set(e, ERR_USAGE, 0, "no command given");
		return err_hint(e, "kosa8 --help");
	}
	words[0] = first;
	int second = next_word(argc, argv, first + 1, a);
	if (!command_group_exists(argv[first]))
		return unknown_command(argv[first], second < argc ? argv[second] : NULL, e);
	a->group = argv[first];
	a->command = command_find(argv[first], NULL, NULL);
	if (second < argc && command_pair_exists(argv[first], argv[second])) {
		words[1] = second;
		return find_third(argc, argv, a, words, e);
	}
	const struct command *sub =
		second < argc ? command_find(argv[first], argv[second], NULL) : NULL;
	if (sub) {
		a->command = sub;
		words[1] = second;
		return 0;
	}
	if (a->command || a->help)
		return 0;
	if (second < argc)
		return unknown_command(argv[first], argv[second], e);
	(void)err_set(e, ERR_USAGE, 0, "\"%s\" needs a command", argv[first]);
	return err_hint(e, "kosa8 %s --help", argv[first]);
}

/* shown: the flag as typed, without its value. */
static int unknown_flag(const struct args *a, const char *shown, size_t len, struct err *e)
{
	size_t dashes = shown[1] == '-' ? 2 : 1;
	const struct flag *near = NULL;
	char title[COMMAND_TITLE_MAX], name[64];

	command_title(a->command, title);
	if (len > 2 && len - dashes < sizeof(name)) {
		memcpy(name, shown + dashes, len - dashes);
		name[len - dashes] = '\0';
		near = command_nearest_flag(a->command, name);
	}
	if (near)
		return err_set(e, ERR_USAGE, 0,
			"%s: there is no flag \"%.*s\": did you mean \"--%s\"?", title,
			(int)(len < 80 ? len : 80), shown, near->name);
	(void)err_set(e, ERR_USAGE, 0, "%s: there is no flag \"%.*s\"", title,
		(int)(len < 80 ? len : 80), shown);
	return err_hint(e, "kosa8 %s --help", title);
}

static int use_flag(struct args *a, const struct flag *f, const char *value, struct err *e)
{
	struct flag_use *u = &a->uses[f - a->command->flags];

	assert(f - a->command->flags < COMMAND_FLAGS_MAX);
	u->on = true;
	u->last = value;
	if (f->kind != FLAG_LIST)
		return 0;
	const char **list = realloc(u->list, (u->list_len + 2) * sizeof(*list));
	if (!list)
		return out_of_memory(e);
	u->list = list;
	u->list[u->list_len++] = value;
	u->list[u->list_len] = NULL;
	return 0;
}

static int use_switch(struct args *a, const struct flag *f, const char *value, struct err *e)
{
	bool off = value && strcmp(value, "false") == 0;

	if (value && !off && strcmp(value, "true") != 0)
		return err_set(e, ERR_USAGE, 0, "--%s takes no value", f->name);
	a->uses[f - a->command->flags].on = !off;
	return 0;
}

static int missing_value(const struct flag *f, struct err *e)
{
	return err_set(e, ERR_USAGE, 0, "--%s needs a value: %s", f->name, f->value);
}

/* Each take function returns how many further arguments it used. */
static int take_long(struct args *a, const char *arg, const char *next, struct err *e)
{
	const char *name = arg + 2;
	size_t len = strcspn(name, "=");
	const char *value = name[len] == '=' ? name + len + 1 : NULL;
	const struct flag *f = command_flag(a->command, name, len, 0);
	int r;

	if (!f)
		return unknown_flag(a, arg, len + 2, e);
	if (f->kind == FLAG_SWITCH)
		return use_switch(a, f, value, e);
	if (value)
		return use_flag(a, f, value, e);
	if (!next)
		return missing_value(f, e);
	r = use_flag(a, f, next, e);
	return r < 0 ? r : 1;
}

static int take_letters(struct args *a, const char *arg, const char *next, struct err *e)
{
	for (const char *p = arg + 1; *p; p++) {
		const struct flag *f = command_flag(a->command, NULL, 0, *p);
		int r;
		if (!f) {
			char shown[3] = {'-', *p, '\0'};
			return p == arg + 1 ? unknown_flag(a, arg, strcspn(arg, "="), e)
					    : unknown_flag(a, shown, 2, e);
		}
		if (f->kind == FLAG_SWITCH) {
			if ((r = use_switch(a, f, NULL, e)) < 0)
				return r;
			continue;
		}
		if (p[1])
			return use_flag(a, f, p[1] == '=' ? p + 2 : p + 1, e);
		if (!next)
			return missing_value(f, e);
		r = use_flag(a, f, next, e);
		return r < 0 ? r : 1;
	}
	return 0;
}

static int check_count(const struct args *a, struct err *e)
{
	const struct command *c = a->command;
	char title[COMMAND_TITLE_MAX];

	command_title(c, title);
	if (a->operands_len < c->operands_min)
		return err_set(e, ERR_USAGE, 0, "%s: not enough operands", title);
	if (a->operands_len > c->operands_max)
		return err_set(e, ERR_USAGE, 0, "%s: \"%.80s\" is one argument too many", title,
			a->operands[c->operands_max]);
	return 0;
}

static int take_all(
	int argc, char *const *argv, struct args *a, const int words[WORDS_MAX], struct err *e)
{
	const size_t cut = a->command->operands_cut;
	bool flags = true;

	for (int i = 1; i < argc; i++) {
		const char *next = i + 1 < argc ? argv[i + 1] : NULL;
		int r = 0;
		if (cut && a->operands_len >= cut)
			flags = false;
		if (i == words[0] || i == words[1] || i == words[2])
			continue;
		if (flags && strcmp(argv[i], "--") == 0)
			flags = false;
		else if (flags && is_help(argv[i]))
			a->help = true;
		else if (flags && is_flag(argv[i]))
			r = argv[i][1] == '-' ? take_long(a, argv[i], next, e)
					      : take_letters(a, argv[i], next, e);
		else
			a->operands[a->operands_len++] = argv[i];
		if (r < 0)
			return r;
		i += r;
	}
	return a->help ? 0 : check_count(a, e);
}

int args_parse(int argc, char *const *argv, struct args *ret, struct err *e)
{
	int words[WORDS_MAX] = {0};

	*ret = (struct args){0};
	ret->operands = calloc((size_t)argc + 1, sizeof(*ret->operands));
	if (!ret->operands)
		return out_of_memory(e);
	int r = find_command(argc, argv, ret, words, e);
	/* Only what stands before the command's own words asks for help: the second pass tells. */
	if (r < 0 || !ret->command)
		return r;
	ret->help = false;
	ret->version = false;
	return take_all(argc, argv, ret, words, e);
}

void args_release(struct args *a)
{
	for (size_t i = 0; i < COMMAND_FLAGS_MAX; i++)
		free(a->uses[i].list);
	free(a->operands);
	*a = (struct args){0};
}

int args_check_built(const struct args *a, struct err *e)
{
	char title[COMMAND_TITLE_MAX];

	command_title(a->command, title);
	if (a->command->later)
		return err_set(e, ERR_UNSUPPORTED, 0, "%s: not yet: %s comes with a later version",
			title, a->command->later);
	for (const struct flag *f = a->command->flags; f->name; f++)
		if (f->later && a->uses[f - a->command->flags].on)
			return err_set(e, ERR_UNSUPPORTED, 0,
				"%s --%s: not yet: %s comes with a later version", title, f->name,
				f->later);
	return 0;
}

static const struct flag_use *find_use(const struct args *a, const char *flag)
{
	const struct flag *f = command_flag(a->command, flag, strlen(flag), 0);

	assert(f);
	return &a->uses[f - a->command->flags];
}

bool args_on(const struct args *a, const char *flag)
{
	return find_use(a, flag)->on;
}

const char *args_value(const struct args *a, const char *flag)
{
	return find_use(a, flag)->last;
}

const char *const *args_list(const struct args *a, const char *flag)
{
	const struct flag_use *u = find_use(a, flag);

	return u->list ? u->list : no_list;
}

int args_u64(const struct args *a, const char *flag, uint64_t min, uint64_t max, uint64_t *ret,
	struct err *e)
{
	const char *value = args_value(a, flag);

	if (!value || text_parse_u64(value, min, max, ret) == 0)
		return 0;
	return err_set(e, ERR_USAGE, 0, "--%s: \"%.60s\" is not a whole number from %llu to %llu",
		flag, value, (unsigned long long)min, (unsigned long long)max);
}

int args_duration_ms(const struct args *a, const char *flag, uint64_t *ret, struct err *e)
{
	const char *value = args_value(a, flag);

	if (!value || text_parse_duration_ms(value, ret) == 0)
		return 0;
	return err_set(e, ERR_USAGE, 0,
		"--%s: \"%.60s\" is not a duration such as 10s, 1m30s, 500ms", flag, value);
}
