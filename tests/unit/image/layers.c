/* SPDX-License-Identifier: Apache-2.0 */
#include "layers.h"

#include "base/fd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define LAYER_MAX (64u << 20)

/* A number field: octal, or base 256 when it does not fit (GNU tar). */
static void number(unsigned char *at, size_t size, uint64_t v, bool negative)
{
	char text[32];

	if (v < 1ull << (3 * (size - 1))) {
		(void)snprintf(text, sizeof(text), "%0*llo", (int)size - 1, (unsigned long long)v);
		memcpy(at, text, size);
		return;
	}
	memset(at, negative ? 0xff : 0, size);
	for (size_t i = size; i-- > (size > 8 ? size - 8 : 0); v >>= 8)
		at[i] = (unsigned char)v;
	at[0] |= 0x80;
}

static void text_field(unsigned char *at, size_t size, const char *s)
{
	size_t len = strlen(s);

	memcpy(at, s, len < size ? len : size);
}

void put_header(struct buf *b, const struct item *i, uint64_t size)
{
	unsigned char h[512] = {0};
	unsigned sum = 0;

	text_field(h, 100, i->name);
	number(h + 100, 8, i->mode ? i->mode : i->type == '5' ? 0755 : 0644, false);
	number(h + 108, 8, i->uid, false);
	number(h + 116, 8, i->gid, false);
	number(h + 124, 12, size, false);
	number(h + 136, 12, (uint64_t)i->mtime, i->mtime < 0);
	memset(h + 148, ' ', 8);
	h[156] = (unsigned char)i->type;
	if (i->type == '1' || i->type == '2')
		text_field(h + 157, 100, i->text);
	memcpy(h + 257, "ustar\00000", 8);
	number(h + 329, 8, i->major, false);
	number(h + 337, 8, i->minor, false);
	for (size_t k = 0; k < sizeof(h); k++)
		sum += h[k];
	number(h + 148, 7, sum, false);
	buf_put(b, h, sizeof(h));
}

static void put_padded(struct buf *b, const void *data, size_t len)
{
	static const unsigned char zeros[512];

	buf_put(b, data, len);
	buf_put(b, zeros, (512 - len % 512) % 512);
}

void put_item(struct buf *b, const struct item *i)
{
	size_t size = i->type == '0' && i->text ? strlen(i->text) : 0;

	put_header(b, i, size);
	put_padded(b, i->text, size);
}

void put_pax(struct buf *b, char type, const struct buf *records)
{
	put_header(b, &(struct item){.type = type, .name = "PaxHeader"}, records->len);
	put_padded(b, records->data, records->len);
}

/* "LEN KEY=VALUE\n", LEN counting itself. */
void put_record(struct buf *records, const char *key, const void *value, size_t len)
{
	size_t rest = strlen(key) + len + 3, total = rest + 1;

	while (total != rest + (size_t)snprintf(NULL, 0, "%zu", total))
		total = rest + (size_t)snprintf(NULL, 0, "%zu", total);
	buf_putf(records, "%zu %s=", total, key);
	buf_put(records, value, len);
	buf_put_u8(records, '\n');
}

void put_gnu_long(struct buf *b, char type, const char *name)
{
	put_header(b, &(struct item){.type = type, .name = "././@LongLink"}, strlen(name) + 1);
	put_padded(b, name, strlen(name) + 1);
}

void put_end(struct buf *b)
{
	static const unsigned char zeros[1024];

	buf_put(b, zeros, sizeof(zeros));
}

void put_items(struct buf *b, const struct item *items, size_t n)
{
	for (size_t i = 0; i < n; i++)
		put_item(b, &items[i]);
	put_end(b);
}

int memory_file(const struct buf *b)
{
	int fd = memfd_create("layer", MFD_CLOEXEC);

	if (fd < 0 || fd_write_all(fd, b->data, b->len) < 0)
		abort();
	return fd;
}

/* ---- content ---- */

static int on_begin(void *ctx, struct tree_inode *inode, struct err *e)
{
	struct contents *c = ctx;

	(void)e;
	if (c->len == sizeof(c->v) / sizeof(c->v[0]))
		abort();
	c->v[c->len].inode = inode;
	buf_init(&c->v[c->len].data, LAYER_MAX);
	c->len++;
	return 0;
}

static int on_data(void *ctx, const void *data, size_t len, struct err *e)
{
	struct contents *c = ctx;

	(void)e;
	buf_put(&c->v[c->len - 1].data, data, len);
	return 0;
}

static int on_hole(void *ctx, uint64_t len, struct err *e)
{
	struct contents *c = ctx;

	(void)e;
	for (; len > 0 && !buf_failed(&c->v[c->len - 1].data); len--)
		buf_put_u8(&c->v[c->len - 1].data, '_');
	return 0;
}

static int on_end(void *ctx, struct err *e)
{
	(void)ctx;
	(void)e;
	return 0;
}

struct tar_sink contents_sink(struct contents *c)
{
	return (struct tar_sink){
		.begin = on_begin, .data = on_data, .hole = on_hole, .end = on_end, .ctx = c};
}

void contents_release(struct contents *c)
{
	for (size_t i = 0; i < c->len; i++)
		buf_release(&c->v[i].data);
	c->len = 0;
}

/* ---- images ---- */

void image_start(struct image *im, const struct unpack_limits *limits)
{
	static const struct unpack_limits defaults = UNPACK_LIMITS;

	memset(im, 0, sizeof(*im));
	if (tree_init(&im->tree, limits ? limits : &defaults, &im->err) < 0)
		abort();
}

int image_raw(struct image *im, const struct buf *layer)
{
	const struct tar_options o = {.sink = contents_sink(&im->contents)};
	char digest[SHA256_HEX_SIZE];
	int fd = memory_file(layer);
	int r = tar_apply(fd, &im->tree, &o, &im->totals, digest, &im->err);

	(void)fd_close(fd);
	return r;
}

int image_items(struct image *im, const struct item *items, size_t n)
{
	cleanup_buf struct buf b = {0};

	buf_init(&b, LAYER_MAX);
	put_items(&b, items, n);
	return image_raw(im, &b);
}

void image_end(struct image *im)
{
	contents_release(&im->contents);
	tree_release(&im->tree);
}

/* ---- text ---- */

static char type_char(uint32_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFDIR:
		return 'd';
	case S_IFREG:
		return 'f';
	case S_IFLNK:
		return 'l';
	case S_IFCHR:
		return 'c';
	case S_IFBLK:
		return 'b';
	case S_IFIFO:
		return 'p';
	default:
		return '?';
	}
}

static void put_node_text(struct image *im, struct buf *out, const struct tree_node *n,
	const char *path, unsigned *group)
{
	struct tree_inode *i = n->inode;

	buf_putf(out, "%c ", type_char(i->attr.mode));
	if (!S_ISLNK(i->attr.mode))
		buf_putf(out, "%o ", i->attr.mode & 07777);
	if (i->attr.uid || i->attr.gid)
		buf_putf(out, "%u:%u ", i->attr.uid, i->attr.gid);
	buf_putf(out, "%s", path);
	if (S_ISLNK(i->attr.mode))
		buf_putf(out, " -> %s", i->target);
	if (S_ISCHR(i->attr.mode) || S_ISBLK(i->attr.mode))
		buf_putf(out, " %u:%u", i->attr.rdev >> 8 & 0xfff,
			(i->attr.rdev & 0xff) | (i->attr.rdev >> 12 & 0xfff00));
	for (size_t k = 0; k < im->contents.len; k++)
		if (im->contents.v[k].inode == i) {
			buf_put(out, "=", 1);
			buf_put(out, im->contents.v[k].data.data, im->contents.v[k].data.len);
		}
	if (!S_ISDIR(i->attr.mode) && i->names > 1) {
		if (i->number == 0)
			i->number = ++*group;
		buf_putf(out, " #%u", i->number);
	}
	buf_put(out, "\n", 1);
}

static void put_dir_text(struct image *im, struct buf *out, const struct tree_node *dir,
	const char *prefix, unsigned *group)
{
	char path[8192];

	for (const struct tree_node *n = dir->inode->children; n; n = n->right) {
		(void)snprintf(path, sizeof(path), "%s%s", prefix, n->name);
		put_node_text(im, out, n, path, group);
		if (!S_ISDIR(n->inode->attr.mode))
			continue;
		(void)snprintf(path, sizeof(path), "%s%s/", prefix, n->name);
		put_dir_text(im, out, n, path, group);
	}
}

const char *image_text(struct image *im)
{
	static char text[65536];
	cleanup_buf struct buf out = {0};
	unsigned group = 0;

	buf_init(&out, sizeof(text) - 1);
	tree_seal(&im->tree);
	put_dir_text(im, &out, im->tree.root, "", &group);
	const char *s = out.len ? buf_cstr(&out) : "";
	(void)snprintf(text, sizeof(text), "%s", s ? s : "(too long)");
	return text;
}
