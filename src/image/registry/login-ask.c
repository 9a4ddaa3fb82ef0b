/* SPDX-License-Identifier: Apache-2.0 */
#include "login-ask.h"

#include "certs-paths.h"
#include "../confine-client.h"
#include "endpoint.h"
#include "memory.h"

#include "../../base/fd.h"
#include "../../base/spawn.h"
#include "../../base/strv.h"
#include "../../proto/client.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define REPORT_MAX 8192

static int ask_once(struct endpoint *p, struct err *e)
{
	cleanup_memory struct memory answer = {0};
	cleanup_str char *url = NULL;

	if (asprintf(&url, "%s/v2/", p->base) < 0) {
		url = NULL;
		return err_errno(e, ENOMEM, "%s", p->host);
	}
	struct fetch f = {.url = url, .what = "login", .sink = &answer.sink};
	memory_init(&answer, "login", 0, NULL, 64 * 1024);
	return fetch_run(&p->fetcher, &f, 1, e);
}

/* A registry that lets everybody in has not looked at the password: it is shown to it. */
static int show_password(struct endpoint *p, struct err *e)
{
	const struct credentials *c = &p->auth->credentials;
	cleanup_secret char *basic = credentials_basic(c->user, c->password);

	if (!basic || asprintf(&p->auth->authorization, "Basic %s", basic) < 0) {
		p->auth->authorization = NULL;
		return err_errno(e, ENOMEM, "%s", p->host);
	}
	p->auth->generation++;
	return ask_once(p, e);
}

static int ask(struct endpoint *p, const char *user, const char *secret, struct err *e)
{
	struct credentials *c = &p->auth->credentials;

	p->auth->looked_up = true;
	c->user = strdup(user);
	c->password = strdup(secret);
	if (!c->user || !c->password)
		return err_errno(e, ENOMEM, "%s", p->host);
	int r = ask_once(p, e);
	if (r == 0 && !p->auth->authorization)
		r = show_password(p, e);
	if (r < 0 && e->kind == ERR_DENIED && strstr(e->what, "(401)")) {
		(void)err_set(e, ERR_DENIED, 0, "%s does not accept this user name and password",
			p->host);
		return err_hint(e, "check both; nothing was stored");
	}
	if (r < 0 && e->kind == ERR_NOT_FOUND)
		return err_set(
			e, ERR_NOT_FOUND, 0, "%s is not a registry: it has no /v2/ (404)", p->host);
	return r;
}

static int ask_registry(const char *registry, const char *user, const char *secret, bool plain_http,
	struct output *output, struct err *e)
{
	cleanup_auth struct auth account = {0};
	struct endpoint p = {0};

	auth_init(&account, registry);
	int r = endpoint_open(&p, registry, plain_http, &account, "", output, e);

	if (r == 0) {
		endpoint_decide(&p);
		r = ask(&p, user, secret, e);
	}
	endpoint_release(&p);
	return r;
}

/* ---- the child ---- */

static int confine(struct err *e)
{
	cleanup_strv char **readable = strv_new();

	if (!readable || certs_paths(&readable) < 0)
		return err_errno(e, ENOMEM, "cannot confine the login");
	return confine_image_worker(CONFINE_PULL, NULL, (const char *const *)readable, e);
}

struct question {
	const char *registry, *user, *secret;
	bool plain_http;
	struct output *output;
};

/* Writes nothing when it was accepted, else the error. */
static _Noreturn void be_child(const struct question *q, pid_t parent, int report)
{
	cleanup_buf struct buf b = {0};
	struct err e = {0};
	int r = -ECANCELED;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
		_exit(1);
	if ((r = confine(&e)) == 0)
		r = ask_registry(q->registry, q->user, q->secret, q->plain_http, q->output, &e);
	if (r == 0)
		_exit(0);
	buf_init(&b, REPORT_MAX);
	cleanup_json *o = client_error_encode(&e);
	if (o)
		json_put_canonical(&b, o);
	(void)fd_write_all(report, b.data, b.len);
	_exit(1);
}

/* ---- the parent ---- */

static int read_answer(const struct buf *report, int code, struct err *e)
{
	cleanup_json *error = NULL;

	if (code == 0 && report->len == 0)
		return 0;
	if (report->len == 0)
		return err_set(e, ERR_INTERNAL, 0,
			"asking the registry ended without a result (exit code %d)", code);
	int r = json_parse_object(report->data, report->len, "the registry's answer", &error, e);
	if (r < 0)
		return r;
	client_error_decode(error, e);
	return err_code(e);
}

int login_ask(const char *registry, const char *user, const char *secret, bool plain_http,
	struct output *output, struct err *e)
{
	const struct question q = {registry, user, secret, plain_http, output};
	cleanup_buf struct buf report = {0};
	pid_t parent = getpid();
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(e, errno, "cannot ask %s", registry);
	cleanup_fd int reader = ends[0];
	cleanup_fd int writer = ends[1];
	pid_t pid = fork();
	if (pid < 0)
		return err_errno(e, errno, "cannot ask %s", registry);
	if (pid == 0)
		be_child(&q, parent, writer);
	writer = fd_close(writer);
	buf_init(&report, REPORT_MAX);
	int r = fd_read_all(reader, &report);
	reader = fd_close(reader);
	int code = spawn_wait(pid);
	if (r < 0 || code < 0)
		return err_errno(e, r < 0 ? -r : -code, "cannot ask %s", registry);
	return read_answer(&report, code, e);
}
