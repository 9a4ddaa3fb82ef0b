/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

#include "../manifest.h"

#include "../../base/fd.h"
#include "../../base/strv.h"
#include "../../base/text.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHUNK (256u * 1024)
#define NAME_BYTES_MAX 512
#define NAME_SHOWN 160
#define LINKS_MAX 8
#define OPEN_TRIES 16

struct files_entry {
	char *name;
	char *target; /* of a link: the name it leads to; else NULL */
	struct member member;
};

void files_release(struct files *f)
{
	for (size_t i = 0; i < f->len; i++) {
		free(f->entries[i].name);
		free(f->entries[i].target);
	}
	free(f->entries);
	(void)fd_close(f->dirfd);
	*f = (struct files)FILES_NONE;
}

/* base's folder joined with path, without "." and ".."; NULL when it leads out of the archive, is
 * too long or there is no memory. base NULL: path is from the top. */
static char *normalise(const char *base, const char *path)
{
	char joined[2 * NAME_BYTES_MAX + 2], out[2 * NAME_BYTES_MAX + 2];
	const char *slash = base && path[0] != '/' ? strrchr(base, '/') : NULL;
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
	char shown[NAME_SHOWN];

	text_escape(name ? name : "(unreadable name)", shown, sizeof(shown));
	return err_set(e, ERR_INVALID, 0, "entry %s %s", shown, why);
}

static int add_entry(struct files *f, char *name, struct files_entry **ret, struct err *e)
{
	if (f->len >= FILES_MAX)
		return err_set(e, ERR_LIMIT, 0, "it has more than %d entries", FILES_MAX);
	struct files_entry *x = &f->entries[f->len];
	*x = (struct files_entry){.name = name};
	(void)snprintf(x->member.file, sizeof(x->member.file), "file-%zu", f->len);
	f->len++;
	*ret = x;
	return 0;
}

/* ---- a tar ---- */

struct tar_reader {
	struct archive *archive;
	struct files *files;
	char *chunk;
	uint64_t total, max; /* bytes written */
	size_t seen;	     /* entries */
};

static int read_failed(struct archive *a, struct err *e)
{
	char shown[200];

	text_escape(archive_error_string(a) ? archive_error_string(a) : "damaged", shown,
		sizeof(shown));
	return err_set(e, ERR_CORRUPT, 0, "the archive cannot be read: %s", shown);
}

/* Before anything is written: what it would take is known, and may be more than there is. */
static int check_size(struct tar_reader *t, struct archive_entry *ae, struct err *e)
{
	int64_t size = archive_entry_size(ae);

	if (size < 0)
		return bad_entry(archive_entry_pathname(ae), "has no size", e);
	if ((uint64_t)size > t->max - t->total)
		return err_set(e, ERR_LIMIT, 0, "the archive holds more than %llu bytes",
			(unsigned long long)t->max);
	t->total += (uint64_t)size;
	return images_check_space(
		t->files->workdir->images, (uint64_t)size, "the archive's content", e);
}

static int copy_data(
	struct tar_reader *t, struct archive_entry *ae, struct member *m, struct err *e)
{
	cleanup_copy struct copy c = COPY_NONE;
	uint64_t size = (uint64_t)archive_entry_size(ae); /* checked */
	la_ssize_t n;
	int r = copy_begin(t->files->workdir, m->file, "the archive's content", &c, e);

	if (r < 0)
		return r;
	while ((n = archive_read_data(t->archive, t->chunk, CHUNK)) > 0) {
		/* A sparse file's map may lead anywhere. */
		if ((uint64_t)n > size - c.size)
			return bad_entry(archive_entry_pathname(ae), "is longer than it says", e);
		if ((r = copy_write(&c, t->chunk, (size_t)n, e)) < 0)
			return r;
	}
	if (n < 0)
		return read_failed(t->archive, e);
	copy_end(&c, &m->content);
	return 0;
}

static int read_entry(struct tar_reader *t, struct archive_entry *ae, struct err *e)
{
	const char *path = archive_entry_pathname(ae);
	const char *hard = archive_entry_hardlink(ae);
	const char *soft =
		archive_entry_filetype(ae) == AE_IFLNK ? archive_entry_symlink(ae) : NULL;
	struct files_entry *x;
	int r;

	if (t->seen++ >= FILES_MAX)
		return err_set(e, ERR_LIMIT, 0, "it has more than %d entries", FILES_MAX);
	if ((r = check_size(t, ae, e)) < 0)
		return r;
	if (!hard && !soft && archive_entry_filetype(ae) != AE_IFREG)
		return 0;
	char *name = path ? normalise(NULL, path) : NULL;
	if (!name)
		return bad_entry(
			path, "has a name that leads out of the archive or is too long", e);
	if ((r = add_entry(t->files, name, &x, e)) < 0) {
		free(name);
		return r;
	}
	if (!hard && !soft)
		return copy_data(t, ae, &x->member, e);
	x->target = hard ? normalise(NULL, hard) : normalise(x->name, soft);
	return x->target ? 0 : bad_entry(path, "is a link that leads out of the archive", e);
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
		if ((r = read_entry(t, ae, e)) < 0)
			return r;
	return n == ARCHIVE_EOF ? 0 : read_failed(a, e);
}

static int files_init(struct files *f, const struct workdir *w, struct err *e)
{
	*f = (struct files){.workdir = w, .dirfd = -1};
	f->entries = calloc(FILES_MAX, sizeof(*f->entries));
	return f->entries ? 0 : err_errno(e, ENOMEM, "cannot read the archive");
}

int files_read_tar(
	int fd, const struct workdir *w, uint64_t max_bytes, struct files *ret, struct err *e)
{
	cleanup_files struct files f = FILES_NONE;
	cleanup_str char *chunk = malloc(CHUNK);
	struct tar_reader t = {
		.archive = archive_read_new(), .files = &f, .chunk = chunk, .max = max_bytes};
	int r;

	if (!chunk || !t.archive)
		r = err_errno(e, ENOMEM, "cannot read the archive");
	else if ((r = files_init(&f, w, e)) == 0)
		r = read_tar(&t, fd, e);
	(void)archive_read_free(t.archive);
	if (r < 0)
		return r;
	*ret = f;
	f = (struct files)FILES_NONE;
	return 0;
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

/* ---- a folder ---- */

/* Never waits: what is no regular file is refused before it is read. */
static int open_beneath(const struct files *f, const char *name)
{
	struct open_how how = {.flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
	long fd = -1;

	/* EAGAIN: something was renamed on the way, see openat2(2). */
	for (int i = 0; i < OPEN_TRIES; i++) {
		fd = syscall(SYS_openat2, f->dirfd, name, &how, sizeof(how));
		if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
			break;
	}
	return fd < 0 ? -errno : (int)fd;
}

static int open_in_folder(const struct files *f, const char *name, const char *shown, struct err *e)
{
	struct stat st;
	cleanup_fd int fd = open_beneath(f, name);

	if (fd == -ENOENT || fd == -ENOTDIR)
		return err_set(e, ERR_NOT_FOUND, 0, "it holds no %s", shown);
	if (fd == -EXDEV)
		return err_set(e, ERR_INVALID, 0, "%s leads out of the folder", shown);
	if (fd == -ELOOP)
		return err_set(e, ERR_INVALID, 0, "%s is a link that leads nowhere", shown);
	if (fd < 0 && fd != -ENXIO)
		return err_errno(e, -fd, "cannot open %s", shown);
	if (fd >= 0 && fstat(fd, &st) < 0)
		return err_errno(e, errno, "cannot open %s", shown);
	if (fd < 0 || !S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, 0, "%s is not a file", shown);
	int r = images_check_space(f->workdir->images, (uint64_t)st.st_size, shown, e);
	return r < 0 ? r : fd_take(&fd);
}

static int copy_from_folder(struct files *f, const char *name, const char *shown,
	uint64_t max_bytes, const struct files_entry **ret, struct err *e)
{
	struct files_entry *x;
	cleanup_fd int fd = open_in_folder(f, name, shown, e);

	if (fd < 0)
		return fd;
	cleanup_str char *copy = strdup(name);
	if (!copy)
		return err_errno(e, ENOMEM, "%s", shown);
	int r = add_entry(f, copy, &x, e);
	if (r < 0)
		return r;
	copy = NULL;
	*ret = x;
	r = copy_all(f->workdir, fd, x->member.file, shown, max_bytes, &x->member.content, e);
	if (r < 0) { /* without a member of that name, as before */
		(void)unlinkat(f->workdir->fd, x->member.file, 0);
		free(x->name);
		f->len--;
	}
	return r;
}

int files_open(const char *path, const struct workdir *w, struct files *ret, struct err *e)
{
	struct stat st;

	if (strcmp(path, "-") == 0)
		return files_read_tar(STDIN_FILENO, w, LAYER_BYTES_MAX, ret, e);
	cleanup_fd int fd = open(path, O_RDONLY | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(e, errno, "cannot open it");
	if (S_ISDIR(st.st_mode)) {
		int r = files_init(ret, w, e);
		if (r == 0)
			ret->dirfd = fd_take(&fd);
		return r;
	}
	if (S_ISREG(st.st_mode)) {
		int r = images_check_space(w->images, (uint64_t)st.st_size, path, e);
		if (r < 0)
			return r;
	}
	return files_read_tar(fd, w, LAYER_BYTES_MAX, ret, e);
}

bool files_has(const struct files *f, const char *name)
{
	struct stat st;

	if (f->dirfd >= 0)
		return fstatat(f->dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
	return find(f, name) != NULL;
}

int files_member(
	struct files *f, const char *name, uint64_t max_bytes, struct member *ret, struct err *e)
{
	const struct files_entry *x;
	char shown[NAME_SHOWN];
	int r;

	text_escape(name, shown, sizeof(shown));
	if (strlen(name) > NAME_BYTES_MAX)
		return err_set(e, ERR_NOT_FOUND, 0, "it holds no %s", shown);
	x = find(f, name);
	if (!x && f->dirfd < 0)
		return err_set(e, ERR_NOT_FOUND, 0, "it holds no %s", shown);
	if (!x && (r = copy_from_folder(f, name, shown, max_bytes, &x, e)) < 0)
		return r;
	if (x->member.content.size > max_bytes)
		return err_set(e, ERR_LIMIT, 0, "%s is larger than %llu bytes", shown,
			(unsigned long long)max_bytes);
	*ret = x->member;
	return 0;
}

int files_open_member(const struct files *f, const struct member *m, struct err *e)
{
	int fd = openat(f->workdir->fd, m->file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? err_errno(e, errno, "cannot open what was copied") : fd;
}

int files_read(struct files *f, const char *name, size_t max_bytes, struct buf *ret,
	struct member *ret_member, struct err *e)
{
	struct member m;
	int r;

	buf_init(ret, max_bytes);
	if ((r = files_member(f, name, max_bytes, &m, e)) < 0)
		return r;
	cleanup_fd int fd = files_open_member(f, &m, e);
	if (fd < 0)
		return fd;
	if ((r = fd_read_all(fd, ret)) < 0)
		return err_errno(e, -r, "cannot read what was copied");
	if (ret_member)
		*ret_member = m;
	return 0;
}
