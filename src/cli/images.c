/* SPDX-License-Identifier: Apache-2.0 */
#include "images.h"

#include "output.h"
#include "progress.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/install.h"
#include "../base/spawn.h"
#include "../base/strv.h"
#include "../base/text.h"
#include "../proto/client.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINE_MAX_BYTES (9u * 1024 * 1024) /* the last line holds the image's configuration */
#define READ_CHUNK (64u * 1024)
#define LOADED_MAX 256 /* images of one archive */

static int out_of_memory(struct err *e)
{
	return err_set(e, ERR_IO, ENOMEM, "out of memory");
}

void image_gots_release(struct image_gots *g)
{
	for (size_t i = 0; i < g->len; i++) {
		free(g->items[i].ref);
		free(g->items[i].config);
	}
	free(g->items);
	*g = (struct image_gots){0};
}

static int add_got(const json_t *o, struct image_gots *g, struct err *e)
{
	cleanup_buf struct buf b = {0};
	json_t *config;
	const char *digest, *ref;
	uint64_t size;
	bool cached;
	int r;

	if ((r = json_get_str(o, "digest", REFERENCE_DIGEST_SIZE - 1, &digest, e)) < 0 ||
		(r = json_get_str_or(o, "ref", REFERENCE_CANONICAL_SIZE, NULL, &ref, e)) < 0 ||
		(r = json_get_object(o, "config", &config, e)) < 0 ||
		(r = json_get_u64(o, "size", INT64_MAX, &size, e)) < 0 ||
		(r = json_get_bool_or(o, "cached", false, &cached, e)) < 0)
		return r;
	if (!reference_is_digest(digest))
		return err_set(e, ERR_PROTOCOL, 0, "\"digest\" is not a digest");
	buf_init(&b, LINE_MAX_BYTES);
	json_put_canonical(&b, config);
	struct image_got *items = realloc(g->items, (g->len + 1) * sizeof(*items));
	if (!items)
		return out_of_memory(e);
	g->items = items;
	struct image_got *got = &items[g->len++];
	*got = (struct image_got){.size_bytes = size, .cached = cached};
	memcpy(got->digest, digest, strlen(digest) + 1);
	got->config = buf_take_cstr(&b);
	got->ref = ref ? strdup(ref) : NULL;
	return !got->config || (ref && !got->ref) ? out_of_memory(e) : 0;
}

static int take_result(const json_t *o, struct image_gots *ret, struct err *e)
{
	json_t *images, *item;
	bool ok;
	size_t i;
	int r = json_get_bool_or(o, "ok", false, &ok, e);

	if (r < 0)
		return r;
	if (!ok) {
		client_error_decode(json_object_get(o, "error"), e);
		return err_code(e);
	}
	if (!json_object_get(o, "images"))
		return add_got(o, ret, e);
	if ((r = json_get_array(o, "images", LOADED_MAX, &images, e)) < 0)
		return r;
	json_array_foreach (images, i, item)
		if ((r = add_got(item, ret, e)) < 0)
			return r;
	return 0;
}

static int take_event(const json_t *o, struct progress *p, struct err *e)
{
	const char *event = NULL, *text;
	uint64_t size, done;
	int r;

	if ((r = json_get_str(o, "event", 32, &event, e)) < 0)
		return r;
	if (strcmp(event, "layer") == 0) {
		if ((r = json_get_str(o, "digest", 256, &text, e)) < 0 ||
			(r = json_get_u64_or(o, "size", INT64_MAX, 0, &size, e)) < 0 ||
			(r = json_get_u64_or(o, "done", INT64_MAX, 0, &done, e)) < 0)
			return r;
		progress_layer(p, text, size, done);
	} else if (strcmp(event, "convert") == 0) {
		if ((r = json_get_u64_or(o, "bytes", INT64_MAX, 0, &size, e)) < 0)
			return r;
		progress_convert(p, size);
	} else if (strcmp(event, "notice") == 0) {
		if ((r = json_get_str(o, "text", 4096, &text, e)) < 0)
			return r;
		progress_notice(p, text);
	}
	return 0;
}

int image_worker_line(
	const char *line, size_t len, struct progress *p, struct image_gots *ret, struct err *e)
{
	cleanup_json *o = NULL;
	int r = json_parse_object(line, len, "kosa8-image's line", &o, e);

	if (r < 0)
		return r;
	if (!json_object_get(o, "ok"))
		return take_event(o, p, e);
	r = take_result(o, ret, e);
	return r < 0 ? r : 1;
}

/* Reads lines until the last one: 1, or the end of the stream: 0. */
static int read_lines(int fd, struct progress *p, struct image_gots *ret, struct err *e)
{
	cleanup_buf struct buf b = {0};
	size_t scanned = 0;
	char *newline;

	buf_init(&b, LINE_MAX_BYTES);
	for (;;) {
		size_t len = b.len;
		char *to = buf_extend(&b, READ_CHUNK);
		if (!to)
			return err_set(
				e, ERR_PROTOCOL, 0, "kosa8-image wrote a line that is too long");
		ssize_t n = read(fd, to, READ_CHUNK);
		b.len = len + (n > 0 ? (size_t)n : 0);
		if (n < 0 && errno != EINTR)
			return err_errno(e, errno, "reading from kosa8-image");
		if (n == 0)
			return 0;
		while ((newline = memchr(b.data + scanned, '\n', b.len - scanned))) {
			size_t line = (size_t)(newline - (char *)b.data);
			int r = image_worker_line((char *)b.data, line, p, ret, e);
			if (r != 0)
				return r;
			buf_consume(&b, line + 1);
			scanned = 0;
		}
		scanned = b.len;
	}
}

static int worker_start(char *const *argv, int stdout_fd, pid_t *ret_pid, struct err *e)
{
	struct spawn s = {.argv = argv,
		.fds = {STDIN_FILENO, stdout_fd, STDERR_FILENO},
		.fds_len = 3,
		.die_with_parent = true};

	return spawn_start(&s, ret_pid, NULL, e);
}

static int worker_argv(
	const struct context *c, const char *verb, const char *operand, char ***ret, struct err *e)
{
	char program[PATH_MAX];
	cleanup_strv char **argv = strv_new();
	cleanup_fd int images = home_images_dir(&c->home, e); /* made when missing */
	int r = images < 0 ? images : install_program("kosa8-image", program, sizeof(program), e);

	if (r < 0)
		return r;
	if (!argv || strv_add(&argv, program) < 0 || strv_add(&argv, verb) < 0 ||
		strv_add(&argv, "--images-dir") < 0 ||
		strv_addf(&argv, "%s/images", c->home.path) < 0 || strv_add(&argv, "--") < 0 ||
		strv_add(&argv, operand) < 0)
		return out_of_memory(e);
	*ret = strv_take(&argv);
	return 0;
}

int image_worker_run(const struct context *c, const char *verb, const char *operand, bool quiet,
	struct image_gots *ret, struct err *e)
{
	cleanup_strv char **argv = NULL;
	struct progress progress;
	int pipefd[2];
	pid_t pid;
	int r = worker_argv(c, verb, operand, &argv, e);

	if (r < 0)
		return r;
	if (pipe2(pipefd, O_CLOEXEC) < 0)
		return err_errno(e, errno, "cannot start kosa8-image");
	cleanup_fd int in = pipefd[0];
	r = worker_start(argv, pipefd[1], &pid, e);
	(void)fd_close(pipefd[1]);
	if (r < 0)
		return r;
	progress_init(&progress, quiet);
	r = read_lines(in, &progress, ret, e);
	progress_end(&progress);
	in = fd_close(in);
	if (r < 0)
		(void)kill(pid, SIGKILL);
	int code = spawn_wait(pid);
	if (r == 0)
		return err_set(e, ERR_UNAVAILABLE, 0,
			code > 128 ? "kosa8-image was ended by signal %d"
				   : "kosa8-image ended without a result (status %d)",
			code > 128 ? code - 128 : code);
	return r < 0 ? r : 0;
}

int image_put(const struct context *c, const struct image_got *got, const char *ref, struct err *e)
{
	char name[REFERENCE_DIGEST_SIZE];
	struct stat st;
	cleanup_fd int dirfd = home_images_dir(&c->home, e);

	if (dirfd < 0)
		return dirfd;
	(void)snprintf(name, sizeof(name), "%s.sqfs", strchr(got->digest, ':') + 1);
	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_errno(e, errno, "kosa8-image left no file %.20s...", name);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_CORRUPT, 0, "images/%s is not a file", name);
	return catalog_image_put(
		c->catalog, got->digest, got->config, (uint64_t)st.st_size, ref, e);
}

int image_find(const struct context *c, const char *text, struct image_row *ret,
	struct reference *ret_ref, struct err *e)
{
	char canonical[REFERENCE_CANONICAL_SIZE];
	struct err second;
	int r;

	*ret_ref = (struct reference){0};
	if (reference_is_digest(text))
		return catalog_image_find(c->catalog, text, ret, e);
	if ((r = reference_parse(text, ret_ref, e)) < 0)
		return r;
	reference_canonical(ret_ref, canonical);
	r = catalog_image_find(c->catalog, canonical, ret, e);
	if (r < 0 && e->kind == ERR_NOT_FOUND && *ret_ref->digest &&
		catalog_image_find(c->catalog, ret_ref->digest, ret, &second) >= 0)
		return 0;
	return r;
}

/* The digest as the "image" of a record's bound. */
static json_t *bound_image(const char *digest)
{
	return json_pack("{s:s}", "image", digest);
}

static int pull(struct context *c, const struct sandbox *s, const char *canonical, bool quiet,
	struct image_gots *gots, struct err *e)
{
	int r = image_worker_run(c, "pull", canonical, quiet, gots, e);

	if (r < 0)
		return r;
	if (gots->len != 1)
		return err_set(e, ERR_PROTOCOL, 0, "kosa8-image pulled %zu images", gots->len);
	if ((r = image_put(c, gots->items, canonical, e)) < 0)
		return r;
	return catalog_sandbox_image_add(c->catalog, s->row.id, gots->items->digest, e);
}

int image_pull(struct context *c, const struct sandbox *s, const struct reference *ref, bool quiet,
	char ret_digest[static REFERENCE_DIGEST_SIZE], struct err *e)
{
	char canonical[REFERENCE_CANONICAL_SIZE], size[TEXT_SIZE_MAX];
	cleanup_image_gots struct image_gots gots = {0};

	reference_canonical(ref, canonical);
	cleanup_json *detail = json_pack("{s:s}", "ref", canonical);
	cleanup_json *bound = NULL;
	struct action a = {.event = {.action = "image.pull",
				   .sandbox = s->row.name,
				   .sandbox_id = s->row.id,
				   .detail = detail}};
	int r = action_begin(c, &a, e);
	if (r < 0)
		return r;
	r = pull(c, s, canonical, quiet, &gots, e);
	if (r >= 0)
		a.event.bound = bound = bound_image(gots.items->digest);
	if ((r = action_end(c, &a, r, e)) < 0)
		return r;
	memcpy(ret_digest, gots.items->digest, REFERENCE_DIGEST_SIZE);
	text_size(gots.items->size_bytes, size);
	if (!quiet)
		output_notice("%s: %s (%s)", canonical,
			gots.items->cached ? "up to date" : "pulled", size);
	return 0;
}

static json_t *rows_json(const struct image_rows *rows)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < rows->len; i++) {
		const struct image_row *row = &rows->rows[i];
		char created[CLOCK_RFC3339_SIZE];
		clock_rfc3339(row->created_ns, created);
		(void)json_array_append_new(
			list, json_pack("{s:s, s:o, s:I, s:s}", "digest", row->digest, "refs",
				      json_from_strv(row->refs), "size_bytes",
				      (json_int_t)row->size_bytes, "created", created));
	}
	return list;
}

static void add_rows(struct table *t, const struct image_row *row)
{
	char created[OUTPUT_TIME_SIZE], size[TEXT_SIZE_MAX], digest[20];
	char *none[] = {"<none>", NULL};

	output_time(row->created_ns, created);
	text_size(row->size_bytes, size);
	(void)snprintf(digest, sizeof(digest), "%.19s", row->digest);
	for (char **ref = row->refs && *row->refs ? row->refs : none; *ref; ref++) {
		const char *const cells[] = {*ref, digest, size, created};
		table_row(t, SHADE_NONE, cells);
	}
}

int image_rows_print(const struct image_rows *rows, bool json, struct err *e)
{
	static const char *const headers[] = {"IMAGE", "DIGEST", "SIZE", "CREATED", NULL};
	cleanup_table struct table t = {0};

	if (json)
		return output_json(rows_json(rows), e);
	table_init(&t, headers, TABLE_COLUMNS_MAX);
	for (size_t i = 0; i < rows->len; i++)
		add_rows(&t, &rows->rows[i]);
	return table_print(&t, e);
}
