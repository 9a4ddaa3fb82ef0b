/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of every kind, as a client and an honest agent have them. */
#include "bench.h"

#include "base/clock.h"
#include "base/cursor.h"
#include "proto/agent-files.h"

#include "tap.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#define ID "aaaaaaaaaaaa"

static const char *str(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

static json_t *detail_of(const char *action)
{
	cleanup_json *record = last_record(action);

	return json_incref(json_object_get(record, "detail"));
}

static json_t *run_request(void)
{
	return json_pack("{s:s, s:[s, s], s:b, s:b, s:i, s:s, s:s, s:i, s:i}", "image", BENCH_IMAGE,
		"argv", "echo", "hi", "stdin", 1, "tty", 1, "cpu_milli", 1500, "name", "Web-1",
		"image_name", "busybox", "rows", 24, "columns", 80);
}

static void decode_run(struct agent_run *ret)
{
	struct cursor c;

	cursor_init(&c, agent.got.data, agent.got.len);
	EQ_INT(agent_run_decode(&c, ret), 0, "RUN can be read");
}

static void test_run(void)
{
	struct agent_run m = {0};
	struct peer p;

	client_open(&p, "run", run_request());
	uint32_t stream = agent_hears(AGENT_RUN);
	OK(stream > 0, "run: the agent is asked");
	decode_run(&m);
	EQ_INT(m.flags, AGENT_STDIN_OPEN | AGENT_TTY, "with stdin and a terminal");
	EQ_INT(m.size.rows * 1000 + m.size.columns, 24080, "of that size");
	EQ_INT(m.cpu_milli, 1500, "its CPUs");
	EQ_STR(m.name, "Web-1", "its name");
	EQ_STR(m.image_name, "busybox", "the image as it was asked for");
	client_grant(&p, AGENT_WHICH_STDOUT, 100);
	EQ_INT(agent_hears(AGENT_WINDOW), stream, "a window passes");
	agent_says(AGENT_RUN_STARTED, stream, NULL, 0);
	EQ_INT(next_frame(&p)->type, CLIENT_STARTED, "so does the start");
	agent_says(AGENT_STDOUT, stream, "hello", 5);
	EQ_INT(next_frame(&p)->type, CLIENT_STDOUT, "output");
	EQ_INT(p.got.len, 5, "all of it");
	agent_grants(stream, 8192);
	EQ_INT(next_frame(&p)->type, CLIENT_WINDOW, "the agent's window");
	client_say(&p, CLIENT_STDIN, "abc", 3);
	EQ_INT(agent_hears(AGENT_STDIN), stream, "input");
	client_say(&p, CLIENT_STDIN_EOF, NULL, 0);
	EQ_INT(agent_hears(AGENT_STDIN_EOF), stream, "its end");
	client_say(&p, CLIENT_RESIZE, "\1\0\2\0", 4);
	EQ_INT(agent_hears(AGENT_RESIZE), stream, "a new size");
	client_say(&p, CLIENT_SIGNAL, "\2\0\0\0", 4);
	EQ_INT(agent_hears(AGENT_SIGNAL), stream, "a signal");
	agent_exits(stream, AGENT_END_EXITED, 3);
	cleanup_json *result = client_result(&p);
	EQ_STR(str(result, "how"), "exited", "the result says how it ended");
	EQ_INT(json_integer_value(json_object_get(result, "code")), 3, "with its code");
	EQ_STR(str(result, "id"), m.id, "and which container it was");
	cleanup_json *detail = detail_of("run");
	EQ_STR(str(detail, "id"), m.id, "the audit record too");
	EQ_STR(str(detail, "name"), "Web-1", "and its name");
	EQ_INT(ops_count(), 0, "the operation is over");
	agent_run_release(&m);
	client_close(&p);
}

static void test_detached(void)
{
	cleanup_json *request = run_request();
	struct agent_run m = {0};
	struct peer p;

	(void)json_object_set_new(request, "detach", json_true());
	client_open(&p, "run", json_incref(request));
	uint32_t stream = agent_hears(AGENT_RUN);
	decode_run(&m);
	OK(m.flags & AGENT_KEEP, "detached: the container is kept");
	agent_says(AGENT_RUN_STARTED, stream, NULL, 0);
	EQ_INT(next_frame(&p)->type, CLIENT_STARTED, "it starts");
	agent_exits(stream, AGENT_END_DETACHED, 0);
	cleanup_json *result = client_result(&p);
	EQ_STR(str(result, "how"), "detached", "and that is all");
	EQ_STR(str(result, "id"), m.id, "but for its id");
	cleanup_json *detail = detail_of("run");
	OK(json_is_true(json_object_get(detail, "detached")), "the audit record says so");
	client_close(&p);
	EQ_INT(next_frame(&agent)->type, 0, "the client's end ends nothing");
	agent_run_release(&m);

	client_open(&p, "run", json_incref(request));
	stream = agent_hears(AGENT_RUN);
	client_close(&p);
	EQ_INT(next_frame(&agent)->type, 0, "nor when the client ends first");
	agent_exits(stream, AGENT_END_DETACHED, 0);
	cleanup_json *record = last_record("run");
	EQ_STR(str(record, "result"), "ok", "the record is that of a success");
}

static void test_detach_later(void)
{
	struct peer p;

	client_open(&p, "run", run_request());
	uint32_t stream = agent_hears(AGENT_RUN);
	client_say(&p, CLIENT_DETACH, NULL, 0);
	EQ_INT(agent_hears(AGENT_DETACH), stream, "a client that detaches tells the agent");
	agent_exits(stream, AGENT_END_DETACHED, 0);
	cleanup_json *result = client_result(&p);
	EQ_STR(str(result, "how"), "detached", "and is told that it is");
	client_close(&p);
}

/* A client that goes away. */
static void test_gone(void)
{
	struct peer p;

	client_open(&p, "run", run_request());
	uint32_t stream = agent_hears(AGENT_RUN);
	client_close(&p);
	EQ_INT(agent_hears(AGENT_KILL), stream, "gone: a run is killed");
	EQ_INT(agent_hears(AGENT_WINDOW), stream, "what it writes on stdout is let out");
	EQ_INT(agent_hears(AGENT_WINDOW), stream, "and on stderr");
	EQ_INT(ops_count(), 1, "its end is waited for");
	agent_exits(stream, AGENT_END_KILLED, 9);
	EQ_INT(ops_count(), 0, "and comes");
	cleanup_json *record = last_record("run");
	EQ_STR(str(record, "result"), "cancelled", "the record says why");

	for (int i = 0; i < 2; i++) {
		cleanup_json *request = run_request();
		(void)json_object_set_new(request, "timeout_ms", json_integer(i ? 1 : 60000));
		client_open(&p, "run", json_incref(request));
		stream = agent_hears(AGENT_RUN);
		int64_t opened_us = clock_mono_us();
		while (clock_mono_us() < opened_us + 2000)
			;
		client_close(&p);
		while (next_frame(&agent)->type)
			;
		agent_exits(stream, AGENT_END_KILLED, 9);
		cleanup_json *end = last_record("run");
		EQ_STR(str(end, "result"), i ? "timeout" : "cancelled",
			"or that its time had passed");
	}

	client_open(&p, "exec", json_pack("{s:s, s:[s]}", "container", ID, "argv", "sh"));
	stream = agent_hears(AGENT_EXEC);
	client_close(&p);
	EQ_INT(agent_hears(AGENT_KILL), stream, "an exec is killed");
	while (next_frame(&agent)->type)
		;
	agent_exits(stream, AGENT_END_KILLED, 9);

	client_open(&p, "logs", json_pack("{s:s, s:b}", "container", ID, "follow", 1));
	stream = agent_hears(AGENT_LOGS);
	client_close(&p);
	EQ_INT(agent_hears(AGENT_DETACH), stream, "who follows a log is detached");
	EQ_INT(ops_count(), 0, "and is over at once");

	client_open(&p, "container-attach", json_pack("{s:s}", "container", ID));
	stream = agent_hears(AGENT_ATTACH);
	client_close(&p);
	EQ_INT(agent_hears(AGENT_DETACH), stream, "who is attached, too");
	EQ_INT(next_frame(&agent)->type, 0, "and nothing else");
}

/* What the client says while the image is being attached is kept. */
static void test_early(void)
{
	struct err why;
	struct peer p;

	bench_defer_attach = true;
	client_open(&p, "run", run_request());
	client_grant(&p, AGENT_WHICH_STDERR, 50);
	client_say(&p, CLIENT_RESIZE, "\1\0\2\0", 4);
	client_say(&p, CLIENT_STDIN_EOF, NULL, 0);
	client_say(&p, CLIENT_DETACH, NULL, 0);
	EQ_INT(next_frame(&agent)->type, 0, "early: nothing is sent yet");
	bench_attached(NULL);
	bench_step();
	uint32_t stream = agent_hears(AGENT_RUN);
	EQ_INT(agent_hears(AGENT_WINDOW), stream, "then the window");
	EQ_INT(agent_hears(AGENT_RESIZE), stream, "the size");
	EQ_INT(agent_hears(AGENT_STDIN_EOF), stream, "the end of stdin");
	EQ_INT(agent_hears(AGENT_DETACH), stream, "and the wish to be detached follow");
	agent_exits(stream, AGENT_END_DETACHED, 0);
	client_close(&p);

	client_open(&p, "run", run_request());
	client_say(&p, CLIENT_SIGNAL, "\2\0\0\0", 4);
	bench_attached(NULL);
	bench_step();
	EQ_INT(next_frame(&agent)->type, 0, "a signal by then: it does not begin");
	EQ_STR(client_outcome(&p), "cancelled", "and its client is told");
	client_close(&p);

	client_open(&p, "run", run_request());
	(void)err_set(&why, ERR_CANCELLED, 0, "the machine is gone");
	op_fail_of_machine(&bench, &why);
	bench_step();
	EQ_STR(client_outcome(&p), "cancelled", "the machine's end by then ends it");
	bench_attached(&why);
	EQ_INT(ops_count(), 0, "what comes later finds nothing");
	client_close(&p);
	bench_defer_attach = false;
}

static void refused(const char *op, uint16_t opens, uint32_t status, uint32_t fail,
	const char *text, const char *want)
{
	struct peer p;

	client_open(&p, op,
		json_pack("{s:s, s:s, s:[s]}", "container", ID, "image", BENCH_IMAGE, "argv", "x"));
	agent_refuses(AGENT_RUN_FAILED, agent_hears(opens), status, fail, text);
	EQ_STR(client_outcome(&p), want, text);
	client_close(&p);
}

static void test_refused(void)
{
	struct peer p;

	refused("exec", AGENT_EXEC, ENOENT, AGENT_FAIL_SETUP, "no such container: x", "not_found");
	refused("exec", AGENT_EXEC, ESRCH, AGENT_FAIL_SETUP, "it has ended", "state");
	refused("exec", AGENT_EXEC, EBUSY, AGENT_FAIL_SETUP, "it is attached", "state");
	refused("exec", AGENT_EXEC, ENOTUNIQ, AGENT_FAIL_SETUP, "several begin so", "invalid");
	refused("exec", AGENT_EXEC, ENOENT, AGENT_FAIL_NOT_FOUND, "no x in PATH", "cmd_not_found");
	refused("exec", AGENT_EXEC, EACCES, AGENT_FAIL_NOT_EXEC, "x: denied", "cmd_not_exec");
	refused("run", AGENT_RUN, EEXIST, AGENT_FAIL_SETUP, "the name is taken", "exists");
	refused("run", AGENT_RUN, ENOENT, AGENT_FAIL_SETUP, "no user x", "invalid");

	client_open(&p, "wait", json_pack("{s:s}", "container", ID));
	agent_refuses(AGENT_RUN_FAILED, agent_hears(AGENT_WAIT), ENOENT, AGENT_FAIL_SETUP,
		"no such container: \033[31m\xff");
	cleanup_json *result = client_result(&p);
	const json_t *error = json_object_get(result, "error");
	EQ_STR(str(error, "what"), "no such container: \\x1b[31m\\xff", "the text is escaped");
	EQ_STR(str(error, "hint"), "kosa8 sandbox ps " BENCH_BOX, "the hint says what to look at");
	client_close(&p);

	client_open(&p, "run", json_pack("{s:s, s:[s]}", "image", BENCH_IMAGE, "argv", "x"));
	agent_refuses(AGENT_RUN_FAILED, agent_hears(AGENT_RUN), ENOSPC, AGENT_FAIL_SETUP,
		"mount the container's root: No space left on device");
	cleanup_json *full = client_result(&p);
	error = json_object_get(full, "error");
	EQ_STR(str(error, "kind"), "no_space", "a full disk");
	EQ_STR(str(error, "what"),
		"the sandbox's disk is full: mount the container's root: No space left on device",
		"is said");
	OK(strstr(str(error, "hint"), "kosa8 sandbox rm " BENCH_BOX "/CONTAINER"),
		"and what to do");
	client_close(&p);

	client_open(&p, "wait", json_pack("{s:s}", "container", "../x"));
	EQ_STR(client_outcome(&p), "not_found", "what cannot be a name is not asked for");
	EQ_INT(next_frame(&agent)->type, 0, "of the agent");
	client_close(&p);
}

static void test_exec(void)
{
	struct agent_exec m = {0};
	struct cursor c;
	struct peer p;

	client_open(&p, "exec",
		json_pack("{s:s, s:[s, s], s:[s], s:s, s:s, s:i}", "container", "web", "argv", "ls",
			"-l", "env", "A=b", "cwd", "/srv", "user", "www", "timeout_ms", 700));
	uint32_t stream = agent_hears(AGENT_EXEC);
	cursor_init(&c, agent.got.data, agent.got.len);
	EQ_INT(agent_exec_decode(&c, &m), 0, "exec: EXEC can be read");
	EQ_STR(m.container, "web", "its container");
	EQ_STR(m.argv[1], "-l", "its command");
	EQ_STR(m.env[0], "A=b", "its environment");
	EQ_STR(m.cwd, "/srv", "its folder");
	EQ_STR(m.user, "www", "its user");
	EQ_INT(m.timeout_ms, 700, "its timeout");
	agent_exec_release(&m);
	agent_exits(stream, AGENT_END_TIMEOUT, 9);
	cleanup_json *result = client_result(&p);
	EQ_STR(str(result, "how"), "timeout", "its end");
	cleanup_json *detail = detail_of("exec");
	EQ_STR(str(detail, "container"), "web", "the record names the container");
	EQ_STR(json_string_value(json_array_get(json_object_get(detail, "argv"), 0)), "ls",
		"and the command");
	client_close(&p);
}

static void test_ps(void)
{
	struct peer p;

	client_open(&p, "ps", NULL);
	uint32_t stream = agent_hears(AGENT_LIST);
	agent_tells(AGENT_CONTAINER, stream, ID, "web");
	agent_tells(AGENT_CONTAINER, stream, "bbbbbbbbbbbb", "");
	agent_exits(stream, AGENT_END_EXITED, 0);
	cleanup_json *result = client_result(&p);
	const json_t *list = json_object_get(result, "containers");
	EQ_INT(json_array_size(list), 2, "ps: both containers");
	const json_t *first = json_array_get(list, 0);
	EQ_STR(str(first, "id"), ID, "the id");
	EQ_STR(str(first, "state"), "ended", "the state");
	EQ_STR(str(first, "command"), "sh -c \"\\x1b[31m\\xff\"", "the command, escaped");
	EQ_STR(str(first, "how"), "signaled", "how it ended");
	OK(json_is_true(json_object_get(first, "oom")), "for lack of memory");
	OK(json_is_true(json_object_get(first, "kept")), "it is kept");
	EQ_INT(count_records("ps"), 0, "reading is not recorded");
	client_close(&p);
}

static void test_requests(void)
{
	struct err why;
	struct peer p;

	client_open(&p, "kill", json_pack("{s:s, s:i}", "container", "web", "signal", SIGHUP));
	uint32_t number = agent_hears(AGENT_SIGNAL_CONTAINER);
	agent_refuses(AGENT_REPLY, number, 0, 0, "");
	EQ_STR(client_outcome(&p), "ok", "kill: done");
	cleanup_json *detail = detail_of("container.kill");
	EQ_INT(json_integer_value(json_object_get(detail, "signal")), SIGHUP, "and recorded");
	client_close(&p);

	client_open(&p, "kill", json_pack("{s:s, s:i}", "container", "web", "signal", 65));
	OK(strcmp(client_outcome(&p), "ok") != 0, "no signal 65");
	client_close(&p);

	client_open(&p, "container-rm", json_pack("{s:s}", "container", "web"));
	number = agent_hears(AGENT_REMOVE);
	agent_refuses(AGENT_REPLY, number, EBUSY, 0, "it runs");
	EQ_STR(client_outcome(&p), "state", "rm: not what runs");
	client_close(&p);

	client_open(&p, "container-rm", json_pack("{s:s, s:b}", "container", "web", "force", 1));
	number = agent_hears(AGENT_REMOVE);
	(void)err_set(&why, ERR_CANCELLED, 0, "the sandbox was rewound");
	op_fail_of_machine(&bench, &why);
	bench_step();
	EQ_STR(client_outcome(&p), "cancelled", "a rewind ends it");
	agent_refuses(AGENT_REPLY, number, 0, 0, "");
	OK(!bench_broken, "its late answer is no mistake");
	client_close(&p);
}

static void test_copy(void)
{
	struct agent_copy m = {0};
	struct cursor c;
	struct peer p;

	client_open(&p, "copy",
		json_pack("{s:s, s:s, s:[{s:s}], s:[s], s:b}", "kind", "in", "container", "web",
			"path", "hex", "2f61ff", "name", "n", "contents", 1));
	uint32_t stream = agent_hears(AGENT_COPY);
	cursor_init(&c, agent.got.data, agent.got.len);
	EQ_INT(agent_copy_decode(&c, &m), 0, "copy: COPY can be read");
	EQ_INT(m.kind, AGENT_COPY_IN, "its kind");
	EQ_STR(m.path, "/a\xff", "its path");
	EQ_STR(m.name, "n", "its name");
	agent_copy_release(&m);
	agent_grants(stream, 4096);
	EQ_INT(next_frame(&p)->type, CLIENT_WINDOW, "it takes data");
	agent_exits(stream, AGENT_END_EXITED, 0);
	EQ_STR(client_outcome(&p), "ok", "to its end");
	cleanup_json *detail = detail_of("container.cp");
	EQ_STR(str(detail, "direction"), "in", "recorded with the direction");
	EQ_STR(str(detail, "path"), "/a\\xff", "and the path");
	client_close(&p);
}

/* All sessions of a machine end with it. */
static void test_rewind(void)
{
	struct err why;
	struct peer p[3];

	client_open(&p[0], "run", run_request());
	client_open(&p[1], "logs", json_pack("{s:s, s:b}", "container", ID, "follow", 1));
	client_open(&p[2], "wait", json_pack("{s:s}", "container", ID));
	EQ_INT(ops_count(), 3, "rewind: three at once");
	(void)err_set(&why, ERR_CANCELLED, 0, "the sandbox was rewound to checkpoint 1");
	op_fail_of_machine(&bench, &why);
	bench_step();
	for (int i = 0; i < 3; i++) {
		cleanup_json *result = client_result(&p[i]);
		EQ_STR(str(json_object_get(result, "error"), "what"), why.what, "it says why");
		client_close(&p[i]);
	}
	EQ_INT(ops_count(), 0, "none is left");
	for (int i = 0; i < SESSION_BUCKETS; i++)
		if (bench.sessions[i])
			OK(false, "nor known by its stream");
	while (next_frame(&agent)->type)
		;
}

/* A guest that does not answer, and one that cannot as the host's disk is full. */
static void test_unanswered(void)
{
	static const char *const asked[] = {"ps", "kill", "container-rm"};
	static const char *const waits[] = {"logs", "wait", "container-attach"};
	struct peer p;

	for (size_t i = 0; i < 6; i++) {
		bench.disk_full = i >= 3;
		client_open(&p, asked[i % 3],
			json_pack("{s:s, s:i}", "container", "web", "signal", SIGHUP));
		if (i >= 3) {
			EQ_INT(next_frame(&p)->type, CLIENT_NOTICE, "a full disk is told at once");
			p.got.data[p.got.len] = '\0';
			OK(strstr((char *)p.got.data, "the sandbox waits: no space on the host"),
				"in words");
		}
		EQ_INT(next_frame(&p)->type, 0, "it waits");
		OK(bench.ops && bench.ops->limit &&
				uv_timer_get_due_in(bench.ops->limit) <= OP_ANSWER_MS,
			"not for ever");
		op_unanswered(bench.ops);
		bench_step();
		EQ_STR(client_outcome(&p), i >= 3 ? "no_space" : "unavailable", asked[i % 3]);
		client_close(&p);
	}
	for (size_t i = 0; i < 3; i++) {
		client_open(&p, waits[i], json_pack("{s:s}", "container", "web"));
		EQ_INT(next_frame(&p)->type, CLIENT_NOTICE, waits[i]);
		OK(bench.ops && !bench.ops->limit, "waits as long as it takes");
		client_close(&p);
	}
	client_open(&p, "run", run_request());
	EQ_INT(next_frame(&p)->type, CLIENT_NOTICE, "a run is told, too");
	bench.disk_full = false;
	client_close(&p);
	while (next_frame(&agent)->type)
		;
	EQ_INT(ops_count(), 1, "and killed with its client");
	agent_exits(
		bench.ops ? ((struct session *)bench.ops->state)->stream : 0, AGENT_END_KILLED, 9);
	EQ_INT(ops_count(), 0, "all are over");
	client_open(&p, "ps", NULL);
	uint32_t stream = agent_hears(AGENT_LIST);
	agent_exits(stream, AGENT_END_EXITED, 0);
	EQ_STR(client_outcome(&p), "ok", "with space and an answer: no notice, no error");
	client_close(&p);
}

int main(void)
{
	bench_open();
	test_run();
	test_detached();
	test_detach_later();
	test_gone();
	test_early();
	test_refused();
	test_exec();
	test_ps();
	test_requests();
	test_copy();
	test_unanswered();
	test_rewind();
	bench_close();
	return tap_done();
}
