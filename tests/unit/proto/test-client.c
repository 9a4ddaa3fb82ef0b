/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/client.h"

#include "base/strv.h"

#include "tap.h"

static int round_trip(const struct client_run *run, struct client_run *ret, json_t **ret_request)
{
	struct err e;

	*ret_request = json_object();
	if (client_run_encode(run, *ret_request) < 0)
		return -1;
	return client_run_decode(*ret_request, ret, &e);
}

static void test_exact_arguments(void)
{
	char *argv[] = {"a b", "$HOME", "", "n\nl", "\xff\xfe raw", NULL},
	     *env[] = {"K=\x80", NULL};
	struct client_run run = {
		.image = "sha256:ab", .argv = argv, .env = env, .stdin_open = true};
	struct client_run got = {0};
	cleanup_json *request = NULL;

	EQ_INT(round_trip(&run, &got, &request), 0, "a request with arguments of any bytes");
	EQ_INT(strv_len(got.argv), 5, "all of them");
	for (int i = 0; got.argv && i < 5; i++)
		EQ_STR(got.argv[i], argv[i], "each as it was");
	EQ_STR(got.env ? got.env[0] : NULL, "K=\x80", "the environment too");
	OK(got.stdin_open && !got.entrypoint && !got.cwd, "what was not given stays so");
	client_run_release(&got);
}

static void refused(const char *text, const char *what)
{
	cleanup_json *request = json_loads(text, JSON_ALLOW_NUL, NULL);
	struct client_run got = {0};
	struct err e;

	OK(request && client_run_decode(request, &got, &e) < 0, what);
	client_run_release(&got);
}

static void test_refused(void)
{
	refused("{\"argv\":[],\"env\":[]}", "no image");
	refused("{\"image\":\"x\",\"argv\":[7]}", "an argument that is a number");
	refused("{\"image\":\"x\",\"argv\":[{\"hex\":\"6\"}]}", "half a byte");
	refused("{\"image\":\"x\",\"argv\":[{\"hex\":\"00\"}]}", "a NUL byte in hex");
	refused("{\"image\":\"x\",\"argv\":[\"a\\u0000b\"]}", "a NUL byte in a string");
	refused("{\"image\":\"x\",\"argv\":{}}", "arguments that are no array");
	refused("{\"image\":\"x\",\"timeout_ms\":-1}", "a negative time");
}

static void test_errors(void)
{
	struct err e, back;

	(void)err_set(&e, ERR_EXISTS, 17, "the name x is taken");
	(void)err_hint(&e, "another one");
	cleanup_json *j = client_error_encode(&e);
	client_error_decode(j, &back);
	EQ_INT(back.kind, ERR_EXISTS, "an error's kind");
	EQ_INT(back.errnum, 17, "its number");
	EQ_STR(back.what, "the name x is taken", "its text");
	EQ_STR(back.hint, "another one", "its hint");
	cleanup_json *none = json_object();
	client_error_decode(none, &back);
	EQ_INT(back.kind, ERR_PROTOCOL, "an error that cannot be read is one too");
}

int main(void)
{
	test_exact_arguments();
	test_refused();
	test_errors();
	return tap_done();
}
