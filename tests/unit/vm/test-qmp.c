/* SPDX-License-Identifier: Apache-2.0 */
/* A scripted QEMU: what it will say is written into the socket beforehand, as the ids of the
 * commands are known (1 is qmp_capabilities). */
#include "vm/qmp.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/sock.h"

#include "tap.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define GREETING "{\"QMP\": {\"version\": {}, \"capabilities\": [\"oob\"]}}\r\n"
#define READY GREETING "{\"return\": {}, \"id\": 1}\r\n"
#define TIMEOUT_MS 50

static struct err e;

/* A client whose QEMU has said `script`; *ret_qemu is QEMU's end. end: and has ended. */
static int client(const char *script, bool end, struct qmp **ret, int *ret_qemu)
{
	int pair[2];

	if (sock_pair(pair) < 0 || fd_write_all(pair[1], script, strlen(script)) < 0)
		return -1;
	if (end)
		(void)shutdown(pair[1], SHUT_WR);
	*ret = NULL;
	*ret_qemu = pair[1];
	return qmp_open(pair[0], TIMEOUT_MS, ret, &e);
}

static void greetings(void)
{
	static const struct {
		const char *script, *what;
		bool end;
		enum err_kind kind; /* ERR_NONE: it works */
	} cases[] = {
		{READY, "a greeting and a reply", false, ERR_NONE},
		{"", "silence", false, ERR_TIMEOUT},
		{"", "an end at once", true, ERR_UNAVAILABLE},
		{"{\"QMP\": {}", "half a greeting", false, ERR_TIMEOUT},
		{"{\"QMP\": {}", "half a greeting and the end", true, ERR_UNAVAILABLE},
		{"hello\n", "something else", false, ERR_PROTOCOL},
		{"{\"return\": {}}\n", "a reply before the greeting", false, ERR_PROTOCOL},
		{"[1]\n", "an array", false, ERR_PROTOCOL},
		{GREETING, "no reply", false, ERR_TIMEOUT},
		{GREETING "{\"return\": {}, \"id\": 7}\n", "the reply to another command", false,
			ERR_PROTOCOL},
		{GREETING "{\"return\": {}}\n", "a reply without an id", false, ERR_PROTOCOL},
		{GREETING "{\"error\": {\"desc\": \"no\"}, \"id\": 1}\n", "a refusal", false,
			ERR_IO},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct qmp *q;
		int qemu;
		int r = client(cases[i].script, cases[i].end, &q, &qemu);
		if (cases[i].kind == ERR_NONE)
			EQ_INT(r, 0, cases[i].what);
		else
			OK(r < 0 && e.kind == cases[i].kind && !q, cases[i].what);
		qmp_free(q);
		(void)fd_close(qemu);
	}
}

static void calls(void)
{
	struct qmp *q;
	int qemu;
	cleanup_json *result = NULL, *event = NULL;
	char sent[4096];

	EQ_INT(client(READY
		       "{\"event\": \"STOP\", \"data\": {}}\n{\"return\": {\"a\": 5}, \"id\": 2}\n"
		       "{\"error\": {\"class\": \"GenericError\", \"desc\": \"bad\\u001b[1m "
		       "No space left on device\"}, \"id\": 3}\n{\"return\": {}, \"id\": 4}\n",
		       false, &q, &qemu),
		0, "a client");
	EQ_INT(qmp_call(q, "one", json_pack("{s:i}", "x", 1), QMP_FD_NONE, &result, &e), 0,
		"a call with an event in between");
	EQ_INT(json_integer_value(json_object_get(result, "a")), 5, "its result");
	event = qmp_event(q);
	EQ_STR(event ? qmp_event_name(event) : "", "STOP", "the event was queued");
	OK(!qmp_event(q), "once");
	OK(qmp_call(q, "two", NULL, QMP_FD_NONE, NULL, &e) < 0 && e.kind == ERR_NO_SPACE,
		"a refusal, with its kind");
	OK(strstr(e.what, "\\x1b") && !strchr(e.what, '\x1b'), "and without control bytes");
	EQ_INT(qmp_call(q, "three", NULL, QMP_FD_NONE, NULL, &e), 0, "the client works on");
	OK(qmp_call(q, "four", NULL, QMP_FD_NONE, NULL, &e) < 0 && e.kind == ERR_TIMEOUT,
		"a call without an answer ends at the deadline");
	OK(qmp_call(q, "five", NULL, QMP_FD_NONE, NULL, &e) < 0 && e.kind == ERR_TIMEOUT,
		"and breaks the client");
	ssize_t n = recv(qemu, sent, sizeof(sent) - 1, MSG_DONTWAIT);
	sent[n < 0 ? 0 : n] = '\0';
	OK(strstr(sent, "{\"arguments\":{\"x\":1},\"execute\":\"one\",\"id\":2}\n"),
		"a command as it was sent");
	OK(strstr(sent, "four") && !strstr(sent, "five"), "a broken client sends nothing");
	qmp_free(q);
	(void)fd_close(qemu);
}

static void descriptors(void)
{
	struct qmp *q;
	int qemu, got[FD_PASS_MAX];
	char data[4096];
	size_t n = 0;
	struct stat a, b;
	cleanup_fd int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	EQ_INT(client(READY "{\"return\": {}, \"id\": 2}\n", false, &q, &qemu), 0, "a client");
	EQ_INT(fd_recv_fds(qemu, data, sizeof(data), got, FD_PASS_MAX, &n) > 0 && n == 0, 1,
		"the first command passes no descriptor");
	EQ_INT(qmp_call(q, "add-fd", NULL, null, NULL, &e), 0, "a call with a descriptor");
	OK(fd_recv_fds(qemu, data, sizeof(data), got, FD_PASS_MAX, &n) > 0 && n == 1,
		"arrives with it");
	OK(n == 1 && fstat(got[0], &a) == 0 && fstat(null, &b) == 0 && a.st_rdev == b.st_rdev,
		"the right one");
	(void)fd_close(n == 1 ? got[0] : -1);
	qmp_free(q);
	(void)fd_close(qemu);
}

static bool is_b(const json_t *event, void *ctx)
{
	return strcmp(qmp_event_name(event), ctx) == 0;
}

static void events(void)
{
	struct qmp *q;
	int qemu;
	cleanup_json *event = NULL;

	EQ_INT(client(READY "{\"event\": \"A\"}\n{\"event\": \"B\"}\n{\"eve", false, &q, &qemu), 0,
		"a client");
	EQ_INT(qmp_wait(q, is_b, (void *)"B", 1000, &event, &e), 0, "an event is waited for");
	json_decref(event);
	event = NULL;
	OK(qmp_wait(q, is_b, (void *)"C", TIMEOUT_MS, &event, &e) < 0 && e.kind == ERR_TIMEOUT,
		"half a line is none");
	qmp_free(q);
	(void)fd_close(qemu);

	EQ_INT(client(READY "{\"event\": \"A\"}\n{\"eve", false, &q, &qemu), 0, "a client");
	EQ_INT(qmp_pump(q, &e), 0, "what is there is read");
	EQ_INT(fd_write_all(qemu, "nt\": \"C\"}\n", 10), 0, "the other half of a line");
	EQ_INT(qmp_pump(q, &e), 0, "is read later");
	EQ_INT(qmp_wait(q, is_b, (void *)"C", 1000, &event, &e), 0, "and makes one event");
	json_decref(event);
	event = NULL;
	EQ_INT(fd_write_all(qemu, "{\"event\": \"D\"}\n", 15), 0, "a last event");
	(void)fd_close(qemu);
	OK(qmp_pump(q, &e) < 0 && e.kind == ERR_UNAVAILABLE, "then the end");
	EQ_INT(qmp_wait(q, is_b, (void *)"D", 1000, &event, &e), 0, "the last event is not lost");
	json_decref(event);
	event = NULL;
	qmp_free(q);
}

static void floods(void)
{
	static char chunk[65536];
	struct qmp *q;
	int qemu, r = 0;

	memset(chunk, 'x', sizeof(chunk));
	EQ_INT(client(READY, false, &q, &qemu), 0, "a client");
	for (int i = 0; i < 20 && r == 0; i++) {
		EQ_INT(fd_write_all(qemu, chunk, sizeof(chunk)), 0, "more of an endless line");
		r = qmp_pump(q, &e);
	}
	OK(r < 0 && e.kind == ERR_PROTOCOL, "breaks the client");
	qmp_free(q);
	(void)fd_close(qemu);

	EQ_INT(client(READY, false, &q, &qemu), 0, "a client");
	r = 0;
	for (int i = 0; i <= QMP_EVENTS_MAX && r == 0; i++)
		r = fd_write_all(qemu, "{\"event\": \"A\"}\n", 15);
	EQ_INT(r, 0, "one event more than are kept");
	OK(qmp_pump(q, &e) < 0 && e.kind == ERR_PROTOCOL, "breaks the client");
	qmp_free(q);
	(void)fd_close(qemu);

	EQ_INT(client(READY "{\"return\": {}, \"id\": 2}\n", false, &q, &qemu), 0, "a client");
	OK(qmp_pump(q, &e) < 0 && e.kind == ERR_PROTOCOL, "a reply that nobody waits for");
	qmp_free(q);
	(void)fd_close(qemu);
}

/* QEMU does not read: the call ends at its deadline, not in write(2). */
static void not_reading(void)
{
	static char text[900000];
	struct qmp *q;
	int qemu;

	memset(text, 'x', sizeof(text) - 1);
	EQ_INT(client(READY, false, &q, &qemu), 0, "a client");
	int64_t from = clock_mono_ms();
	OK(qmp_call(q, "long", json_pack("{s:s}", "x", text), QMP_FD_NONE, NULL, &e) < 0 &&
			e.kind == ERR_TIMEOUT,
		"a command that is not read");
	OK(clock_mono_ms() - from < 10000, "in time");
	qmp_free(q);
	(void)fd_close(qemu);
}

int main(void)
{
	greetings();
	calls();
	descriptors();
	events();
	floods();
	not_reading();
	return tap_done();
}
