/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions against an agent, and clients, that do what they may not. */
#include "bench.h"

#include "tap.h"

#include <stdlib.h>

#define ID "aaaaaaaaaaaa"

static uint32_t open_run(struct peer *p)
{
	while (next_frame(&agent)->type)
		;
	client_open(p, "run",
		json_pack("{s:s, s:[s], s:b}", "image", BENCH_IMAGE, "argv", "sh", "stdin", 1));
	return agent_hears(AGENT_RUN);
}

static uint32_t open_look(struct peer *p, const char *op, uint16_t opens)
{
	while (next_frame(&agent)->type)
		;
	client_open(p, op, json_pack("{s:s}", "container", ID));
	return agent_hears(opens);
}

static void ends_badly(struct peer *p, const char *what)
{
	EQ_STR(client_outcome(p), "protocol", what);
	EQ_INT(ops_count(), 0, "it is over");
	OK(!bench_broken, "the others are not");
	client_close(p);
}

static void test_data(void)
{
	struct peer p;
	uint32_t stream = open_run(&p);

	agent_says(AGENT_STDOUT, stream, "x", 1);
	ends_badly(&p, "data without a window");

	stream = open_run(&p);
	client_grant(&p, AGENT_WHICH_STDOUT, 4);
	agent_says(AGENT_STDOUT, stream, "1234", 4);
	EQ_INT(next_frame(&p)->type, CLIENT_STDOUT, "control: as much as was granted");
	agent_says(AGENT_STDOUT, stream, "5", 1);
	ends_badly(&p, "more data than was granted");

	stream = open_look(&p, "logs", AGENT_LOGS);
	client_grant(&p, AGENT_WHICH_STDERR, 100);
	agent_says(AGENT_STDERR, stream, "x", 1);
	ends_badly(&p, "data of a stream that a log has not");

	stream = open_look(&p, "wait", AGENT_WAIT);
	client_grant(&p, AGENT_WHICH_STDOUT, 100);
	agent_says(AGENT_STDOUT, stream, "x", 1);
	ends_badly(&p, "data for who waits");
}

static void test_containers(void)
{
	struct peer p;
	uint32_t stream = open_run(&p);
	char id[16];

	agent_tells(AGENT_CONTAINER, stream, ID, "");
	ends_badly(&p, "a container for a run");

	static const struct {
		const char *id, *name, *what;
	} cases[] = {
		{"short", "", "an id that is too short"},
		{"AAAAAAAAAAAA", "", "an id of other characters"},
		{ID, "../x", "a name that is none"},
		{ID, "\xff", "a name that is no text"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		client_open(&p, "ps", NULL);
		stream = agent_hears(AGENT_LIST);
		agent_tells(AGENT_CONTAINER, stream, cases[i].id, cases[i].name);
		ends_badly(&p, cases[i].what);
	}
	client_open(&p, "ps", NULL);
	stream = agent_hears(AGENT_LIST);
	agent_says(AGENT_CONTAINER, stream, "x", 1);
	ends_badly(&p, "a container that cannot be read");

	client_open(&p, "ps", NULL);
	stream = agent_hears(AGENT_LIST);
	for (int i = 0; i < AGENT_CONTAINERS_MAX; i++) {
		(void)snprintf(id, sizeof(id), "%012d", i);
		agent_tells(AGENT_CONTAINER, stream, id, "");
	}
	EQ_INT(ops_count(), 1, "as many containers as there may be");
	agent_tells(AGENT_CONTAINER, stream, ID, "");
	ends_badly(&p, "one more");
}

/* Small frames do not add up in the client's queue. */
static void test_floods(void)
{
	struct peer p;
	uint32_t stream = open_run(&p);
	size_t frames = 0, bytes = 0;

	for (int i = 0; i < 100; i++)
		agent_says(AGENT_RUN_STARTED, stream, NULL, 0);
	EQ_INT(next_frame(&p)->type, CLIENT_STARTED, "it started");
	EQ_INT(next_frame(&p)->type, 0, "once");

	for (int i = 0; i < 5000; i++)
		agent_grants(stream, 1);
	while (next_frame(&p)->type == CLIENT_WINDOW) {
		frames++;
		bytes += p.got.data[4] | (size_t)p.got.data[5] << 8;
	}
	OK(frames <= 3, "windows of a byte are told together");
	OK(bytes > 4000 && bytes <= 5000, "and none is made up");

	unsigned char input[4096] = {0};
	client_say(&p, CLIENT_STDIN, input, bytes > sizeof(input) ? sizeof(input) : bytes);
	client_say(&p, CLIENT_STDIN, input, bytes - sizeof(input));
	EQ_INT(next_frame(&p)->type, CLIENT_WINDOW, "the rest when the client has none left");

	for (int i = 0; i < 100; i++)
		agent_grants(stream, AGENT_WINDOW_MAX);
	frames = 0;
	while (next_frame(&p)->type == CLIENT_WINDOW)
		frames++;
	OK(frames <= 1, "no window beyond the maximum");
	agent_exits(stream, AGENT_END_EXITED, 0);
	EQ_STR(client_outcome(&p), "ok", "and it ends well");
	client_close(&p);
}

/* One byte a frame, and a client that does not read: what waits is no more than a few windows. */
static void test_slow_reader(void)
{
	struct peer p;
	uint32_t stream = open_run(&p);
	size_t bytes = 0, frames = 0;

	client_grant(&p, AGENT_WHICH_STDOUT, AGENT_WINDOW_MAX);
	for (int i = 0; i < 30000; i++) {
		cleanup_buf struct buf b = {0};
		buf_init(&b, 64);
		frame_put(&b, AGENT_STDOUT, stream, 1, "x", 1);
		(void)!write(agent.fd, b.data, b.len);
		if (i % 100 == 0)
			bench_step();
	}
	bench_step();
	while (next_frame(&p)->type == CLIENT_STDOUT) {
		bytes += p.got.len;
		frames++;
	}
	EQ_INT(bytes, 30000, "every byte arrives");
	OK(frames < 3000, "those that waited in few frames");
	agent_exits(stream, AGENT_END_EXITED, 0);
	EQ_STR(client_outcome(&p), "ok", "and the end");
	client_close(&p);
}

static void test_unknown(void)
{
	struct peer p;
	uint32_t stream = open_run(&p);

	agent_says(AGENT_STDOUT, 4000000000u, "x", 1);
	agent_exits(stream + 256, AGENT_END_EXITED, 0);
	agent_exits(0, AGENT_END_EXITED, 0);
	EQ_INT(ops_count(), 1, "frames of other streams are ignored");
	agent_exits(stream, AGENT_END_EXITED, 0);
	EQ_STR(client_outcome(&p), "ok", "those of this one are not");
	client_close(&p);

	static const uint16_t types[] = {AGENT_RUN_EXIT, AGENT_RUN_FAILED};
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		stream = open_run(&p);
		agent_says(types[i], stream, "short", 5);
		ends_badly(&p, "an end that cannot be read");
	}
}

/* A guest reports as many ends of containers as there can be, and not one more. */
static void test_ends(void)
{
	size_t before = count_records("container.end");
	char id[16];

	bench.ends_left = 3;
	agent_tells(AGENT_ENDED, 0, "x", "");
	agent_says(AGENT_ENDED, 0, "x", 1);
	for (int i = 0; i < 10; i++) {
		(void)snprintf(id, sizeof(id), "%012d", i);
		agent_tells(AGENT_ENDED, 0, id, "web");
	}
	EQ_INT(count_records("container.end") - before, 3, "three ends are recorded");
	cleanup_json *record = last_record("container.end");
	const json_t *detail = json_object_get(record, "detail");
	EQ_STR(json_string_value(json_object_get(detail, "id")), "000000000002", "the first three");
	EQ_STR(json_string_value(json_object_get(detail, "name")), "web", "with the name");
	EQ_STR(json_string_value(json_object_get(detail, "how")), "signaled", "and how");
	OK(json_is_true(json_object_get(detail, "oom")), "and why");
}

static void client_breaks(uint16_t type, const void *data, size_t len, const char *what)
{
	struct peer p;
	uint32_t stream = open_run(&p);

	client_say(&p, type, data, len);
	EQ_STR(client_outcome(&p), "protocol", what);
	EQ_INT(agent_hears(AGENT_KILL), stream, "what it started is killed");
	agent_exits(stream, AGENT_END_KILLED, 9);
	EQ_INT(ops_count(), 0, "and over");
	client_close(&p);
}

static void test_clients(void)
{
	struct peer p;

	client_breaks(CLIENT_STDIN, "x", 1, "input without a window");
	client_breaks(CLIENT_SIGNAL, "\0\0\0\0", 4, "signal 0");
	client_breaks(CLIENT_SIGNAL, "\1", 1, "half a signal");
	client_breaks(CLIENT_RESIZE, "\1", 1, "half a size");
	client_breaks(CLIENT_WINDOW, "\1\0\0\0\1\0\20\0", 8, "a window over the maximum");
	client_breaks(CLIENT_WINDOW, "\0\0\0\0\1\0\0\0", 8, "a window for its own stdin");
	client_breaks(CLIENT_STDOUT, "x", 1, "a frame of the other direction");
	uint32_t stream = open_look(&p, "wait", AGENT_WAIT);
	client_say(&p, CLIENT_SIGNAL, "\2\0\0\0", 4);
	EQ_STR(client_outcome(&p), "protocol", "a signal to nothing");
	EQ_INT(agent_hears(AGENT_DETACH), stream, "who waited is gone");
	client_close(&p);
}

int main(void)
{
	bench_open();
	test_data();
	test_containers();
	test_floods();
	test_slow_reader();
	test_unknown();
	test_ends();
	test_clients();
	bench_close();
	return tap_done();
}
