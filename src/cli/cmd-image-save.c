/* SPDX-License-Identifier: Apache-2.0 */
/* image save: the worker writes the archive; here it gets its name when it is complete. */
#include "commands.h"

#include "images.h"
#include "output.h"

#include "../base/fd.h"
#include "../base/strv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct target {
	int fd;
	char *path; /* NULL: fd is written as it is (stdout, a device) */
	char *temp;
};

static void target_release(struct target *t)
{
	if (t->temp)
		(void)unlink(t->temp);
	t->fd = fd_close(t->fd);
	free(t->path);
	free(t->temp);
}
#define cleanup_target __attribute__((cleanup(target_release)))

static int open_stdout(struct target *t, struct err *e)
{
	if (isatty(STDOUT_FILENO)) {
		(void)err_set(e, ERR_USAGE, 0, "stdout is a terminal, and an archive is no text");
		return err_hint(e, "kosa8 image save -o FILE");
	}
	int flags = fcntl(STDOUT_FILENO, F_GETFL);
	if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY) {
		(void)err_set(e, ERR_IO, EBADF, "stdout is closed, and no FILE was named");
		return err_hint(e, "kosa8 image save -o FILE");
	}
	t->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	return t->fd < 0 ? err_errno(e, errno, "cannot write to stdout") : 0;
}

static mode_t mode_of_new(void)
{
	mode_t mask = umask(0);

	(void)umask(mask);
	return 0666 & ~mask;
}

/* A file of its own beside the target, with the mode that the target has or would get; former: NULL
 * when there is none. */
static int open_temp(struct target *t, const char *file, const struct stat *former, struct err *e)
{
	struct stat link;

	t->path = realpath(file, NULL); /* a link stays a link */
	if (!t->path && lstat(file, &link) == 0 && S_ISLNK(link.st_mode)) {
		(void)err_set(e, ERR_INVALID, ENOENT, "%s is a link that leads nowhere", file);
		return err_hint(e, "name the file itself");
	}
	if (!t->path)
		t->path = strdup(file);
	if (!t->path || asprintf(&t->temp, "%s.XXXXXX", t->path) < 0) {
		t->temp = NULL;
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	}
	t->fd = mkostemp(t->temp, O_CLOEXEC);
	if (t->fd < 0) {
		int saved = errno;
		free(t->temp);
		t->temp = NULL;
		return err_errno(e, saved, "cannot write %s", file);
	}
	if (former) /* of another owner: as far as it may be */
		(void)!fchown(t->fd, former->st_uid, former->st_gid);
	(void)!fchmod(t->fd, former ? former->st_mode & 0777 : mode_of_new());
	return 0;
}

static int target_open(struct target *t, const char *file, struct err *e)
{
	struct stat st;

	if (!file || strcmp(file, "-") == 0)
		return open_stdout(t, e);
	if (stat(file, &st) < 0)
		return open_temp(t, file, NULL, e);
	if (S_ISREG(st.st_mode))
		return open_temp(t, file, &st, e);
	if (S_ISDIR(st.st_mode))
		return err_set(e, ERR_INVALID, EISDIR, "%s is a folder", file);
	t->fd = open(file, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	return t->fd < 0 ? err_errno(e, errno, "cannot write %s", file) : 0;
}

/* What is full is the disk of FILE, not that of the images, as the worker says. */
static int cannot_write(const char *file, struct err *e)
{
	if (e->kind != ERR_NO_SPACE)
		return err_code(e);
	(void)err_set(e, ERR_NO_SPACE, ENOSPC, "%s could not be written: no space is left there",
		file && strcmp(file, "-") != 0 ? file : "stdout");
	return err_hint(e, "free some space there, or write to another disk");
}

static int target_finish(struct target *t, struct err *e)
{
	if (!t->temp)
		return 0;
	if (fsync(t->fd) < 0 || rename(t->temp, t->path) < 0)
		return err_errno(e, errno, "cannot write %s", t->path);
	free(t->temp);
	t->temp = NULL;
	return 0;
}

/* DIGEST=NAME when it was asked for by a name that an archive can hold. */
static int add_image(const struct context *c, const char *text, char ***args, struct err *e)
{
	cleanup_image_row struct image_row row = {0};
	char canonical[REFERENCE_CANONICAL_SIZE];
	struct reference ref;
	int r = image_find(c, text, &row, &ref, e);

	if (r < 0)
		return r;
	if (*ref.registry)
		reference_canonical(&ref, canonical);
	bool named = *ref.registry && !*ref.digest;
	if (strv_addf(args, "%s%s%s", row.digest, named ? "=" : "", named ? canonical : "") < 0)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	return 0;
}

int cmd_image_save(const struct args *a, struct err *e)
{
	cleanup_context struct context c = {0};
	cleanup_target struct target t = {.fd = -1};
	cleanup_strv char **args = strv_new();
	cleanup_image_gots struct image_gots gots = {0};
	cleanup_image_worker struct image_worker w = {0};
	int r = args && strv_add(&args, "--") >= 0 ? context_open(&c, e)
						   : err_set(e, ERR_IO, ENOMEM, "out of memory");

	for (size_t i = 0; r >= 0 && i < a->operands_len; i++)
		r = add_image(&c, a->operands[i], &args, e);
	if (r < 0 || (r = target_open(&t, args_value(a, "output"), e)) < 0)
		return r;
	struct image_work work = {.verb = "save",
		.args = args,
		.output = t.fd,
		.progress = args_on(a, "quiet") ? PROGRESS_NONE : PROGRESS_LINES};
	const char *file = args_value(a, "output");
	if ((r = image_worker_run(&w, &c, &work, &gots, e)) < 0 && e->kind != ERR_NO_SPACE)
		return image_worker_status(r, e);
	if (r < 0 || (r = target_finish(&t, e)) < 0)
		return cannot_write(file, e);
	return 0;
}
