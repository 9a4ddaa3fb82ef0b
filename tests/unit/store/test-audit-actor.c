/* SPDX-License-Identifier: Apache-2.0 */
/* Who acts: as seen by a child of this program, with and without a terminal. */
#include "store-test.h"

#include <sys/prctl.h>

static int terminal_on = -1; /* the descriptor that is one, -1: none */
static int out[2];

/* In the child: what audit_actor_self() says, as JSON through the pipe. */
static int report(int n)
{
	struct audit_actor a;
	cleanup_buf struct buf b = {0};
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int pty = posix_openpt(O_RDWR | O_NOCTTY);

	(void)n;
	if (null < 0 || pty < 0 || dup2(null, 0) < 0 || dup2(null, 2) < 0)
		return 1;
	if (terminal_on >= 0 && dup2(pty, terminal_on) < 0)
		return 1;
	audit_actor_self(&a);
	cleanup_json *o = audit_actor_encode(&a);
	buf_init(&b, 1 << 16);
	json_put_canonical(&b, o);
	return buf_failed(&b) || fd_write_all(out[1], b.data, b.len) < 0;
}

static json_t *actor_of(const char *name, int terminal, pid_t *ret_pid)
{
	cleanup_buf struct buf b = {0};
	json_t *o = NULL;

	buf_init(&b, 1 << 16);
	if (pipe(out) < 0)
		test_bail("pipe");
	if (name)
		(void)setenv("KOSA8_ACTOR", name, 1);
	else
		(void)unsetenv("KOSA8_ACTOR");
	terminal_on = terminal;
	pid_t pid = test_fork(report, 0);
	(void)close(out[1]);
	if (fd_read_all(out[0], &b) < 0 || test_wait(pid) != 0 ||
		json_parse_object(b.data, b.len, "the actor", &o, &test_err) < 0)
		test_bail("the child");
	(void)close(out[0]);
	if (ret_pid)
		*ret_pid = pid;
	return o;
}

static const char *str(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

static void test_kinds(void)
{
	static const struct {
		const char *name;
		int terminal;
		const char *kind, *what;
	} cases[] = {
		{NULL, -1, "agent", "no terminal: an agent"},
		{NULL, 0, "human", "a terminal on stdin: a human"},
		{NULL, 2, "human", "a terminal on stderr: a human"},
		{"crew-7", -1, "agent", "KOSA8_ACTOR: an agent"},
		{"crew-7", 0, "agent", "also with a terminal"},
		{"", 0, "human", "an empty KOSA8_ACTOR says nothing"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cleanup_json *o = actor_of(cases[i].name, cases[i].terminal, NULL);
		EQ_STR(str(o, "kind"), cases[i].kind, cases[i].what);
		EQ_STR(str(o, "name"), cases[i].name ? cases[i].name : "", "its name");
		OK(json_is_true(json_object_get(o, "terminal")) == (cases[i].terminal >= 0),
			"whether there is a terminal");
	}
}

static void test_ids(void)
{
	char self[300];
	pid_t pid;
	cleanup_json *o = actor_of(NULL, -1, &pid);
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n < 0 || n > 250)
		test_bail("readlink");
	self[n] = '\0';
	EQ_INT(json_integer_value(json_object_get(o, "pid")), pid, "the command's process");
	EQ_INT(json_integer_value(json_object_get(o, "uid")), getuid(), "the user");
	EQ_STR(str(o, "program"), self, "the parent's program");
}

static void test_odd_names(void)
{
	char name[400];

	cleanup_json *bad = actor_of("a\xff\xc3\xa9", -1, NULL);
	EQ_STR(str(bad, "name"), "a\\xff\xc3\xa9", "a name that is not UTF-8");
	for (size_t i = 0; i + 1 < sizeof(name); i += 2)
		memcpy(name + i, "\xc3\xa9", 2);
	name[sizeof(name) - 2] = '\0';
	cleanup_json *lengthy = actor_of(name, -1, NULL);
	OK(str(lengthy, "name") && strlen(str(lengthy, "name")) == 126,
		"a name that is too long is cut between characters");
}

static void test_decode(void)
{
	struct audit_actor a = {.kind = "agent",
				   .name = "crew",
				   .terminal = true,
				   .uid = 7,
				   .pid = 8,
				   .program = "/bin/x"},
			   back;
	static const char *const bad[] = {"{}", "{\"kind\":\"robot\"}", "{\"kind\":1}",
		"{\"kind\":\"agent\",\"name\":7}", "{\"kind\":\"agent\",\"uid\":-1}",
		"{\"kind\":\"agent\",\"terminal\":\"yes\"}"};
	cleanup_json *o = audit_actor_encode(&a);
	int refused = 0;

	EQ_INT(audit_actor_decode(o, &back, &test_err), 0, "decoded");
	OK(strcmp(back.kind, "agent") == 0 && strcmp(back.name, "crew") == 0 && back.terminal &&
			back.uid == 7 && back.pid == 8 && strcmp(back.program, "/bin/x") == 0,
		"is the same");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cleanup_json *b = json_loads(bad[i], 0, NULL);
		refused += audit_actor_decode(b, &back, &test_err) < 0;
	}
	EQ_INT(refused, sizeof(bad) / sizeof(bad[0]), "bad claims are refused");
	OK(audit_actor_decode(NULL, &back, &test_err) < 0, "and none at all");
	char name[200];
	memset(name, 'x', sizeof(name));
	name[128] = '\0';
	cleanup_json *lengthy = json_pack("{s:s,s:s}", "kind", "agent", "name", name);
	OK(audit_actor_decode(lengthy, &back, &test_err) < 0, "a name too long");
	EQ_STR(back.name, "crew", "a refusal fills in nothing");
}

int main(void)
{
	test_setup();
	test_kinds();
	test_ids();
	test_odd_names();
	test_decode();
	return tap_done();
}
