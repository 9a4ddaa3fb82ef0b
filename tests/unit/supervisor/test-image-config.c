/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/image-config.h"

#include "base/strv.h"

#include "tap.h"

static const char config[] =
	"{\"config\":{\"Entrypoint\":[\"/e\"],\"Cmd\":[\"c1\",\"c2\"],"
	"\"Env\":[\"A=1\",\"PATH=/p\"],\"User\":\"web\",\"WorkingDir\":\"/srv\"}}";

static char *args(struct agent_run *m)
{
	struct buf b;

	buf_init(&b, 4096);
	for (char **p = m->argv; *p; p++)
		buf_putf(&b, "%s%s", p == m->argv ? "" : " ", *p);
	return buf_take_cstr(&b);
}

static void check(struct client_run *run, const char *want, const char *what)
{
	struct agent_run m = {0};
	struct err e = {0};
	int r = image_config_apply(config, NULL, run, &m, &e);

	EQ_INT(r, 0, what);
	if (r == 0) {
		cleanup_str char *got = args(&m);
		EQ_STR(got, want, what);
	}
	agent_run_release(&m);
}

int main(void)
{
	char *none[] = {NULL}, *words[] = {"x", "y z", NULL}, *entry[] = {"/new", NULL};
	char *sandbox_env[] = {"A=2", "B=2", NULL}, *run_env[] = {"B=3", NULL};
	struct client_run run = {.argv = none, .env = none};
	struct agent_run m = {0};
	struct err e = {0};

	check(&run, "/e c1 c2", "entrypoint and command of the image");
	run.argv = words;
	check(&run, "/e x y z", "a command replaces the image's");
	run.entrypoint = entry;
	check(&run, "/new x y z", "an entrypoint replaces the image's");
	run.argv = none;
	check(&run, "/new", "a replaced entrypoint drops the image's command");
	run.entrypoint = NULL;

	run.env = run_env;
	EQ_INT(image_config_apply(config, sandbox_env, &run, &m, &e), 0, "three environments");
	EQ_STR(strv_env_get(m.env, "A"), "2", "the sandbox's over the image's");
	EQ_STR(strv_env_get(m.env, "B"), "3", "the run's over the sandbox's");
	EQ_STR(strv_env_get(m.env, "PATH"), "/p", "the image's PATH over the default");
	EQ_STR(m.user, "web", "the image's user");
	EQ_STR(m.cwd, "/srv", "the image's folder");
	agent_run_release(&m);

	run.env = none;
	run.cwd = "work";
	OK(image_config_apply(config, NULL, &run, &m, &e) < 0, "a relative folder is refused");
	EQ_STR(e.hint, "-w /work", "with what to do");
	run.cwd = NULL;
	OK(image_config_apply("{\"config\":{}}", NULL, &run, &m, &e) < 0, "no command at all");
	EQ_INT(e.kind, ERR_INVALID, "is the user's error");
	OK(image_config_apply("{\"config\":{\"Cmd\":7}}", NULL, &run, &m, &e) < 0, "a wrong type");
	OK(image_config_apply("[", NULL, &run, &m, &e) < 0, "no JSON");
	return tap_done();
}
