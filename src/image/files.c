/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

#include "manifest.h"

#include "../base/fd.h"
#include "../base/strv.h"
#include "../base/text.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK (256u * 1024)
#define NAME_BYTES_MAX 1024
#define LINKS_MAX 8

struct files_entry {
	char *name;
	char *target;  /* of a link: the name it leads to; else NULL */
	char file[24]; /* in the work folder */
};

void files_release(struct files *f)
{
	for (size_t i = 0; i < f->len; i++) {
		free(f->entries[i].name);
		free(f->entries[i].target);
	}
	free(f->entries);
	if (f->is_folder)
		f->dirfd = fd_close(f->dirfd);
	*f = (struct files){.dirfd = -1};
}

/* base's folder joined with path, without "." and ".."; NULL when it leads out of the archive, is
 * too long or there is no memory. base NULL: path is from the top. */
static char *normalise(const char *base, const char *path)
{
	char joined[2 * NAME_BYTES_MAX + 2], out[2 * NAME_BYTES_MAX + 2];
	const char *slash = base ? strrchr(base, '/') : NULL;
	size_t len = 0;

	int n = snprintf(joined, sizeof(joined), "%.*s/%s", slash ? (int)(slash - base) : 0,
		slash ? base : "", path);
	if (n < 0 || (size_t)n >= sizeof(joined))
		return NULL;
	for (const char *p = joined; *p;) {
		size_t part = strcspn(p, "/");
		if (part == 2 && memcmp(p, "..", 2) == 0) {
			if (len == 0)
				return NULL;
			while (len > 0 && out[--len] != '/')
				;
		} else if (part > 0 && !(part == 1 && *p == '.')) {
			if (len > 0)
				out[len++] = '/';
			memcpy(out + len, p, part);
			len += part;
		}
		p += part + (p[part] == '/');
	}
	out[len] = '\0';
	return len > NAME_BYTES_MAX ? NULL : strdup(out);
}

static int bad_entry(const char *name, const char *why, struct err *e)
{
	char shown[160];

	text_escape(name ? name : "(unreadable name)", shown, sizeof(shown));
	return err_set(e, ERR_INVALID, 0, "entry %s %s", shown, why);
}

static int read_failed(struct archive *a, struct err *e)
{
	char shown[200];

	text_escape(archive_error_string(a) ? archive_error_string(a) : "damaged", shown,
		sizeof(shown));
	return err_set(e, ERR_CORRUPT, 0, "the archive cannot be read: %s", shown);
}

/* A tar that is being read into a work folder. */
struct tar_reader {
	struct archive *archive;
	const struct workdir *workdir;
	struct files *files;
	char *chunk;
	uint64_t total; /* bytes written */
};

static int copy_data(struct tar_reader *t, const char *file, struct err *e)
{
	const struct images *images = t->workdir->images;
	cleanup_fd int fd = openat(
		t->workdir->fd, file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	la_ssize_t n;

	if (fd < 0)
		return images_write_error(images, errno, "the archive's content", e);
	while ((n = archive_read_data(t->archive, t->chunk, CHUNK)) > 0) {
		t->total += (uint64_t)n;
		if (t->total > LAYER_BYTES_MAX)
			return err_set(e, ERR_LIMIT, 0, "the archive holds more than %llu bytes",
				(unsigned long long)LAYER_BYTES_MAX);
		int r = fd_write_all(fd, t->chunk, (size_t)n);
		if (r < 0)
			return images_write_error(images, -r, "the archive's content", e);
	}
	return n < 0 ? read_failed(t->archive, e) : 0;
}

static int add_entry(struct tar_reader *t, struct archive_entry *ae, struct err *e)
{
	const char *path = archive_entry_pathname(ae);
	const char *hard = archive_entry_hardlink(ae);
	const char *soft =
		archive_entry_filetype(ae) == AE_IFLNK ? archive_entry_symlink(ae) : NULL;
	struct files *f = t->files;

	if (!hard && !soft && archive_entry_filetype(ae) != AE_IFREG)
		return 0;
	if (f->len >= FILES_MAX)
		return err_set(e, ERR_LIMIT, 0, "the archive has more than %d files", FILES_MAX);
	struct files_entry *x = &f->entries[f->len];
	*x = (struct files_entry){.name = path ? normalise(NULL, path) : NULL};
	if (!x->name)
		return bad_entry(
			path, "has a name that leads out of the archive or is too long", e);
	(void)snprintf(x->file, sizeof(x->file), "file-%zu", f->len);
	f->len++;
	if (hard || soft) {
		x->target = hard ? normalise(NULL, hard) : normalise(x->name, soft);
		return x->target ? 0
				 : bad_entry(path, "is a link that leads out of the archive", e);
	}
	return copy_data(t, x->file, e);
}

static int read_tar(struct tar_reader *t, int fd, struct err *e)
{
	struct archive *a = t->archive;
	struct archive_entry *ae;
	int n, r;

	/* Only what an image is saved as: every further format is a further parser to trust. */
	if (archive_read_support_format_tar(a) != ARCHIVE_OK ||
		archive_read_support_filter_gzip(a) != ARCHIVE_OK ||
		archive_read_support_filter_zstd(a) != ARCHIVE_OK)
		return read_failed(a, e);
	if (archive_read_open_fd(a, fd, CHUNK) != ARCHIVE_OK)
		return err_set(e, ERR_INVALID, 0,
			"it is not a tar archive (plain, or compressed with gzip or zstd)");
	while ((n = archive_read_next_header(a, &ae)) == ARCHIVE_OK || n == ARCHIVE_WARN)
		if ((r = add_entry(t, ae, e)) < 0)
			return r;
	return n == ARCHIVE_EOF ? 0 : read_failed(a, e);
}

static int files_from_tar(int fd, const struct workdir *w, struct files *ret, struct err *e)
{
	cleanup_files struct files f = {.dirfd = w->fd};
	cleanup_str char *chunk = malloc(CHUNK);
	struct tar_reader t = {
		.archive = archive_read_new(), .workdir = w, .files = &f, .chunk = chunk};
	int r;

	f.entries = calloc(FILES_MAX, sizeof(*f.entries));
	if (!chunk || !t.archive || !f.entries)
		r = err_errno(e, ENOMEM, "cannot read the archive");
	else
		r = read_tar(&t, fd, e);
	(void)archive_read_free(t.archive);
	if (r < 0)
		return r;
	*ret = f;
	f = (struct files){.dirfd = -1};
	return 0;
}

int files_open(const char *path, const struct workdir *w, struct files *ret, struct err *e)
{
	struct stat st;

	if (strcmp(path, "-") == 0)
		return files_from_tar(STDIN_FILENO, w, ret, e);
	cleanup_fd int fd = open(path, O_RDONLY | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(e, errno, "cannot open %s", path);
	if (S_ISDIR(st.st_mode)) {
		*ret = (struct files){.dirfd = fd_take(&fd), .is_folder = true};
		return 0;
	}
	if (S_ISREG(st.st_mode)) {
		int r = images_check_space(w->images, (uint64_t)st.st_size, path, e);
		if (r < 0)
			return r;
	}
	return files_from_tar(fd, w, ret, e);
}

/* The entry of this name, links followed; the last one of a name counts, as for tar. */
static const struct files_entry *find(const struct files *f, const char *name)
{
	for (int links = 0; links < LINKS_MAX; links++) {
		const struct files_entry *x = NULL;
		for (size_t i = f->len; i-- > 0 && !x;)
			if (strcmp(f->entries[i].name, name) == 0)
				x = &f->entries[i];
		if (!x || !x->target)
			return x;
		name = x->target;
	}
	return NULL;
}

bool files_has(const struct files *f, const char *name)
{
	if (f->is_folder)
		return faccessat(f->dirfd, name, F_OK, 0) == 0;
	return find(f, name) != NULL;
}

int files_open_one(const struct files *f, const char *name, struct err *e)
{
	char shown[160];
	struct stat st;

	text_escape(name, shown, sizeof(shown));
	if (!f->is_folder) {
		const struct files_entry *x = find(f, name);
		if (!x)
			return err_set(e, ERR_NOT_FOUND, 0, "it holds no %s", shown);
		name = x->file;
	}
	cleanup_fd int fd = openat(f->dirfd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return err_set(e, ERR_NOT_FOUND, 0, "it holds no %s", shown);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(e, errno, "cannot open %s", shown);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, 0, "%s is not a file", shown);
	return fd_take(&fd);
}

int files_read(
	const struct files *f, const char *name, size_t max_bytes, struct buf *ret, struct err *e)
{
	buf_init(ret, max_bytes);
	cleanup_fd int fd = files_open_one(f, name, e);
	if (fd < 0)
		return fd;
	int r = fd_read_all(fd, ret);
	if (r == -E2BIG)
		return err_set(e, ERR_LIMIT, 0, "%.160s is larger than %zu bytes", name, max_bytes);
	return r < 0 ? err_errno(e, -r, "cannot read %.160s", name) : 0;
}
