/* SPDX-License-Identifier: Apache-2.0 */
/* system df. */
#include "commands.h"

#include "context.h"
#include "output.h"

#include "../base/fd.h"
#include "../base/text.h"
#include "../proto/images-dir.h"
#include "../store/image-sweep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX 16

struct usage {
	const char *name;
	uint64_t count;
	uint64_t bytes; /* allocated: sparse files count what they hold */
};

enum { IMAGES, UNFINISHED, SANDBOXES, CHECKPOINTS, TEMPLATES, AUDIT, OTHER, USAGE_COUNT };

/* Calls fn for all below fd, which is taken; path: of that folder, "" at the top. What vanishes
 * meanwhile is not there. */
typedef void visit_fn(void *ctx, const char *path, const struct stat *st);

static void walk(int fd, const char *path, int depth, visit_fn *fn, void *ctx)
{
	DIR *d = fd < 0 || depth > DEPTH_MAX ? NULL : fdopendir(fd);
	char below[PATH_MAX];
	struct dirent *de;
	struct stat st;

	if (!d) {
		(void)fd_close(fd);
		return;
	}
	while ((de = readdir(d))) {
		if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0 ||
			fstatat(dirfd(d), de->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		(void)snprintf(below, sizeof(below), "%s%s%s", path, *path ? "/" : "", de->d_name);
		fn(ctx, below, &st);
		if (S_ISDIR(st.st_mode))
			walk(openat(dirfd(d), de->d_name,
				     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
				below, depth + 1, fn, ctx);
	}
	(void)closedir(d);
}

static uint64_t bytes_of(const struct stat *st)
{
	return (uint64_t)st->st_blocks * 512;
}

static void visit_any(void *ctx, const char *path, const struct stat *st)
{
	struct usage *u = ctx;

	u->count += !strchr(path, '/');
	u->bytes += bytes_of(st);
}

/* A folder whose name has no dot is a finished template. */
static void visit_template(void *ctx, const char *path, const struct stat *st)
{
	struct usage *u = ctx;

	u->count += !strpbrk(path, "/.");
	u->bytes += bytes_of(st);
}

static void add_folder(struct usage *u, int dirfd, const char *name)
{
	walk(openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC), "", 0, visit_any, u);
}

struct images_usage {
	const struct image_files *files;
	struct usage *kept, *unfinished;
};

/* The folders themselves count with the images; what a worker that is at work has is unfinished. */
static void visit_image(void *ctx, const char *path, const struct stat *st)
{
	struct images_usage *u = ctx;
	bool folder = S_ISDIR(st->st_mode) && !text_starts_with(path, IMAGES_WORK "/");
	bool kept = folder || strcmp(path, IMAGES_LOCK) == 0 || image_files_has(u->files, path);

	(kept ? u->kept : u->unfinished)->bytes += bytes_of(st);
	u->unfinished->count += !kept;
}

static int add_images(const struct context *c, struct usage *all, struct err *e)
{
	struct image_files *files = NULL;
	cleanup_image_rows struct image_rows rows = {0};
	cleanup_fd int dir = home_images_dir(&c->home, e);
	int r = dir;

	if (r < 0 || (r = catalog_image_list(c->catalog, &rows, e)) < 0 ||
		(r = image_files_read(c->catalog, &files, e)) < 0)
		return r;
	struct images_usage u = {files, &all[IMAGES], &all[UNFINISHED]};
	walk(fd_take(&dir), "", 0, visit_image, &u);
	image_files_free(files);
	all[IMAGES].count = rows.len;
	return 0;
}

/* A checkpoint's pages and device state are in a folder of its own; its frozen disk layer counts
 * with the sandbox. */
static void add_sandbox(const struct context *c, const struct sandbox_row *row, struct usage *all)
{
	struct err ignored;
	struct usage whole = {0}, checkpoints = {0};
	cleanup_fd int dir = home_sandbox_dir(&c->home, row->id, false, &ignored);

	if (dir < 0)
		return;
	add_folder(&whole, dir, ".");
	add_folder(&checkpoints, dir, "checkpoints");
	all[SANDBOXES].count++;
	all[SANDBOXES].bytes += whole.bytes - checkpoints.bytes;
	all[CHECKPOINTS].count += checkpoints.count;
	all[CHECKPOINTS].bytes += checkpoints.bytes;
}

static int print(const struct usage *all, bool json, struct err *e)
{
	static const char *const headers[] = {"TYPE", "COUNT", "SIZE", NULL};
	cleanup_json *list = json_array();
	cleanup_table struct table t;

	table_init(&t, headers, TABLE_COLUMNS_MAX);
	for (size_t i = 0; i < USAGE_COUNT; i++) {
		char count[24], size[TEXT_SIZE_MAX];
		(void)snprintf(count, sizeof(count), "%llu", (unsigned long long)all[i].count);
		text_size(all[i].bytes, size);
		const char *const cells[] = {all[i].name, count, size};
		table_row(&t, SHADE_NONE, cells);
		(void)json_array_append_new(list,
			json_pack("{s:s, s:I, s:I}", "type", all[i].name, "count",
				(json_int_t)all[i].count, "size_bytes", (json_int_t)all[i].bytes));
	}
	return json ? output_json(json_incref(list), e) : table_print(&t, e);
}

/* What is in none of the rows: the catalog, and the state directory itself. */
static uint64_t others(const struct context *c, const struct usage *all)
{
	struct usage whole = {0};
	struct stat st;
	uint64_t known = 0;

	add_folder(&whole, c->home.dirfd, ".");
	if (fstat(c->home.dirfd, &st) == 0)
		whole.bytes += bytes_of(&st);
	for (size_t i = 0; i < OTHER; i++)
		known += all[i].bytes;
	return whole.bytes > known ? whole.bytes - known : 0;
}

int cmd_system_df(const struct args *a, struct err *e)
{
	struct usage all[USAGE_COUNT] = {{.name = "images"}, {.name = "unfinished pulls"},
		{.name = "sandboxes"}, {.name = "checkpoints"}, {.name = "templates"},
		{.name = "audit"}, {.name = "other"}};
	cleanup_context struct context c = {0};
	struct sandbox_rows rows = {0};
	int r;

	if ((r = context_open(&c, e)) < 0 || (r = catalog_sandbox_list(c.catalog, &rows, e)) < 0)
		return r;
	for (size_t i = 0; i < rows.len; i++)
		add_sandbox(&c, &rows.rows[i], all);
	sandbox_rows_release(&rows);
	if ((r = add_images(&c, all, e)) < 0)
		return r;
	walk(home_templates_dir(&c.home, e), "", 0, visit_template, &all[TEMPLATES]);
	add_folder(&all[AUDIT], c.home.dirfd, "audit");
	all[AUDIT].count = all[OTHER].count = 1;
	all[OTHER].bytes = others(&c, all);
	return print(all, args_on(a, "json"), e);
}
