/* SPDX-License-Identifier: Apache-2.0 */
/* Compressed layers: what is accepted, and that every kind of damage is noticed. */
#include "base/fd.h"
#include "layers.h"

#include "tap.h"

#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

#define MAX (80u << 20)

static struct buf plain, packed;
static struct err err;
static char digest[SHA256_HEX_SIZE];
static uint64_t total;

/* Reads all of packed; 0 when it gave just plain. */
static int read_all(const struct unpack_limits *limits)
{
	static const struct unpack_limits defaults = UNPACK_LIMITS;
	cleanup_layer_stream struct layer_stream *s = NULL;
	cleanup_fd int fd = memory_file(&packed);
	const void *data;
	size_t len, at = 0;
	bool same = true;
	int r;

	total = 0;
	r = layer_stream_open(fd, limits ? limits : &defaults, &total, NULL, NULL, &s, &err);
	if (r < 0)
		return r;
	while ((r = layer_stream_next(s, &data, &len, &err)) == 0 && len > 0) {
		same = same && len <= plain.len - at && memcmp(plain.data + at, data, len) == 0;
		at += len;
	}
	if (r == 0)
		layer_stream_digest(s, digest);
	return r < 0 ? r : !same || at != plain.len;
}

static void refused(int r, enum err_kind kind, const char *text, const char *what)
{
	OK(r < 0 && err.kind == kind && strstr(err.what, text), what);
	if (r >= 0 || err.kind != kind || !strstr(err.what, text))
		printf("# got %d %s: %s\n", r, err_kind_name(err.kind), err.what);
}

static void put_gzip(const void *data, size_t len)
{
	z_stream z = {0};
	uLong bound;

	if (deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		abort();
	bound = deflateBound(&z, len);
	z.next_in = (unsigned char *)data;
	z.avail_in = (uInt)len;
	z.next_out = buf_extend(&packed, bound);
	z.avail_out = (uInt)bound;
	if (deflate(&z, Z_FINISH) != Z_STREAM_END)
		abort();
	packed.len -= z.avail_out;
	(void)deflateEnd(&z);
}

static void put_zstd(const void *data, size_t len)
{
	ZSTD_CCtx *c = ZSTD_createCCtx();
	size_t bound = ZSTD_compressBound(len);
	void *out = buf_extend(&packed, bound);

	(void)ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
	size_t n = ZSTD_compress2(c, out, bound, data, len);
	if (ZSTD_isError(n))
		abort();
	packed.len -= bound - n;
	(void)ZSTD_freeCCtx(c);
}

typedef void put_fn(const void *data, size_t len);

static void test_codec(put_fn *put, const char *truncated, const char *damaged)
{
	buf_reset(&packed);
	put(plain.data, plain.len);
	EQ_INT(read_all(NULL), 0, "one member");
	char want[SHA256_HEX_SIZE];
	sha256_hex_of(plain.data, plain.len, want);
	EQ_STR(digest, want, "its digest");
	EQ_INT(total, plain.len, "its size");
	packed.len -= 1;
	refused(read_all(NULL), ERR_CORRUPT, truncated, "cut by one byte");
	packed.len /= 2;
	refused(read_all(NULL), ERR_CORRUPT, truncated, "cut in half");

	buf_reset(&packed);
	put(plain.data, 300000);
	put(plain.data + 300000, 0);
	put(plain.data + 300000, plain.len - 300000);
	EQ_INT(read_all(NULL), 0, "three members, one of nothing");
	size_t whole = packed.len;
	buf_put(&packed, "garbage", 7);
	refused(read_all(NULL), ERR_CORRUPT, "goes on with something else", "garbage behind them");
	packed.len = whole - 6;
	packed.data[packed.len] ^= 1;
	packed.len = whole;
	refused(read_all(NULL), ERR_CORRUPT, damaged, "a wrong checksum");
}

/* Puts plain's first bytes as a member of a given length: what lacks is a name in its header. */
static void put_gzip_of(size_t len, size_t packed_len)
{
	cleanup_buf struct buf body = {0};

	buf_init(&body, MAX);
	buf_reset(&packed);
	put_gzip(plain.data, len);
	buf_put(&body, packed.data + 10, packed.len - 10);
	buf_reset(&packed);
	buf_put(&packed, "\x1f\x8b\x08\x08\0\0\0\0\0\3", 10);
	while (packed.len + body.len + 1 < packed_len)
		buf_put_u8(&packed, 'n');
	buf_put_u8(&packed, 0);
	buf_put(&packed, body.data, body.len);
}

/* A member that ends at each place about the end of the reader's chunk, and one behind it. */
static void test_member_ends(void)
{
	const size_t chunk = 256 * 1024, first = 100000;
	int bad = 0;

	for (size_t end = chunk - 20; end < chunk + 20; end++) {
		put_gzip_of(first, end);
		if (packed.len != end)
			bad++;
		put_gzip(plain.data + first, plain.len - first);
		if (read_all(NULL) != 0)
			bad++;
		packed.data[end - 1] ^= 1;
		if (read_all(NULL) >= 0 || !strstr(err.what, "incorrect checksum or length"))
			bad++;
		packed.len = end - 1;
		if (read_all(NULL) >= 0 || !strstr(err.what, "the layer is cut"))
			bad++;
	}
	EQ_INT(bad, 0, "members that end about a chunk's end");
}

static void test_many_members(void)
{
	size_t at = 0, len = 1, whole;
	int bad = 0;

	buf_reset(&packed);
	while (at < plain.len) {
		if (len > plain.len - at)
			len = plain.len - at;
		put_gzip(plain.data + at, len);
		at += len;
		len = len % 8191 + 61;
	}
	EQ_INT(read_all(NULL), 0, "many members");
	whole = packed.len;
	for (size_t cut = 1; cut < 30; cut++) {
		packed.len = whole - cut;
		if (read_all(NULL) >= 0 || !strstr(err.what, "the layer is cut"))
			bad++;
	}
	EQ_INT(bad, 0, "the last one cut by each number of bytes");
}

/* A header with all that it can have: RFC 1952, 2.3. */
static void test_gzip_header(void)
{
	buf_reset(&packed);
	put_gzip(plain.data, plain.len);
	cleanup_buf struct buf body = {0};
	buf_init(&body, MAX);
	buf_put(&body, packed.data + 10, packed.len - 10);
	buf_reset(&packed);
	buf_put(&packed, "\x1f\x8b\x08\x1c\0\0\0\0\0\3\5\0extraname\0comment\0", 30);
	buf_put(&packed, body.data, body.len);
	EQ_INT(read_all(NULL), 0, "a header with extra field, name and comment");
	packed.data[2] = 7;
	refused(read_all(NULL), ERR_CORRUPT, "unknown compression method", "another method");
}

static void test_gzip(void)
{
	test_codec(put_gzip, "the layer is cut", "damaged gzip data: incorrect checksum or length");
	buf_reset(&packed);
	put_gzip(plain.data, plain.len);
	buf_put(&packed, (char[600]){0}, 600);
	EQ_INT(read_all(NULL), 0, "zeros behind it");
	put_gzip("", 0);
	refused(read_all(NULL), ERR_CORRUPT, "goes on with something else", "a member behind them");
	buf_reset(&packed);
	put_gzip(plain.data, plain.len);
	packed.data[packed.len - 1] ^= 1;
	refused(read_all(NULL), ERR_CORRUPT, "incorrect checksum or length", "a wrong length");
	packed.data[packed.len / 2] ^= 0xff;
	refused(read_all(NULL), ERR_CORRUPT, "damaged gzip data", "a wrong byte inside");
	packed.len = 3;
	refused(read_all(NULL), ERR_CORRUPT, "the layer is cut", "a part of its header");
	test_member_ends();
	test_many_members();
	test_gzip_header();
}

static void test_zstd(void)
{
	test_codec(put_zstd, "the layer is cut", "damaged zstd data");
	buf_reset(&packed);
	buf_put(&packed, "\x50\x2a\x4d\x18\x03\0\0\0abc", 11);
	put_zstd(plain.data, plain.len);
	EQ_INT(read_all(NULL), 0, "a skippable frame first");
	/* A frame header that asks for a window of 2^31 bytes. */
	buf_reset(&packed);
	buf_put(&packed, "\x28\xb5\x2f\xfd\x00\xa8\x01\0\0", 9);
	refused(read_all(NULL), ERR_LIMIT, "window is larger than 128 MiB", "a window of 2 GiB");
	packed.data[5] = 0x89;
	refused(read_all(NULL), ERR_LIMIT, "window is larger than 128 MiB", "of 144 MiB");
	packed.data[5] = 0x88;
	OK(read_all(NULL) >= 0, "control: of 128 MiB");
}

static void nothing_is_digested(void)
{
	char want[SHA256_HEX_SIZE];

	sha256_hex_of("", 0, want);
	EQ_STR(digest, want, "its digest");
	EQ_INT(total, 0, "its size");
}

static void test_nothing(put_fn *put, const char *what)
{
	size_t whole = plain.len;

	buf_reset(&packed);
	put("", 0);
	plain.len = 0;
	EQ_INT(read_all(NULL), 0, what);
	nothing_is_digested();
	size_t one = packed.len;
	put("", 0);
	put("", 0);
	EQ_INT(read_all(NULL), 0, "three times nothing");
	nothing_is_digested();
	packed.len = one;
	buf_put(&packed, "garbage", 7);
	refused(read_all(NULL), ERR_CORRUPT, "goes on with something else", "garbage behind it");
	packed.len = one - 1;
	refused(read_all(NULL), ERR_CORRUPT, "the layer is cut", "cut by one byte");
	plain.len = whole;
}

static void test_others(void)
{
	static const struct {
		const char *bytes, *name;
	} others[] = {{"BZh91AY&SY", "bzip2"},
		{"\xfd"
		 "7zXZ",
			"xz"},
		{"PK\x03\x04", "zip"}};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		buf_reset(&packed);
		buf_put(&packed, others[i].bytes, strlen(others[i].bytes) + 1);
		refused(read_all(NULL), ERR_UNSUPPORTED, others[i].name, others[i].name);
	}
	buf_reset(&packed);
	buf_put(&packed, plain.data, plain.len);
	EQ_INT(read_all(NULL), 0, "no compression");
	buf_reset(&packed);
	size_t whole = plain.len;
	plain.len = 0;
	EQ_INT(read_all(NULL), 0, "nothing");
	nothing_is_digested();
	plain.len = whole;
}

static void test_bomb(put_fn *put)
{
	struct unpack_limits limits = UNPACK_LIMITS;

	limits.ratio_after_bytes = 64u << 20;
	buf_reset(&plain);
	memset(buf_extend(&plain, 66u << 20), 0, 66u << 20);
	buf_reset(&packed);
	put(plain.data, 64u << 20);
	size_t saved = plain.len;
	plain.len = 64u << 20;
	EQ_INT(read_all(&limits), 0, "64 MB of zeros");
	plain.len = saved;
	buf_reset(&packed);
	put(plain.data, plain.len);
	EQ_INT(read_all(NULL), 0, "66 MB of zeros, by the limits that count");
	refused(read_all(&limits), ERR_LIMIT, "more than 200 times its size", "66 MB of zeros");
	OK(total <= (64u << 20) + 262144, "stopped at once");
	limits.total_bytes = 1 << 20;
	refused(read_all(&limits), ERR_LIMIT, "more than 1048576 bytes", "the size of all layers");
	OK(total <= 1 << 20, "stopped in time");
}

int main(void)
{
	buf_init(&plain, MAX);
	buf_init(&packed, MAX);
	for (uint32_t i = 0, x = 1; i < 200000; i++, x = x * 1664525 + 1013904223)
		buf_put_u32(&plain, i % 3 ? x >> 20 : i);
	test_gzip();
	test_zstd();
	test_others();
	test_nothing(put_gzip, "gzip of nothing");
	test_nothing(put_zstd, "zstd of nothing");
	test_bomb(put_gzip);
	test_bomb(put_zstd);
	buf_release(&plain);
	buf_release(&packed);
	return tap_done();
}
