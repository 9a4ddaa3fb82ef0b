/* SPDX-License-Identifier: Apache-2.0 */
/* login and logout. kosa8-image talks to the registry and keeps auth.json; the password gets to it
 * through a pipe. */
#include "commands.h"

#include "context.h"
#include "output.h"
#include "password.h"

#include "../base/fd.h"
#include "../base/install.h"
#include "../base/spawn.h"
#include "../base/strv.h"
#include "../base/text.h"
#include "../proto/client.h"
#include "../proto/reference.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_MAX (256u * 1024)

static void wipe(struct buf *b)
{
	if (b->data)
		explicit_bzero(b->data, b->cap);
	buf_release(b);
}
#define cleanup_wiped_buf __attribute__((cleanup(wipe)))

/* docker.io for https://index.docker.io/v1/, and what else people copy from a browser. */
static int registry_name(
	const char *typed, char ret[static REFERENCE_CANONICAL_SIZE], struct err *e)
{
	const char *name = typed ? typed : "docker.io";
	char probe[REFERENCE_CANONICAL_SIZE];
	struct reference ref;

	if (text_starts_with(name, "http://")) {
		(void)err_set(e, ERR_USAGE, 0, "a registry has a name, not an address");
		return err_hint(e, "kosa8 login --plain-http %.100s", name + strlen("http://"));
	}
	name += text_starts_with(name, "https://") ? strlen("https://") : 0;
	size_t len = strcspn(name, "/");
	const char *path = name + len;
	if (*path && strcmp(path, "/") != 0 && strcmp(path, "/v1/") != 0 &&
		strcmp(path, "/v2/") != 0) {
		(void)err_set(e, ERR_INVALID, 0, "%.100s names more than a registry", name);
		return err_hint(e, "a login is for the whole registry: %.*s", (int)len, name);
	}
	int n = snprintf(probe, sizeof(probe), "%.*s/x/x", (int)(len < 300 ? len : 300), name);
	if (n < 0 || reference_parse(probe, &ref, e) < 0 || len >= 300 ||
		(strncmp(ref.registry, name, len) != 0 && strcmp(ref.registry, "docker.io") != 0) ||
		strcmp(ref.repository, "x/x") != 0) {
		(void)err_set(e, ERR_INVALID, 0, "%.100s is not the name of a registry", name);
		return err_hint(e, "as in kosa8 login registry.example.com");
	}
	(void)snprintf(ret, REFERENCE_CANONICAL_SIZE, "%s",
		strcmp(ref.registry, "index.docker.io") == 0 ? "docker.io" : ref.registry);
	return 0;
}

/* The last line is the result; those before it are notices. */
static int read_result(struct buf *b, json_t **ret, struct err *e)
{
	const char *text = buf_cstr(b);
	bool ok = false;
	int r = 0;

	while (text && *text && r >= 0) {
		cleanup_json *line = NULL;
		size_t len = strcspn(text, "\n");
		const char *said;
		if ((r = json_parse_object(text, len, "kosa8-image's line", &line, e)) < 0)
			return r;
		text += len + (text[len] == '\n');
		if (!json_object_get(line, "ok")) {
			if (json_get_str_or(line, "text", 4096, "", &said, e) == 0 && *said)
				output_notice("%s", said);
			continue;
		}
		if ((r = json_get_bool_or(line, "ok", false, &ok, e)) < 0)
			return r;
		if (!ok) {
			client_error_decode(json_object_get(line, "error"), e);
			return err_code(e);
		}
		*ret = json_incref(line);
		return 0;
	}
	return err_set(e, ERR_UNAVAILABLE, 0, "kosa8-image ended without a result");
}

/* Gives it the secret and reads what it says. */
static int converse(int to, int from, const struct buf *secret, json_t **ret, struct err *e)
{
	cleanup_buf struct buf b = {0};
	int r = 0;

	buf_init(&b, ANSWER_MAX);
	if (secret->len > 0)
		r = fd_write_all(to, secret->data, secret->len);
	(void)fd_close(to);
	if (r < 0 && r != -EPIPE)
		return err_errno(e, -r, "writing to kosa8-image");
	if ((r = fd_read_all(from, &b)) < 0)
		return err_errno(e, -r, "reading from kosa8-image");
	return read_result(&b, ret, e);
}

static int run_worker(char *const *argv, const struct buf *secret, json_t **ret, struct err *e)
{
	int in[2], out[2] = {-1, -1};
	pid_t pid;

	if (pipe2(in, O_CLOEXEC) < 0)
		return err_errno(e, errno, "cannot start kosa8-image");
	if (pipe2(out, O_CLOEXEC) < 0) {
		(void)fd_close(in[0]);
		(void)fd_close(in[1]);
		return err_errno(e, errno, "cannot start kosa8-image");
	}
	struct spawn s = {.argv = argv,
		.fds = {in[0], out[1], STDERR_FILENO},
		.fds_len = 3,
		.die_with_parent = true};
	int r = spawn_start(&s, &pid, NULL, e);
	(void)fd_close(in[0]);
	(void)fd_close(out[1]);
	if (r < 0) {
		(void)fd_close(in[1]);
		(void)fd_close(out[0]);
		return r;
	}
	void (*former)(int) = signal(SIGPIPE, SIG_IGN);
	r = converse(in[1], out[0], secret, ret, e);
	(void)signal(SIGPIPE, former);
	(void)fd_close(out[0]);
	if (r < 0 && e->kind == ERR_IO)
		(void)kill(pid, SIGKILL);
	(void)spawn_wait(pid);
	return r;
}

/* kosa8-image VERB [FLAGS] -- REGISTRY */
static int ask_worker(const char *verb, const char *user, bool plain_http, const char *registry,
	const struct buf *secret, json_t **ret, struct err *e)
{
	cleanup_strv char **argv = strv_new();
	char program[PATH_MAX];
	int r = install_program("kosa8-image", program, sizeof(program), e);

	if (r < 0)
		return r;
	if (!argv || strv_add(&argv, program) < 0 || strv_add(&argv, verb) < 0 ||
		(user && (strv_add(&argv, "--user") < 0 || strv_add(&argv, user) < 0)) ||
		(plain_http && strv_add(&argv, "--plain-http") < 0) || strv_add(&argv, "--") < 0 ||
		strv_add(&argv, registry) < 0)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	return run_worker(argv, secret, ret, e);
}

static int check_input(const struct args *a, struct err *e)
{
	bool terminal = isatty(STDIN_FILENO);

	if (args_on(a, "password-stdin") && !args_value(a, "user"))
		return err_set(e, ERR_USAGE, 0, "--password-stdin needs --user, too");
	if (args_on(a, "password-stdin") && terminal)
		return err_set(e, ERR_USAGE, 0,
			"--password-stdin reads a pipe or a file, and stdin is a terminal");
	if (!args_on(a, "password-stdin") && !terminal) {
		(void)err_set(e, ERR_USAGE, 0,
			"there is no terminal to ask for the password on, and no --password-stdin");
		return err_hint(e, "kosa8 login --user USER --password-stdin REGISTRY <FILE");
	}
	return 0;
}

static int read_stdin(struct buf *secret, struct err *e)
{
	int r = fd_read_all(STDIN_FILENO, secret);

	if (r == -E2BIG)
		return err_set(
			e, ERR_LIMIT, 0, "the password is longer than %u bytes", PASSWORD_MAX);
	if (r < 0)
		return err_errno(e, -r, "cannot read the password");
	/* `echo` and editors end it with a line break that is not part of it. */
	if (secret->len > 0 && secret->data[secret->len - 1] == '\n')
		secret->len--;
	if (secret->len > 0 && secret->data[secret->len - 1] == '\r')
		secret->len--;
	return 0;
}

static int get_secret(const struct args *a, const char *registry, const char **user,
	struct buf *typed_user, struct buf *secret, struct err *e)
{
	char prompt[400];
	int r;

	if (args_on(a, "password-stdin"))
		return read_stdin(secret, e);
	if (!*user) {
		(void)snprintf(prompt, sizeof(prompt), "User name for %.300s: ", registry);
		if ((r = password_ask(prompt, true, typed_user, e)) < 0)
			return r;
		*user = buf_cstr(typed_user);
	}
	(void)snprintf(prompt, sizeof(prompt), "Password for %.300s: ", registry);
	return password_ask(prompt, false, secret, e);
}

static int log_in(struct context *c, const struct args *a, const char *registry, const char *user,
	const struct buf *secret, json_t **ret, struct err *e)
{
	cleanup_json *detail = json_pack("{s:s, s:s}", "registry", registry, "user", user);
	struct action act = {.event = {.action = "registry.login", .detail = detail}};
	int r;

	if (!detail)
		return err_set(e, ERR_INVALID, 0, "the user name is not UTF-8");
	if ((r = action_begin(c, &act, e)) < 0)
		return r;
	r = ask_worker("login", user, args_on(a, "plain-http"), registry, secret, ret, e);
	return action_end(c, &act, r, e);
}

static int tell_login(const json_t *result, const char *registry, const char *user, struct err *e)
{
	const char *helper, *file;
	int r;

	if ((r = json_get_str_or(result, "helper", 256, "", &helper, e)) < 0 ||
		(r = json_get_str_or(result, "file", PATH_MAX, "", &file, e)) < 0)
		return r;
	output_line("%s is logged in to %s", user, registry);
	if (*helper)
		output_notice("docker-credential-%s keeps the password", helper);
	else
		output_notice("the password is kept in plain text in %s", file);
	return 0;
}

int cmd_login(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	cleanup_wiped_buf struct buf typed_user = {0}, secret = {0};
	cleanup_json *result = NULL;
	char registry[REFERENCE_CANONICAL_SIZE];
	const char *user = args_value(a, "user");
	int r;

	buf_init(&typed_user, PASSWORD_MAX);
	buf_init(&secret, PASSWORD_MAX);
	if ((r = registry_name(a->operands_len ? a->operands[0] : NULL, registry, e)) < 0 ||
		(r = check_input(a, e)) < 0 || (r = context_open(&c, e)) < 0 ||
		(r = get_secret(a, registry, &user, &typed_user, &secret, e)) < 0)
		return r;
	if (!user || !*user)
		return err_set(e, ERR_INVALID, 0, "the user name is empty");
	if ((r = log_in(&c, a, registry, user, &secret, &result, e)) < 0)
		return r;
	return tell_login(result, registry, user, e);
}

static int tell_logout(const json_t *result, const char *registry, struct err *e)
{
	const char *remaining;
	bool removed;
	int r;

	if ((r = json_get_bool_or(result, "removed", false, &removed, e)) < 0 ||
		(r = json_get_str_or(result, "remaining", PATH_MAX, "", &remaining, e)) < 0)
		return r;
	output_line(removed ? "logged out of %s" : "not logged in to %s", registry);
	if (*remaining)
		output_notice("docker's own configuration, %s, still has credentials for %s; "
			      "pulls use them until `docker logout`",
			remaining, registry);
	return 0;
}

int cmd_logout(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	cleanup_json *result = NULL, *detail = NULL;
	const struct buf nothing = {0};
	char registry[REFERENCE_CANONICAL_SIZE];
	int r;

	if ((r = registry_name(a->operands_len ? a->operands[0] : NULL, registry, e)) < 0 ||
		(r = context_open(&c, e)) < 0)
		return r;
	detail = json_pack("{s:s}", "registry", registry);
	struct action act = {.event = {.action = "registry.logout", .detail = detail}};
	if ((r = action_begin(&c, &act, e)) < 0)
		return r;
	r = ask_worker("logout", NULL, false, registry, &nothing, &result, e);
	if ((r = action_end(&c, &act, r, e)) < 0)
		return r;
	return tell_logout(result, registry, e);
}
