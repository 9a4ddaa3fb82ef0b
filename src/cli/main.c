/* SPDX-License-Identifier: Apache-2.0 */
/* kosa8: one command a process. */
#include "args.h"
#include "context.h"
#include "documents.h"
#include "output.h"

#include "../base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXIT_USAGE 2

/* A closed stdin, stdout or stderr would be taken by the next file that is opened. Using one stays
 * an error: they are opened the wrong way round. */
static int fill_standard_fds(void)
{
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
			open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
			return -1;
	return 0;
}

/* `kosa8 __names sandboxes|images`, for the completion. */
static int print_names(const char *what, struct err *e)
{
	cleanup_context struct context c = {0};
	struct sandbox_rows sandboxes = {0};
	struct image_rows images = {0};
	int r = context_open(&c, e);

	if (r < 0)
		return r;
	if (strcmp(what, "sandboxes") == 0)
		r = catalog_sandbox_list(c.catalog, &sandboxes, e);
	else
		r = catalog_image_list(c.catalog, &images, e);
	for (size_t i = 0; i < sandboxes.len; i++)
		output_line("%s", sandboxes.rows[i].name);
	for (size_t i = 0; i < images.len; i++)
		for (char **ref = images.rows[i].refs; ref && *ref; ref++)
			output_line("%s", *ref);
	sandbox_rows_release(&sandboxes);
	image_rows_release(&images);
	return r;
}

/* What the build and the shell ask for. -1: it is none of these. */
static int hidden_command(int argc, char *const *argv, struct err *e)
{
	if (argc == 2 && strcmp(argv[1], "__man") == 0) {
		document_man(stdout);
		return 0;
	}
	if (argc == 2 && strcmp(argv[1], "__completion") == 0) {
		document_completion(stdout);
		return 0;
	}
	if (argc == 3 && strcmp(argv[1], "__names") == 0)
		return print_names(argv[2], e) < 0 ? 1 : 0;
	return -1;
}

static int print_help(const struct args *a)
{
	if (a->version)
		output_line("kosa8 %s", KOSA8_VERSION);
	else if (a->command)
		document_help(stdout, a->command);
	else
		document_overview(stdout, a->group);
	return 0;
}

/* The exit status of a command that failed. */
static int failure_status(const struct args *a, const struct err *e)
{
	if (e->kind == ERR_USAGE)
		return EXIT_USAGE;
	if (!a->command || a->command->failure_exit == 1)
		return 1;
	if (e->kind == ERR_CMD_NOT_EXEC)
		return 126;
	if (e->kind == ERR_CMD_NOT_FOUND)
		return 127;
	return a->command->failure_exit;
}

static int fail(const struct args *a, const struct err *e)
{
	int status = failure_status(a, e);

	/* What was printed before belongs before the error. */
	(void)fflush(stdout);
	output_error(e);
	if (e->kind == ERR_USAGE)
		document_usage(stderr, a->command, a->group);
	return status;
}

static int run(int argc, char *const *argv)
{
	cleanup_args struct args a = {0};
	struct err e = {0};
	int r = args_parse(argc, argv, &a, &e);

	if (r >= 0 && (a.help || !a.command))
		r = print_help(&a);
	else if (r >= 0 && (r = args_check_built(&a, &e)) >= 0)
		r = a.command->run(&a, &e);
	if (r < 0)
		return fail(&a, &e);
	int status = r;
	return output_finish(&e) < 0 ? fail(&a, &e) : status;
}

int main(int argc, char **argv)
{
	static char help[] = "--help";
	struct err e = {0};

	if (fill_standard_fds() < 0)
		return 125;
	(void)signal(SIGXFSZ, SIG_IGN); /* a limit on files' sizes is an error like a full disk */
	log_init("kosa8", NULL);
	int r = hidden_command(argc, argv, &e);
	if (r >= 0)
		return r;
	/* `kosa8 help WORDS` is `kosa8 WORDS --help`. */
	if (argc >= 2 && strcmp(argv[1], "help") == 0) {
		for (int i = 1; i + 1 < argc; i++)
			argv[i] = argv[i + 1];
		argv[argc - 1] = help;
	}
	return run(argc, argv);
}
