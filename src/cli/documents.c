/* SPDX-License-Identifier: Apache-2.0 */
#include "documents.h"

#include <string.h>

static bool has_flags(const struct command *c)
{
	return c->flags[0].name;
}

void document_usage(FILE *to, const struct command *c, const char *group)
{
	char title[COMMAND_TITLE_MAX];

	if (!c) {
		(void)fprintf(to, "usage: kosa8 %s%sCOMMAND [flags] ...\n", group ? group : "",
			group ? " " : "");
		return;
	}
	command_title(c, title);
	(void)fprintf(to, "usage: kosa8 %s%s%s%s\n", title, has_flags(c) ? " [flags]" : "",
		*c->args ? " " : "", c->args);
}

/* The flag's part of its line; returns its width. */
static int flag_left(const struct flag *f, char *ret, size_t size)
{
	char letter[8] = "";

	if (f->letter)
		(void)snprintf(letter, sizeof(letter), "-%c, ", f->letter);
	return snprintf(ret, size, "  %4s--%s%s%s", letter, f->name, f->value ? " " : "",
		f->value ? f->value : "");
}

static void help_flags(FILE *to, const struct command *c)
{
	char left[80];
	int width = 0;

	for (const struct flag *f = c->flags; f->name; f++) {
		int n = flag_left(f, left, sizeof(left));
		if (n > width)
			width = n;
	}
	for (const struct flag *f = c->flags; f->name; f++) {
		(void)flag_left(f, left, sizeof(left));
		(void)fprintf(to, "%-*s  %s%s%s\n", width, left, f->help,
			f->kind == FLAG_LIST ? " (repeatable)" : "", f->later ? " (not yet)" : "");
	}
}

/* Words of text, filled to 80 columns. */
static void fill(FILE *to, const char *text)
{
	size_t column = 0;

	while (*text) {
		size_t len = strcspn(text, " ");
		if (column > 0 && column + 1 + len > 80) {
			(void)fputc('\n', to);
			column = 0;
		}
		(void)fprintf(to, "%s%.*s", column > 0 ? " " : "", (int)len, text);
		column += len + (column > 0);
		text += len + (text[len] == ' ');
	}
	(void)fputc('\n', to);
}

static void sentence(FILE *to, const char *summary)
{
	(void)fprintf(to, "%c%s.\n",
		summary[0] >= 'a' && summary[0] <= 'z' ? summary[0] - 32 : summary[0], summary + 1);
}

void document_help(FILE *to, const struct command *c)
{
	document_usage(to, c, NULL);
	(void)fputc('\n', to);
	sentence(to, c->summary);
	if (c->later)
		(void)fputs("Not yet: it comes with a later version.\n", to);
	if (c->text)
		fill(to, c->text);
	if (!has_flags(c))
		return;
	(void)fputs("\nflags:\n", to);
	help_flags(to, c);
}

static bool has_several(const char *group)
{
	size_t n = 0;

	for (const struct command *c = command_table; c->summary; c++)
		n += strcmp(c->group, group) == 0;
	return n > 1;
}

void document_overview(FILE *to, const char *group)
{
	const char *last = NULL;

	document_usage(to, NULL, group);
	(void)fputs(
		group ? "\n"
		      : "\nRuns an AI agent's code in a microVM of its own on this machine.\n\n",
		to);
	for (const struct command *c = command_table; c->summary; c++) {
		char title[COMMAND_TITLE_MAX];
		if (group && strcmp(c->group, group) != 0)
			continue;
		if (!group && last && strcmp(c->group, last) != 0 &&
			(has_several(c->group) || has_several(last)))
			(void)fputc('\n', to);
		last = c->group;
		command_title(c, title);
		(void)fprintf(to, "  %-20s%s%s\n", title, c->summary, c->later ? " (not yet)" : "");
	}
	(void)fputs("\nkosa8 COMMAND --help says more about one.\n", to);
}

/* Text for troff: backslashes, and a dot or quote that would begin a request. */
static void roff(FILE *to, const char *text)
{
	if (*text == '.' || *text == '\'')
		(void)fputs("\\&", to);
	for (; *text; text++) {
		if (*text == '\\')
			(void)fputs("\\e", to);
		else if (*text == '-')
			(void)fputs("\\-", to);
		else if (*text == '`')
			(void)fputs("\\(ga", to);
		else if (*text == '\'')
			(void)fputs("\\(aq", to);
		else
			(void)fputc(*text, to);
	}
}

static void man_flag(FILE *to, const struct flag *f)
{
	char letter[8] = "";

	if (f->letter)
		(void)snprintf(letter, sizeof(letter), "-%c, ", f->letter);
	(void)fputs(".TP\n\\fB", to);
	roff(to, letter);
	roff(to, "--");
	roff(to, f->name);
	(void)fputs("\\fR", to);
	if (f->value) {
		(void)fputs(" \\fI", to);
		roff(to, f->value);
		(void)fputs("\\fR", to);
	}
	(void)fputc('\n', to);
	roff(to, f->help);
	if (f->kind == FLAG_LIST)
		(void)fputs(" (repeatable)", to);
	(void)fputs(f->later ? " (not yet)\n" : "\n", to);
}

static void man_command(FILE *to, const struct command *c)
{
	char title[COMMAND_TITLE_MAX];

	command_title(c, title);
	(void)fputs(".SS \"kosa8 ", to);
	roff(to, title);
	(void)fputs(has_flags(c) ? " [flags]" : "", to);
	(void)fputs(*c->args ? " " : "", to);
	roff(to, c->args);
	(void)fputs("\"\n", to);
	sentence(to, c->summary);
	if (c->later)
		(void)fputs("Not yet: it comes with a later version.\n", to);
	if (c->text) {
		roff(to, c->text);
		(void)fputc('\n', to);
	}
	for (const struct flag *f = c->flags; f->name; f++)
		man_flag(to, f);
}

static const char man_head[] =
	".SH NAME\n"
	"kosa8 \\- run an AI agent\\(aqs code in a microVM of its own\n"
	".SH SYNOPSIS\n"
	".B kosa8\n"
	".I COMMAND\n"
	"[flags] ...\n"
	".SH DESCRIPTION\n"
	"A sandbox is a small virtual machine with a kernel of its own, no host files and, unless\n"
	"told otherwise, no network. Commands run in it in containers made of OCI images. A\n"
	"checkpoint keeps its memory, processes and disk; a rewind brings them back. What was "
	"done,\n"
	"and by whom, is in a signed record.\n"
	".PP\n"
	"Flags may stand anywhere, but for \\fBrun\\fR and \\fBexec\\fR only up to IMAGE or\n"
	"CONTAINER: what follows belongs to the command. \\fB\\-\\-\\fR ends flags. "
	"\\fB\\-\\-json\\fR\n"
	"prints JSON. stdout carries results only; progress, notices and errors go to stderr.\n"
	".SH COMMANDS\n";

static const char man_tail[] =
	".SH EXIT STATUS\n"
	"0 when all went well, 2 for wrong usage, 1 for any other failure. For \\fBrun\\fR,\n"
	"\\fBexec\\fR, \\fBwait\\fR, \\fBattach\\fR and \\fBshell\\fR: the command\\(aqs own; 124 "
	"after \\-\\-timeout, 125 when kosa8 itself failed, 126 when the\n"
	"command was found and cannot be executed, 127 when it was not found, 128+N when signal N\n"
	"ended it.\n"
	".SH ENVIRONMENT\n"
	".TP\n.B KOSA8_HOME\nThe state folder, instead of ~/.kosa8.\n"
	".TP\n.B KOSA8_ACTOR\nThe name of the agent that acts, for the audit record.\n"
	".TP\n.B KOSA8_LOG\nWhat is told on stderr and in logs: debug, info or warn.\n"
	".TP\n.B KOSA8_REGISTRY_MIRROR\nREGISTRY=URL,...: where images are asked for "
	"instead, tried in\norder; the registry itself only if it is named as one of them.\n"
	".TP\n.B DOCKER_CONFIG\nThe folder of docker\\(aqs config.json, instead of ~/.docker.\n"
	".TP\n.BR https_proxy \", \" http_proxy \", \" no_proxy\nHow registries are reached.\n"
	".TP\n.B NO_COLOR\nWhen set, no colour.\n"
	".SH FILES\n"
	".TP\n.I ~/.kosa8\nSandboxes, images, templates, the catalog and the audit record.\n"
	".TP\n.I ~/.kosa8/auth.json\nWhat \\fBlogin\\fR stored.\n"
	".TP\n.I /etc/docker/certs.d\nCertificates of registries, a folder HOST[:PORT] each.\n"
	".SH EXAMPLES\n"
	".nf\n"
	"kosa8 sandbox create code\\-runner \\-\\-egress deny \\-\\-cpus 2 \\-\\-memory 2048\n"
	"kosa8 sandbox pull code\\-runner python:3.12\\-slim\n"
	"kosa8 checkpoint code\\-runner \\-\\-label clean\n"
	"kosa8 sandbox run code\\-runner python:3.12\\-slim python \\-c \\(aqprint(6*7)\\(aq\n"
	"kosa8 rewind code\\-runner \\-\\-to clean \\-\\-yes\n"
	"kosa8 audit ls\n"
	"kosa8 audit verify\n"
	".fi\n";

void document_man(FILE *to)
{
	(void)fputs(".\\\" SPDX-License-Identifier: Apache-2.0\n"
		    ".\\\" Made from the command table: kosa8 __man\n",
		to);
	(void)fprintf(to, ".TH KOSA8 1 \"\" \"kosa8 %s\" \"User Commands\"\n", KOSA8_VERSION);
	(void)fputs(man_head, to);
	for (const struct command *c = command_table; c->summary; c++)
		man_command(to, c);
	(void)fputs(man_tail, to);
}

static const char *complete_name(enum complete what)
{
	switch (what) {
	case COMPLETE_SANDBOX:
		return "sandboxes";
	case COMPLETE_IMAGE:
		return "images";
	case COMPLETE_FILE:
		return "files";
	case COMPLETE_NONE:
		break;
	}
	return "none";
}

/* The words after a group: its commands; for a group that is a command itself, names too. */
static void complete_group(FILE *to, const char *group)
{
	const struct command *alone = command_find(group, NULL, NULL);
	const char *last = "";

	(void)fprintf(to, "\t\"%s\") words=\"", group);
	for (const struct command *c = command_table; c->summary; c++) {
		if (strcmp(c->group, group) != 0 || !c->name)
			continue;
		size_t len = strcspn(c->name, " ");
		if (strncmp(c->name, last, len) != 0 || (last[len] != ' ' && last[len] != '\0'))
			(void)fprintf(to, "%.*s ", (int)len, c->name);
		last = c->name;
	}
	(void)fprintf(to, "\"; first=%s; ", alone ? complete_name(alone->complete[0]) : "none");
	(void)fputs("flags=\"", to);
	for (const struct flag *f = alone ? alone->flags : NULL; f && f->name; f++)
		(void)fprintf(to, "--%s ", f->name);
	(void)fputs("--help\" ;;\n", to);
}

/* The third words of commands that begin like c. */
static void complete_pair(FILE *to, const struct command *c)
{
	size_t len = strcspn(c->name, " ");

	(void)fprintf(to, "\t\"%s %.*s\") words=\"", c->group, (int)len, c->name);
	for (const struct command *o = command_table; o->summary; o++)
		if (o->name && strcmp(o->group, c->group) == 0 &&
			strncmp(o->name, c->name, len + 1) == 0)
			(void)fprintf(to, "%s ", o->name + len + 1);
	(void)fputs("\"; flags=\"--help\" ;;\n", to);
}

static void complete_command(FILE *to, const struct command *c)
{
	(void)fprintf(to, "\t\"%s %s\") first=%s; second=%s; flags=\"", c->group, c->name,
		complete_name(c->complete[0]), complete_name(c->complete[1]));
	for (const struct flag *f = c->flags; f->name; f++)
		(void)fprintf(to, "--%s ", f->name);
	(void)fputs("--help\" ;;\n", to);
}

static const char completion_head[] = "# SPDX-License-Identifier: Apache-2.0\n"
				      "# Made from the command table: kosa8 __completion\n"
				      "_kosa8_offer() {\n"
				      "\tlocal IFS=$'\\n'\n"
				      "\tcase $1 in\n"
				      "\tsandboxes|images) COMPREPLY+=($(compgen -W \"$(kosa8 "
				      "__names \"$1\" 2>/dev/null)\" -- \"$2\")) ;;\n"
				      "\tfiles) COMPREPLY+=($(compgen -f -- \"$2\")) ;;\n"
				      "\tesac\n"
				      "}\n"
				      "_kosa8() {\n"
				      "\tlocal cur=${COMP_WORDS[COMP_CWORD]} words='' first=none "
				      "second=none flags='' typed=() w\n"
				      "\tCOMPREPLY=()\n"
				      "\tfor w in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
				      "\t\t[[ $w == -* ]] || typed+=(\"$w\")\n"
				      "\tdone\n"
				      "\tlocal known=0 taken=3\n"
				      "\tcase \"${typed[0]} ${typed[1]} ${typed[2]}\" in\n";

static const char completion_two[] = "\t*) taken=2\n"
				     "\tcase \"${typed[0]} ${typed[1]}\" in\n";

static const char completion_middle[] = "\t*) known=1 ;;\n"
					"\tesac ;;\n"
					"\tesac\n"
					"\tlocal operands=$((${#typed[@]} - taken))\n"
					"\tif ((known)); then\n"
					"\toperands=$((${#typed[@]} - 1))\n"
					"\tcase \"${typed[0]}\" in\n";

static const char completion_tail[] = "\tesac\n"
				      "\tfi\n"
				      "\tif [[ $cur == -* ]]; then\n"
				      "\t\tCOMPREPLY=($(compgen -W \"$flags\" -- \"$cur\"))\n"
				      "\t\treturn\n"
				      "\tfi\n"
				      "\tcase $operands in\n"
				      "\t-1|0)\n"
				      "\t\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
				      "\t\t_kosa8_offer \"$first\" \"$cur\" ;;\n"
				      "\t1) _kosa8_offer \"$second\" \"$cur\" ;;\n"
				      "\tesac\n"
				      "}\n"
				      "complete -F _kosa8 kosa8\n";

void document_completion(FILE *to)
{
	const char *last = "";

	(void)fputs(completion_head, to);
	for (const struct command *c = command_table; c->summary; c++)
		if (c->name && strchr(c->name, ' '))
			complete_command(to, c);
	(void)fputs(completion_two, to);
	for (const struct command *c = command_table; c->summary; c++) {
		const char *space = c->name ? strchr(c->name, ' ') : NULL;
		if (c->name && !space)
			complete_command(to, c);
		else if (space && strcmp(space, " add") == 0)
			complete_pair(to, c);
	}
	(void)fputs(completion_middle, to);
	(void)fputs("\t\"\") words=\"", to);
	for (const struct command *c = command_table; c->summary; c++) {
		if (strcmp(c->group, last) != 0)
			(void)fprintf(to, "%s ", c->group);
		last = c->group;
	}
	(void)fputs("help\"; flags=\"--help --version\" ;;\n", to);
	last = "";
	for (const struct command *c = command_table; c->summary; c++) {
		if (strcmp(c->group, last) != 0)
			complete_group(to, c->group);
		last = c->group;
	}
	(void)fputs(completion_tail, to);
}
