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

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define ANSWER_MAX (256u * 1024)

static void wipe(struct buf *b)
{
	if (b->data)
		explicit_bzero(b->data, b->cap);
	buf_release(b);
}
#define cleanup_wiped_buf __attribute__((cleanup(wipe)))

struct registry_name {
	char text[REFERENCE_NAME_MAX + 1]; /* canonical */
	bool http;			   /* typed with http:// */
};

static bool is_loopback(const char *registry)
{
	struct in_addr address;
	char host[REFERENCE_NAME_MAX + 1];

	if (text_starts_with(registry, "[::1]"))
		return true;
	(void)snprintf(host, sizeof(host), "%.*s", (int)strcspn(registry, ":"), registry);
	return strcmp(host, "localhost") == 0 ||
	       (inet_pton(AF_INET, host, &address) == 1 &&
		       (ntohl(address.s_addr) >> 24) == IN_LOOPBACKNET);
}

static size_t scheme_length(const char *name, bool *ret_http)
{
	*ret_http = strncasecmp(name, "http://", strlen("http://")) == 0;
	if (*ret_http)
		return strlen("http://");
	return strncasecmp(name, "https://", strlen("https://")) == 0 ? strlen("https://") : 0;
}

static bool is_registry_path(const char *path)
{
	static const char *const paths[] = {"", "/", "/v1", "/v1/", "/v2", "/v2/"};

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		if (strcmp(path, paths[i]) == 0)
			return true;
	return false;
}

/* docker.io for https://index.docker.io/v1/, and what else people copy from a browser. */
static int registry_name(
	const char *verb, const char *typed, struct registry_name *ret, struct err *e)
{
	const char *name = typed ? typed : "docker.io";

	name += scheme_length(name, &ret->http);
	size_t len = strcspn(name, "/");
	if (reference_registry(name, len, ret->text) < 0) {
		(void)err_set(e, ERR_INVALID, 0, "%.100s is not the name of a registry", name);
		return err_hint(e, "as in kosa8 %s registry.example.com", verb);
	}
	if (!is_registry_path(name + len)) {
		(void)err_set(e, ERR_INVALID, 0, "%.100s names more than a registry", name);
		return err_hint(e, "a login is for the whole registry: %.100s", ret->text);
	}
	return 0;
}

/* http:// asks for no TLS; elsewhere than here that has to be said in so many words. */
static int choose_transport(
	const struct args *a, const struct registry_name *name, bool *ret_plain_http, struct err *e)
{
	*ret_plain_http = args_on(a, "plain-http") || (name->http && is_loopback(name->text));
	if (!name->http || *ret_plain_http)
		return 0;
	(void)err_set(e, ERR_USAGE, 0, "http:// would send the password without encryption");
	return err_hint(
		e, "kosa8 login %.70s, or kosa8 login --plain-http %.70s", name->text, name->text);
}

static int check_user(const char *user, struct err *e)
{
	if (!user || !*user)
		return err_set(e, ERR_INVALID, 0, "the user name is empty");
	if (strchr(user, ':'))
		return err_set(e, ERR_INVALID, 0, "a user name cannot hold a ':'");
	for (const char *p = user; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return err_set(
				e, ERR_INVALID, 0, "a user name cannot hold control characters");
	return text_is_utf8(user, strlen(user))
		       ? 0
		       : err_set(e, ERR_INVALID, 0, "the user name is not UTF-8");
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
	bool from_stdin = args_on(a, "password-stdin");
	char prompt[400];
	int r;

	if (!*user && !from_stdin) {
		(void)snprintf(prompt, sizeof(prompt), "User name for %.300s: ", registry);
		if ((r = password_ask(prompt, true, typed_user, e)) < 0)
			return r;
		*user = buf_cstr(typed_user);
	}
	if ((r = check_user(*user, e)) < 0)
		return r;
	if (from_stdin)
		return read_stdin(secret, e);
	(void)snprintf(prompt, sizeof(prompt), "Password for %.300s: ", registry);
	return password_ask(prompt, false, secret, e);
}

static int log_in(struct context *c, bool plain_http, const char *registry, const char *user,
	const struct buf *secret, json_t **ret, struct err *e)
{
	cleanup_json *detail = json_pack("{s:s, s:s}", "registry", registry, "user", user);
	struct action act = {.event = {.action = "registry.login", .detail = detail}};
	int r;

	if (!detail)
		return err_set(e, ERR_INVALID, 0, "the user name is not UTF-8");
	if ((r = action_begin(c, &act, e)) < 0)
		return r;
	r = ask_worker("login", user, plain_http, registry, secret, ret, e);
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
	struct registry_name name = {0};
	const char *registry = name.text;
	const char *user = args_value(a, "user");
	bool plain_http;
	int r;

	buf_init(&typed_user, PASSWORD_MAX);
	buf_init(&secret, PASSWORD_MAX);
	if ((r = registry_name("login", a->operands_len ? a->operands[0] : NULL, &name, e)) < 0 ||
		(r = choose_transport(a, &name, &plain_http, e)) < 0 ||
		(r = check_input(a, e)) < 0 || (r = context_open(&c, e)) < 0 ||
		(r = get_secret(a, registry, &user, &typed_user, &secret, e)) < 0)
		return r;
	if ((r = log_in(&c, plain_http, registry, user, &secret, &result, e)) < 0)
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
	struct registry_name name = {0};
	const char *registry = name.text;
	int r;

	if ((r = registry_name("logout", a->operands_len ? a->operands[0] : NULL, &name, e)) < 0 ||
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
