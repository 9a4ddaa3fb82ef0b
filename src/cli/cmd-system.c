/* SPDX-License-Identifier: Apache-2.0 */
/* system df. */
#include "commands.h"

#include "context.h"
#include "output.h"

#include "../base/fd.h"
#include "../base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX 16

struct usage {
	const char *name;
	uint64_t count;
	uint64_t bytes; /* allocated: sparse files count what they hold */
};

enum { IMAGES, SANDBOXES, CHECKPOINTS, TEMPLATES, AUDIT, OTHER, USAGE_COUNT };

/* Everything below fd, which is taken. What vanishes meanwhile is not there. */
static uint64_t tree_bytes(int fd, int depth, uint64_t *ret_entries)
{
	DIR *d = fd < 0 || depth > DEPTH_MAX ? NULL : fdopendir(fd);
	uint64_t bytes = 0, below = 0;
	struct dirent *de;
	struct stat st;

	if (!d) {
		(void)fd_close(fd);
		return 0;
	}
	while ((de = readdir(d))) {
		if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0 ||
			fstatat(dirfd(d), de->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		(*ret_entries)++;
		bytes += (uint64_t)st.st_blocks * 512;
		if (S_ISDIR(st.st_mode))
			bytes +=
				tree_bytes(openat(dirfd(d), de->d_name,
						   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
					depth + 1, &below);
	}
	(void)closedir(d);
	return bytes;
}

/* What counts as one: image files, template folders. */
static uint64_t count_of(int dirfd, const char *name, const char *suffix)
{
	int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	uint64_t n = 0;
	struct dirent *de;

	while (d && (de = readdir(d))) {
		size_t len = strlen(de->d_name), end = strlen(suffix);
		if (end > 0)
			n += len > end && strcmp(de->d_name + len - end, suffix) == 0;
		else
			n += !strchr(de->d_name, '.');
	}
	if (d)
		(void)closedir(d);
	else
		(void)fd_close(fd);
	return n;
}

static void add_folder(struct usage *u, int dirfd, const char *name)
{
	u->bytes += tree_bytes(
		openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), 0, &u->count);
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

int cmd_system_df(const struct args *a, struct err *e)
{
	struct usage all[USAGE_COUNT] = {{.name = "images"}, {.name = "sandboxes"},
		{.name = "checkpoints"}, {.name = "templates"}, {.name = "audit"},
		{.name = "other"}};
	cleanup_context struct context c = {0};
	struct sandbox_rows rows = {0};
	struct usage whole = {0};
	int r;

	if ((r = context_open(&c, e)) < 0 || (r = catalog_sandbox_list(c.catalog, &rows, e)) < 0)
		return r;
	for (size_t i = 0; i < rows.len; i++)
		add_sandbox(&c, &rows.rows[i], all);
	sandbox_rows_release(&rows);
	add_folder(&all[IMAGES], c.home.dirfd, "images");
	add_folder(&all[TEMPLATES], c.home.dirfd, "templates");
	add_folder(&all[AUDIT], c.home.dirfd, "audit");
	all[IMAGES].count = count_of(c.home.dirfd, "images", ".sqfs");
	all[TEMPLATES].count = count_of(c.home.dirfd, "templates", "");
	all[AUDIT].count = all[OTHER].count = 1;
	add_folder(&whole, c.home.dirfd, ".");
	uint64_t known = 0;
	for (size_t i = 0; i < OTHER; i++)
		known += all[i].bytes;
	all[OTHER].bytes = whole.bytes > known ? whole.bytes - known : 0;
	return print(all, args_on(a, "json"), e);
}
