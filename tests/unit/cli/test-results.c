/* SPDX-License-Identifier: Apache-2.0 */
/* What a supervisor and the image worker say at the end. */
#include "cli/image-worker.h"
#include "cli/stream.h"

#include "tap.h"

#define DIGEST "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

#define RESULT(members) "{\"ok\":true,\"digest\":\"" DIGEST "\",\"size\":5," members "}"

static int status_of(const char *json)
{
	struct stream_options o = {.verb = "run", .timeout = "3s"};
	cleanup_json *result = json_loads(json, 0, NULL);
	struct err e;

	return stream_status(result, "box", &o, &e);
}

static void test_status(void)
{
	EQ_INT(status_of("{\"how\":\"exited\",\"code\":7}"), 7, "its own status");
	EQ_INT(status_of("{\"how\":\"signaled\",\"code\":15}"), 143, "a signal");
	EQ_INT(status_of("{\"how\":\"timeout\",\"code\":0}"), 124, "a timeout");
	EQ_INT(status_of("{\"how\":\"killed\",\"code\":0}"), 137, "killed");
	OK(status_of("{\"how\":\"vanished\",\"code\":0}") < 0, "no way to end");
	OK(status_of("{\"how\":\"exited\",\"code\":256}") < 0, "no status");
	OK(status_of("{\"how\":\"exited\",\"code\":-1}") < 0, "a negative one");
	OK(status_of("{\"run\":{}}") < 0, "none of it");
}

static int line(const char *text, struct image_gots *g)
{
	struct progress p;
	struct err e;

	progress_init(&p, PROGRESS_NONE);
	return image_worker_line(text, strlen(text), &p, g, &e);
}

static void test_worker_lines(void)
{
	struct image_gots g = {0};

	EQ_INT(line("{\"event\":\"layer\",\"digest\":\"" DIGEST "\",\"size\":1,\"done\":1}", &g), 0,
		"progress");
	EQ_INT(line("{\"event\":\"something new\"}", &g), 0, "an event that is not known");
	OK(line("{\"event\":\"layer\",\"digest\":7}", &g) < 0, "a digest that is none");
	OK(line("{\"event\":\"layer\",\"digest\":\"\\u001b[2J\"}", &g) < 0, "nor one of text");
	OK(line("{}", &g) < 0 && line("[1]", &g) < 0 && line("x", &g) < 0, "no event, no object");
	EQ_INT(g.len, 0, "nothing was taken");
	EQ_INT(line("{\"ok\":true,\"digest\":\"" DIGEST "\",\"ref\":null,\"config\":{\"b\":1,"
		    "\"a\":2},\"size\":5,\"cached\":true,\"blobs\":[]}",
		       &g),
		1, "a result");
	OK(g.len == 1 && g.items[0].cached && !g.items[0].ref && g.items[0].size_bytes == 5 &&
			strcmp(g.items[0].digest, DIGEST) == 0,
		"with its members");
	EQ_STR(g.items[0].config, "{\"a\":2,\"b\":1}", "and its configuration");
	EQ_STR(g.items[0].platform, "linux/amd64", "of this machine's platform when it says none");
	image_gots_release(&g);
	EQ_INT(line(RESULT("\"config\":{\"os\":\"linux\",\"architecture\":\"arm\","
			   "\"variant\":\"v7\"},\"blobs\":[{\"digest\":\"" DIGEST
			   "\",\"size\":3}]"),
		       &g),
		1, "with blobs");
	EQ_STR(g.items[0].platform, "linux/arm/v7", "of another platform");
	OK(g.items[0].blobs_len == 1 && g.items[0].blobs[0].size_bytes == 3, "one blob");
	image_gots_release(&g);
	OK(line(RESULT("\"config\":{},\"blobs\":[{\"digest\":\"" DIGEST "\",\"size\":3},"
		       "{\"digest\":\"" DIGEST "\",\"size\":3}]"),
		   &g) < 0,
		"a blob twice");
	OK(line(RESULT("\"config\":{},\"blobs\":[{\"digest\":\"../../x\",\"size\":3}]"), &g) < 0,
		"a blob that is a path");
	OK(line(RESULT("\"config\":{},\"blobs\":[{\"digest\":\"" DIGEST "\",\"size\":-1}]"), &g) <
			0,
		"a blob of less than nothing");
	OK(line(RESULT("\"config\":{},\"blobs\":{}"), &g) < 0, "no list");
	OK(line(RESULT("\"config\":{}"), &g) < 0, "none at all");
	OK(line(RESULT("\"config\":{\"architecture\":\"0123456789abcdef0\"},\"blobs\":[]"), &g) < 0,
		"an architecture that is too long");
	OK(line("{\"ok\":true,\"digest\":\"sha256:../../x\",\"config\":{},\"size\":5}", &g) < 0,
		"a digest that is a path");
	OK(line("{\"ok\":true,\"digest\":\"" DIGEST "\",\"config\":[],\"size\":5}", &g) < 0,
		"a configuration that is none");
	OK(line("{\"ok\":false,\"error\":{\"kind\":\"denied\",\"what\":\"no\"}}", &g) < 0,
		"an error");
	OK(line("{\"ok\":false}", &g) < 0, "an error without one");
	image_gots_release(&g);
	EQ_INT(line("{\"ok\":true,\"images\":[]}", &g), 1, "an archive without images");
	EQ_INT(g.len, 0, "gives none");
	image_gots_release(&g);
}

int main(void)
{
	test_status();
	test_worker_lines();
	return tap_done();
}
