/* SPDX-License-Identifier: Apache-2.0 */
#include "command-table.h"

#include "commands.h"

#include "../base/text.h"

#include <stdio.h>
#include <string.h>

#define JSON                                                     \
	{                                                        \
		"json", 0, FLAG_SWITCH, NULL, "print JSON", NULL \
	}
#define QUIET                                                             \
	{                                                                 \
		"quiet", 'q', FLAG_SWITCH, NULL, "show no progress", NULL \
	}
#define INTERACTIVE                                                                      \
	{                                                                                \
		"interactive", 'i', FLAG_SWITCH, NULL, "forward stdin and its end", NULL \
	}
#define TTY                                                               \
	{                                                                 \
		"tty", 't', FLAG_SWITCH, NULL, "give it a terminal", NULL \
	}
#define ENV                                                                                      \
	{                                                                                        \
		"env", 'e', FLAG_LIST, "K=V", "set a variable; K alone takes it from here", NULL \
	}
#define WORKDIR                                                                 \
	{                                                                       \
		"workdir", 'w', FLAG_VALUE, "DIR", "start in this folder", NULL \
	}
#define USER                                                                      \
	{                                                                         \
		"user", 'u', FLAG_VALUE, "USER[:GROUP]", "run as this user", NULL \
	}
#define TIMEOUT                                                       \
	{                                                             \
		"timeout", 0, FLAG_VALUE, "DURATION",                 \
			"end it and all it started after this time: " \
			"10s, 1m30s, 500ms",                          \
			NULL                                          \
	}
#define FOLLOW                                                                  \
	{                                                                       \
		"follow", 'f', FLAG_SWITCH, NULL, "go on with what comes", NULL \
	}
#define DETACH_KEYS                                                                                \
	{                                                                                          \
		"detach-keys", 0, FLAG_VALUE, "KEYS",                                              \
			"what leaves it running, on a terminal (ctrl-p,ctrl-q); '' for none", NULL \
	}
#define END                                            \
	{                                              \
		NULL, 0, FLAG_SWITCH, NULL, NULL, NULL \
	}

static const struct flag no_flags[] = {END};
static const struct flag json_flags[] = {JSON, END};
static const struct flag follow_flags[] = {FOLLOW, END};

static const struct flag create_flags[] = {
	{"egress", 0, FLAG_VALUE, "deny|any|fakenet", "what may leave the sandbox (deny)", NULL},
	{"egress-allow", 0, FLAG_LIST, "HOST[:PORT,...]",
		"open these hosts only; *.HOST for names "
		"below",
		NULL},
	{"cpus", 0, FLAG_VALUE, "N", "virtual CPUs (2)", NULL},
	{"memory", 0, FLAG_VALUE, "MB", "memory in MB (2048)", NULL},
	{"disk", 0, FLAG_VALUE, "GB", "disk in GB, taken only as it fills (16)", NULL},
	{"env", 'e', FLAG_LIST, "K=V", "a variable for every run", NULL},
	{"mount", 0, FLAG_LIST, "HOST:GUEST[:ro|:rw|:cow]",
		"share a host folder (rw); cow: writes stay in the sandbox", NULL},
	{"publish", 'p', FLAG_LIST, "[IP:]PORT:PORT",
		"reach a port of the sandbox from the host (IP: 127.0.0.1)", NULL},
	{"ttl", 0, FLAG_VALUE, "DURATION", "remove the sandbox after this time",
		"an end of life for sandboxes"},
	END};

static const struct flag rm_flags[] = {
	{"force", 'f', FLAG_SWITCH, NULL, "end what runs first", NULL}, END};

static const struct flag run_flags[] = {INTERACTIVE, TTY,
	{"detach", 'd', FLAG_SWITCH, NULL, "leave it running and print its id", NULL}, DETACH_KEYS,
	ENV, WORKDIR, USER, {"name", 0, FLAG_VALUE, "NAME", "name the container", NULL}, TIMEOUT,
	{"entrypoint", 0, FLAG_VALUE, "CMD", "instead of the image's entrypoint; '' for none",
		NULL},
	{"cpus", 0, FLAG_VALUE, "N", "share of the CPUs: 0.5, 2", NULL},
	{"memory", 0, FLAG_VALUE, "MB", "memory limit of this run in MB", NULL},
	{"pids", 0, FLAG_VALUE, "N", "process limit of this run", NULL}, QUIET, END};

static const struct flag exec_flags[] = {
	INTERACTIVE, TTY, DETACH_KEYS, ENV, WORKDIR, USER, TIMEOUT, END};

static const struct flag attach_flags[] = {
	{"no-stdin", 0, FLAG_SWITCH, NULL, "do not forward stdin", NULL}, DETACH_KEYS, END};

static const struct flag shell_flags[] = {
	{"container", 0, FLAG_VALUE, "CONTAINER", "in this one, which runs", NULL}, DETACH_KEYS,
	ENV, WORKDIR, USER, QUIET, END};

static const struct flag ps_flags[] = {
	{"all", 'a', FLAG_SWITCH, NULL, "also those that have ended", NULL},
	{"quiet", 'q', FLAG_SWITCH, NULL, "print ids only", NULL}, JSON, END};

static const struct flag logs_flags[] = {FOLLOW,
	{"timestamps", 't', FLAG_SWITCH, NULL, "put the time before each line", NULL},
	{"tail", 0, FLAG_VALUE, "N", "no more than the last N lines of what is there", NULL},
	{"since", 0, FLAG_VALUE, "T", "not before this time (2026-01-31T12:00:00Z) or age (1h)",
		NULL},
	END};

static const struct flag copy_flags[] = {QUIET, END};

static const struct flag apply_flags[] = {
	{"yes", 'y', FLAG_SWITCH, NULL, "do not ask", NULL}, QUIET, END};

static const struct flag kill_flags[] = {
	{"signal", 's', FLAG_VALUE, "SIG", "the signal (KILL)", NULL}, END};

static const struct flag checkpoint_flags[] = {
	{"label", 0, FLAG_VALUE, "LABEL", "a name for it, one per sandbox", NULL}, JSON, END};

static const struct flag rewind_flags[] = {
	{"to", 0, FLAG_VALUE, "ID|LABEL", "the checkpoint (the newest)", NULL},
	{"yes", 'y', FLAG_SWITCH, NULL, "do not ask", NULL}, END};

static const struct flag fork_flags[] = {
	{"count", 'n', FLAG_VALUE, "N", "how many copies (1)", NULL},
	{"from", 0, FLAG_VALUE, "ID|LABEL", "the checkpoint (a new one)", NULL},
	{"name", 0, FLAG_VALUE, "PREFIX", "how the copies' names begin", NULL}, END};

static const struct flag explore_flags[] = {
	{"count", 'n', FLAG_VALUE, "N", "how many attempts", NULL},
	{"score", 0, FLAG_VALUE, "CMD", "rates each attempt", NULL},
	{"keep", 0, FLAG_VALUE, "best|all", "which sandboxes stay", NULL}, END};

static const struct flag pull_flags[] = {
	{"platform", 0, FLAG_VALUE, "OS/ARCH", "of an image for several platforms (linux/amd64)",
		NULL},
	{"plain-http", 0, FLAG_SWITCH, NULL, "speak to the registry without TLS", NULL}, QUIET,
	END};

static const struct flag save_flags[] = {
	{"output", 'o', FLAG_VALUE, "FILE", "where to write (stdout)", NULL}, QUIET, END};

static const struct flag load_flags[] = {
	{"platform", 0, FLAG_VALUE, "OS/ARCH", "of an archive for several platforms (linux/amd64)",
		NULL},
	QUIET, END};

static const struct flag import_flags[] = {
	{"config", 0, FLAG_VALUE, "JSON", "the image's configuration: {\"Cmd\": [\"sh\"], ...}",
		NULL},
	QUIET, END};

static const struct flag history_flags[] = {
	{"no-trunc", 0, FLAG_SWITCH, NULL, "show what created a layer in full", NULL}, JSON, END};

static const struct flag login_flags[] = {{"user", 'u', FLAG_VALUE, "USER", "the user name", NULL},
	{"password-stdin", 0, FLAG_SWITCH, NULL, "read the password from stdin", NULL},
	{"plain-http", 0, FLAG_SWITCH, NULL, "without TLS (implied on loopback if it has none)",
		NULL},
	END};

static const struct flag audit_ls_flags[] = {FOLLOW,
	{"sandbox", 0, FLAG_VALUE, "NAME", "only this sandbox's actions", NULL},
	{"since", 0, FLAG_VALUE, "T", "not before this time (2026-01-31T12:00:00Z) or age (1h)",
		NULL},
	JSON, END};

#define SANDBOX                                 \
	{                                       \
		COMPLETE_SANDBOX, COMPLETE_NONE \
	}
#define SANDBOX_AND_IMAGE                        \
	{                                        \
		COMPLETE_SANDBOX, COMPLETE_IMAGE \
	}
#define IMAGE                                  \
	{                                      \
		COMPLETE_IMAGE, COMPLETE_IMAGE \
	}
#define ONE_FILE                             \
	{                                    \
		COMPLETE_FILE, COMPLETE_NONE \
	}
#define NOTHING                              \
	{                                    \
		COMPLETE_NONE, COMPLETE_NONE \
	}

const struct command command_table[] = {
	{"sandbox", "create", "NAME", 1, 1, 0, NOTHING, create_flags, "make a sandbox and start it",
		"Prints the sandbox's name. The first one of a size boots a template, later ones "
		"are copies of it. Without an egress flag nothing leaves the sandbox.",
		NULL, 1, cmd_sandbox_create},
	{"sandbox", "ls", "", 0, 0, 0, NOTHING, json_flags, "list the sandboxes", NULL, NULL, 1,
		cmd_sandbox_ls},
	{"sandbox", "inspect", "NAME", 1, 1, 0, SANDBOX, json_flags, "show all about a sandbox",
		NULL, NULL, 1, cmd_sandbox_inspect},
	{"sandbox", "start", "NAME", 1, 1, 0, SANDBOX, no_flags,
		"start a stopped or crashed sandbox",
		"Its disk is as it was; its processes and memory are not: `kosa8 rewind` brings "
		"those back.",
		NULL, 1, cmd_sandbox_start},
	{"sandbox", "stop", "NAME", 1, 1, 0, SANDBOX, no_flags, "power a sandbox down",
		"Ends what runs in it and keeps its disk and its checkpoints.", NULL, 1,
		cmd_sandbox_stop},
	{"sandbox", "rm", "NAME[/CONTAINER]...", 1, OPERANDS_ANY, 0, SANDBOX, rm_flags,
		"remove sandboxes with their disks and checkpoints, or containers", NULL, NULL, 1,
		cmd_sandbox_rm},
	{"sandbox", "pull", "NAME IMAGE", 2, 2, 0, SANDBOX_AND_IMAGE, pull_flags,
		"fetch an image on the host and attach it to a sandbox",
		"Prints the image's digest. The sandbox needs no network for it.", NULL, 1,
		cmd_sandbox_pull},
	{"sandbox", "images", "NAME", 1, 1, 0, SANDBOX, json_flags, "list a sandbox's images", NULL,
		NULL, 1, cmd_sandbox_images},
	{"sandbox", "run", "NAME IMAGE [CMD...]", 2, OPERANDS_ANY, 2, SANDBOX_AND_IMAGE, run_flags,
		"run a command in a new container",
		"What follows IMAGE belongs to the command. An image that is not there yet is "
		"pulled. The exit status is the command's own; 124 after --timeout, 125 when kosa8 "
		"itself failed, 126 when the command cannot be executed, 127 when it is not found, "
		"128+N when signal N ended it. When kosa8 is ended, so is all that the run "
		"started, unless it is detached: with -d, or by the detach keys.",
		NULL, 125, cmd_sandbox_run},
	{"sandbox", "shell", "NAME [IMAGE]", 1, 2, 0, SANDBOX_AND_IMAGE, shell_flags,
		"work in a sandbox with a shell",
		"In a new container of IMAGE, which may be left out when the sandbox has one image "
		"only, in /workspace; or in a container that runs. On a terminal it is the best "
		"shell there is (bash, zsh, ash, sh) with the rc files that it reads, but "
		"/etc/profile is not read, since it would replace the image's PATH. Without a "
		"terminal on stdin, sh reads its commands from there. The exit status is the "
		"shell's own.",
		NULL, 125, cmd_sandbox_shell},
	{"sandbox", "exec", "NAME CONTAINER CMD...", 3, OPERANDS_ANY, 2, SANDBOX, exec_flags,
		"run a command in a container that runs",
		"What follows CONTAINER, a name or an id, belongs to the command. The exit status "
		"is "
		"as for run.",
		NULL, 125, cmd_sandbox_exec},
	{"sandbox", "ps", "NAME", 1, 1, 0, SANDBOX, ps_flags, "list the containers that run", NULL,
		NULL, 1, cmd_sandbox_ps},
	{"sandbox", "logs", "NAME CONTAINER", 2, 2, 0, SANDBOX, logs_flags,
		"show what a container wrote",
		"Of detached containers, stdout on stdout and stderr on stderr. With --follow "
		"until "
		"the container ends.",
		NULL, 1, cmd_sandbox_logs},
	{"sandbox", "kill", "NAME CONTAINER", 2, 2, 0, SANDBOX, kill_flags,
		"send a signal to a container", "KILL ends all of it.", NULL, 1, cmd_sandbox_kill},
	{"sandbox", "wait", "NAME CONTAINER", 2, 2, 0, SANDBOX, no_flags,
		"wait for a container's end", "The exit status is the container's, as for run.",
		NULL, 125, cmd_sandbox_wait},
	{"sandbox", "attach", "NAME CONTAINER", 2, 2, 0, SANDBOX, attach_flags,
		"take the streams of a container that runs",
		"What it writes from now on, and stdin, if it was started with -i. On a terminal "
		"the "
		"detach keys leave it again, and it goes on; so it does when kosa8 is ended. The "
		"exit "
		"status is as for run.",
		NULL, 125, cmd_sandbox_attach},
	{"sandbox", "cp", "SRC DST", 2, 2, 0, NOTHING, copy_flags,
		"copy files into or out of a sandbox",
		"One of the two is NAME:PATH, in the sandbox's /workspace, or NAME/CONTAINER:PATH; "
		"the other is a path of the host (one with a colon begins with ./), or - for a tar "
		"stream, which is unpacked into the folder PATH, or holds PATH. As with cp, a "
		"folder that is there is copied into, and SRC/. is what a folder holds. Links are "
		"copied as links. Modes and times are kept; on the host all belongs to the caller, "
		"and nothing is setuid. Devices, sockets and pipes are skipped.",
		NULL, 1, cmd_sandbox_cp},
	{"sandbox", "diff", "NAME GUEST", 2, 2, 0, SANDBOX, json_flags,
		"show what a cow mount would change on the host",
		"GUEST is the mount's path in the sandbox. A line a path: A added, C changed, D "
		"removed, compared with the host's folder as it is now. Times and owners do not "
		"count. The exit status is 0 whether or not there are any.",
		NULL, 1, cmd_sandbox_diff},
	{"sandbox", "apply", "NAME GUEST [PATH...]", 2, OPERANDS_ANY, 0, SANDBOX, apply_flags,
		"write a cow mount's changes to the host",
		"All of them, or those at and below each PATH of the mount. Shows them, as diff "
		"does, and asks on a terminal; elsewhere --yes is needed. Files of the host that "
		"have changed meanwhile are overwritten. Links are never followed, and nothing "
		"becomes setuid.",
		NULL, 1, cmd_sandbox_apply},
	{"sandbox", "egress", "NAME [allow HOST | deny HOST | log]", 1, 3, 0, SANDBOX, follow_flags,
		"show or change what may leave a sandbox", NULL, "changing the egress policy", 1,
		NULL},
	{"sandbox", "mount add", "NAME HOST:GUEST[:ro|:rw|:cow]", 2, 2, 0, SANDBOX, no_flags,
		"share a host folder with a sandbox",
		"GUEST is an absolute path in every container. rw (when nothing is said): what "
		"the sandbox writes is written on the host, and not rewound. ro: the sandbox "
		"cannot write, not even its root. cow: it can, and the writes stay on the "
		"sandbox's disk. At once in a running sandbox, else at its next start.",
		NULL, 1, cmd_sandbox_mount_add},
	{"sandbox", "mount rm", "NAME GUEST", 2, 2, 0, SANDBOX, no_flags,
		"share a host folder no more", "The files on the host stay.", NULL, 1,
		cmd_sandbox_mount_rm},
	{"sandbox", "mount ls", "NAME", 1, 1, 0, SANDBOX, json_flags,
		"list the host folders of a sandbox", NULL, NULL, 1, cmd_sandbox_mount_ls},
	{"sandbox", "port add", "NAME [IP:]PORT:PORT", 2, 2, 0, SANDBOX, no_flags,
		"reach a port of a sandbox from the host",
		"The host's port, then the sandbox's. IP is 127.0.0.1 when it is left out; an IPv6 "
		"address stands in []. Port 0 of the host is any that is free. Prints the "
		"address.",
		NULL, 1, cmd_sandbox_port_add},
	{"sandbox", "port rm", "NAME [IP:]PORT", 2, 2, 0, SANDBOX, no_flags,
		"publish a port no more", "Connections to it are reset.", NULL, 1,
		cmd_sandbox_port_rm},
	{"sandbox", "port ls", "NAME", 1, 1, 0, SANDBOX, json_flags,
		"list the published ports of a sandbox", NULL, NULL, 1, cmd_sandbox_port_ls},
	{"checkpoint", NULL, "NAME", 1, 1, 0, SANDBOX, checkpoint_flags,
		"save memory, processes and disk of a sandbox", "Prints the checkpoint's id.", NULL,
		1, cmd_checkpoint_create},
	{"checkpoint", "ls", "NAME", 1, 1, 0, SANDBOX, json_flags, "list a sandbox's checkpoints",
		"The one that the current state descends from is marked with *.", NULL, 1,
		cmd_checkpoint_ls},
	{"checkpoint", "rm", "NAME ID|LABEL", 2, 2, 0, SANDBOX, no_flags, "remove a checkpoint",
		"The others stay. Disk space that they share is freed while the sandbox runs, or "
		"at its next start.",
		NULL, 1, cmd_checkpoint_rm},
	{"checkpoint", "diff", "NAME A [B]", 2, 3, 0, SANDBOX, json_flags,
		"show which files differ between checkpoints", NULL, "comparing checkpoints", 1,
		NULL},
	{"rewind", NULL, "NAME", 1, 1, 0, SANDBOX, rewind_flags,
		"bring a sandbox back to a checkpoint",
		"Memory, processes and disk are as they were; what came after is gone. Asks on a "
		"terminal; elsewhere --yes is needed. A stopped sandbox is started by it.",
		NULL, 1, cmd_rewind},
	{"fork", NULL, "NAME", 1, 1, 0, SANDBOX, fork_flags, "make running copies of a sandbox",
		NULL, "forking sandboxes", 1, NULL},
	{"explore", NULL, "NAME -- CMD...", 2, OPERANDS_ANY, 0, SANDBOX, explore_flags,
		"try a command in copies of a sandbox", NULL, "exploring", 1, NULL},
	{"image", "ls", "", 0, 0, 0, NOTHING, json_flags, "list the images on this host",
		"Wherever a command takes an IMAGE, the first 6 or more digits of its digest will "
		"do.",
		NULL, 1, cmd_image_ls},
	{"image", "inspect", "IMAGE...", 1, OPERANDS_ANY, 0, IMAGE, json_flags,
		"show all about images",
		"Configuration and layers as they were published, and which sandboxes use it. With "
		"--json prints an array.",
		NULL, 1, cmd_image_inspect},
	{"image", "history", "IMAGE", 1, 1, 0, IMAGE, history_flags, "show how an image was made",
		"The newest step first.", NULL, 1, cmd_image_history},
	{"image", "pull", "IMAGE", 1, 1, 0, IMAGE, pull_flags, "fetch an image on the host",
		"Prints the image's digest.", NULL, 1, cmd_image_pull},
	{"image", "tag", "IMAGE NAME", 2, 2, 0, IMAGE, no_flags, "give an image another name", NULL,
		NULL, 1, cmd_image_tag},
	{"image", "rm", "IMAGE...", 1, OPERANDS_ANY, 0, IMAGE, no_flags, "remove images",
		"Refused while a sandbox uses the image. Of an image with several names only the "
		"name goes.",
		NULL, 1, cmd_image_rm},
	{"image", "prune", "", 0, 0, 0, NOTHING, json_flags, "remove images that no sandbox uses",
		"And all that interrupted pulls have left. Prints what went and the space that it "
		"took.",
		NULL, 1, cmd_image_prune},
	{"image", "load", "FILE|FOLDER", 1, 1, 0, ONE_FILE, load_flags,
		"add images from a docker-archive or oci-layout",
		"A tar file, also compressed, or a folder. Prints what was loaded, one a line. - "
		"is stdin. An image for another platform can be kept and saved, not run.",
		NULL, 1, cmd_image_load},
	{"image", "save", "IMAGE...", 1, OPERANDS_ANY, 0, IMAGE, save_flags,
		"write images to an oci-archive",
		"Byte for byte as they were published. The file has its name only when it is "
		"complete.",
		NULL, 1, cmd_image_save},
	{"image", "import", "TAR NAME", 2, 2, 0, ONE_FILE, import_flags,
		"make an image of a root file system's tar",
		"Prints the image's digest. - is stdin.", NULL, 1, cmd_image_import},
	{"login", NULL, "[REGISTRY]", 0, 1, 0, NOTHING, login_flags, "log in to a registry",
		"REGISTRY is docker.io when it is left out. User name and password are asked for "
		"on a terminal. Nothing is stored before the registry has accepted them: the "
		"credential helper that docker's configuration names keeps them, else "
		"$KOSA8_HOME/auth.json, in plain text. Pulls use them, and what docker's own "
		"configuration has.",
		NULL, 1, cmd_login},
	{"logout", NULL, "[REGISTRY]", 0, 1, 0, NOTHING, no_flags, "forget a registry's password",
		"Removes what login stored, not what docker's own configuration has.", NULL, 1,
		cmd_logout},
	{"audit", "ls", "", 0, 0, 0, NOTHING, audit_ls_flags, "list what was done, and by whom",
		"An action without an end was cut off, unless its command is still at work. With "
		"--follow --json prints one object a line.",
		NULL, 1, cmd_audit_ls},
	{"audit", "verify", "", 0, 0, 0, NOTHING, json_flags, "check that the record is whole",
		"Exit status 1, with the first bad record and the kind of damage, when it is not.",
		NULL, 1, cmd_audit_verify},
	{"audit", "export", "", 0, 0, 0, NOTHING, no_flags, "print the record with its signature",
		"The log's JSON lines as they are, then the signed head.", NULL, 1,
		cmd_audit_export},
	{"doctor", NULL, "", 0, 0, 0, NOTHING, json_flags, "check that this host has all it needs",
		"Exit status 1 when a check fails.", NULL, 1, cmd_doctor},
	{"version", NULL, "", 0, 0, 0, NOTHING, json_flags, "show the versions", NULL, NULL, 1,
		cmd_version},
	{"system", "df", "", 0, 0, 0, NOTHING, json_flags, "show what takes disk space", NULL, NULL,
		1, cmd_system_df},
	{"system", "prune", "", 0, 0, 0, NOTHING, no_flags, "remove what is not used", NULL,
		"removing what is not used", 1, NULL},
	{0},
};

void command_title(const struct command *c, char ret[static COMMAND_TITLE_MAX])
{
	(void)snprintf(ret, COMMAND_TITLE_MAX, "%s%s%s", c->group, c->name ? " " : "",
		c->name ? c->name : "");
}

bool command_group_exists(const char *word)
{
	for (const struct command *c = command_table; c->summary; c++)
		if (strcmp(c->group, word) == 0)
			return true;
	return false;
}

/* Whether a command's name is these words; third NULL: this one. */
static bool is_name(const char *name, const char *second, const char *third)
{
	size_t len = second ? strlen(second) : 0;

	if (!name || !second)
		return name == second;
	if (strncmp(name, second, len) != 0)
		return false;
	return third ? name[len] == ' ' && strcmp(name + len + 1, third) == 0 : name[len] == '\0';
}

const struct command *command_find(const char *first, const char *second, const char *third)
{
	for (const struct command *c = command_table; c->summary; c++)
		if (strcmp(c->group, first) == 0 && is_name(c->name, second, third))
			return c;
	return NULL;
}

bool command_pair_exists(const char *first, const char *second)
{
	size_t len = strlen(second);

	for (const struct command *c = command_table; c->summary; c++)
		if (strcmp(c->group, first) == 0 && c->name && strncmp(c->name, second, len) == 0 &&
			c->name[len] == ' ')
			return true;
	return false;
}

/* How many edits still count as a slip for a word of this length. */
static unsigned slips(const char *word)
{
	size_t len = strlen(word);

	return len < 3 ? 1 : len < 7 ? 2 : 3;
}

/* How far what was typed is from a command; over its limit when it is not near. */
static unsigned distance(const char *first, const char *second, const struct command *c)
{
	char typed[COMMAND_TITLE_MAX + 8], title[COMMAND_TITLE_MAX];
	unsigned limit = slips(first), d = limit + 1, one;

	command_title(c, title);
	if (second) {
		(void)snprintf(typed, sizeof(typed), "%s %s", first, second);
		d = text_distance(typed, title, limit);
	}
	/* A second word may be an operand: of a command of one word, or of one whose group was
	 * left out. */
	if (!c->name || !command_group_exists(first)) {
		one = text_distance(first, c->name ? c->name : c->group, limit);
		d = one < d ? one : d;
	}
	return d;
}

const struct command *command_nearest(const char *first, const char *second)
{
	const struct command *best = NULL;
	unsigned best_distance = slips(first) + 1;

	for (const struct command *c = command_table; c->summary; c++) {
		unsigned d = distance(first, second, c);
		if (d < best_distance) {
			best = c;
			best_distance = d;
		}
	}
	return best;
}

const struct flag *command_flag(const struct command *c, const char *name, size_t len, char letter)
{
	for (const struct flag *f = c->flags; f->name; f++) {
		if (name && strlen(f->name) == len && memcmp(f->name, name, len) == 0)
			return f;
		if (letter && f->letter == letter)
			return f;
	}
	return NULL;
}

const struct flag *command_any_flag(const char *name, size_t len, char letter)
{
	for (const struct command *c = command_table; c->summary; c++) {
		const struct flag *f = command_flag(c, name, len, letter);
		if (f)
			return f;
	}
	return NULL;
}

const struct flag *command_nearest_flag(const struct command *c, const char *name)
{
	const struct flag *best = NULL;
	unsigned best_distance = 99;

	for (const struct flag *f = c->flags; f->name; f++) {
		unsigned limit = slips(name), d = text_distance(name, f->name, limit);
		if (d <= limit && d < best_distance) {
			best = f;
			best_distance = d;
		}
	}
	return best;
}
