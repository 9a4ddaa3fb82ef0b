/* SPDX-License-Identifier: Apache-2.0 */
#include "layer-stream.h"

#include "../../base/fd.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <isa-l/igzip_lib.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

#define CHUNK_BYTES (256u * 1024)
/* What igzip may have taken beyond a member's end, and gives back: it may be of the chunk before.
 */
#define KEPT_BYTES 8

enum codec { CODEC_PLAIN, CODEC_GZIP, CODEC_ZSTD };

struct layer_stream {
	int fd;
	enum codec codec;
	struct unpack_limits limits;
	uint64_t *total_bytes;
	layer_progress *progress;
	void *ctx;
	struct sha256 *hash;
	uint64_t read_bytes; /* of the file */
	uint64_t used_bytes; /* of those, given to the decompressor */
	uint64_t out_bytes;
	bool eof;     /* of the file */
	bool in_unit; /* inside a gzip member or zstd frame */
	bool padded;  /* zeros after the last unit: nothing else may follow */
	const unsigned char *in;
	size_t in_len;
	struct inflate_state gzip;
	ZSTD_DStream *zstd;
	unsigned char raw[KEPT_BYTES + CHUNK_BYTES]; /* the end of the chunk before, a chunk */
	unsigned char out[CHUNK_BYTES];
};

static int fill(struct layer_stream *s, struct err *e)
{
	ssize_t n;

	if (s->in_len > 0 || s->eof)
		return 0;
	if (s->in)
		memmove(s->raw, s->in - KEPT_BYTES, KEPT_BYTES);
	s->in = s->raw + KEPT_BYTES;
	n = fd_pread_full(s->fd, s->raw + KEPT_BYTES, CHUNK_BYTES, (off_t)s->read_bytes);
	if (n < 0)
		return err_errno(e, (int)-n, "cannot read the layer");
	s->eof = n < CHUNK_BYTES;
	s->in_len = (size_t)n;
	s->read_bytes += (uint64_t)n;
	if (s->progress)
		s->progress(s->ctx, s->read_bytes);
	return 0;
}

static bool starts_with(const struct layer_stream *s, const char *magic, size_t len)
{
	return s->in_len >= len && memcmp(s->in, magic, len) == 0;
}

static bool is_zstd(const struct layer_stream *s)
{
	/* A frame, or a skippable frame: 0x184D2A50 to 0x184D2A5F. */
	return starts_with(s, "\x28\xb5\x2f\xfd", 4) ||
	       (s->in_len >= 4 && (s->in[0] & 0xf0) == 0x50 &&
		       memcmp(s->in + 1, "\x2a\x4d\x18", 3) == 0);
}

static int detect(struct layer_stream *s, struct err *e)
{
	static const struct {
		const char *magic;
		size_t len;
		const char *name;
	} others[] = {
		{"BZh", 3, "bzip2"},
		{"\xfd"
		 "7zXZ",
			5, "xz"},
		{"\x04\x22\x4d\x18", 4, "lz4"},
		{"PK\x03\x04", 4, "zip"},
	};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (starts_with(s, others[i].magic, others[i].len))
			return err_set(e, ERR_UNSUPPORTED, 0,
				"the layer is compressed with %s, not gzip or zstd",
				others[i].name);
	if (starts_with(s, "\x1f\x8b", 2))
		s->codec = CODEC_GZIP;
	else if (is_zstd(s))
		s->codec = CODEC_ZSTD;
	return 0;
}

static int start_codec(struct layer_stream *s, struct err *e)
{
	if (s->codec == CODEC_ZSTD) {
		s->zstd = ZSTD_createDStream();
		if (!s->zstd || ZSTD_isError(ZSTD_DCtx_setParameter(
					s->zstd, ZSTD_d_windowLogMax, UNPACK_ZSTD_WINDOW_LOG)))
			return err_set(e, ERR_LIMIT, ENOMEM, "out of memory for zstd");
	}
	return 0;
}

int layer_stream_open(int fd, const struct unpack_limits *limits, uint64_t *total_bytes,
	layer_progress *progress, void *ctx, struct layer_stream **ret, struct err *e)
{
	cleanup_layer_stream struct layer_stream *s = calloc(1, sizeof(*s));
	int r;

	if (s)
		s->hash = sha256_new();
	if (!s || !s->hash)
		return err_set(e, ERR_LIMIT, ENOMEM, "out of memory for the layer's buffers");
	s->fd = fd;
	s->limits = *limits;
	s->total_bytes = total_bytes;
	s->progress = progress;
	s->ctx = ctx;
	r = fill(s, e);
	if (r == 0)
		r = detect(s, e);
	if (r == 0)
		r = start_codec(s, e);
	if (r < 0)
		return r;
	*ret = s;
	s = NULL;
	return 0;
}

void layer_stream_free(struct layer_stream *s)
{
	if (!s)
		return;
	(void)ZSTD_freeDStream(s->zstd);
	sha256_free(s->hash);
	free(s);
}

void layer_stream_freep(struct layer_stream **s)
{
	layer_stream_free(*s);
}

static int other_data(struct err *e)
{
	return err_set(e, ERR_CORRUPT, 0,
		"the layer's file goes on with something else after its compressed data");
}

/* Between two members or frames: true when a further one starts here, false at the file's end. */
static int next_unit(struct layer_stream *s, struct err *e)
{
	bool more;

	if (s->codec == CODEC_GZIP) {
		while (s->in_len > 0 && s->in[0] == 0) {
			s->padded = true;
			s->in++;
			s->in_len--;
		}
		more = s->in_len > 0 && s->in[0] == 0x1f;
	} else {
		more = s->in_len > 0;
	}
	if (s->in_len == 0)
		return 0;
	if (!more || s->padded)
		return other_data(e);
	return 1;
}

static const char *gzip_fault(int r)
{
	switch (r) {
	case ISAL_INVALID_WRAPPER:
		return "not a gzip header";
	case ISAL_UNSUPPORTED_METHOD:
		return "unknown compression method";
	case ISAL_INCORRECT_CHECKSUM:
		return "incorrect checksum or length";
	case ISAL_INVALID_LOOKBACK:
		return "invalid distance";
	default:
		return "invalid block";
	}
}

static int inflate_some(struct layer_stream *s, size_t *ret_len, struct err *e)
{
	struct inflate_state *z = &s->gzip;
	int r;

	if (!s->in_unit) {
		isal_inflate_init(z);
		z->crc_flag = ISAL_GZIP;
		s->in_unit = true;
	}
	z->next_in = (uint8_t *)s->in;
	z->avail_in = (uint32_t)s->in_len;
	z->next_out = s->out;
	z->avail_out = sizeof(s->out);
	r = isal_inflate(z);
	if (r < 0 || r == ISAL_NEED_DICT)
		return err_set(e, ERR_CORRUPT, 0, "damaged gzip data: %s", gzip_fault(r));
	if (z->block_state == ISAL_BLOCK_FINISH) {
		s->in_unit = false;
		z->next_in -= z->read_in_length / 8;
		z->avail_in += (uint32_t)(z->read_in_length / 8);
	}
	s->used_bytes += s->in_len - z->avail_in;
	s->in = z->next_in;
	s->in_len = z->avail_in;
	*ret_len = sizeof(s->out) - z->avail_out;
	return 0;
}

static int window_too_large(struct err *e)
{
	(void)err_set(e, ERR_LIMIT, 0, "the layer's zstd window is larger than %u MiB",
		(1u << UNPACK_ZSTD_WINDOW_LOG) >> 20);
	return err_hint(e, "compress it with `zstd --long=%d` at most", UNPACK_ZSTD_WINDOW_LOG);
}

static int unzstd_some(struct layer_stream *s, size_t *ret_len, struct err *e)
{
	ZSTD_inBuffer in = {.src = s->in, .size = s->in_len};
	ZSTD_outBuffer out = {.dst = s->out, .size = sizeof(s->out)};
	bool starting = !s->in_unit && s->used_bytes > 0;
	size_t r = ZSTD_decompressStream(s->zstd, &out, &in);

	if (ZSTD_isError(r)) {
		if (starting && !is_zstd(s))
			return other_data(e);
		if (ZSTD_getErrorCode(r) == ZSTD_error_frameParameter_windowTooLarge)
			return window_too_large(e);
		return err_set(e, ERR_CORRUPT, 0, "damaged zstd data: %s", ZSTD_getErrorName(r));
	}
	s->in_unit = r != 0;
	s->used_bytes += in.pos;
	s->in += in.pos;
	s->in_len -= in.pos;
	*ret_len = out.pos;
	return 0;
}

/* Some bytes into out; *ret_len 0 at the end. */
static int decompress(struct layer_stream *s, size_t *ret_len, struct err *e)
{
	int r;

	*ret_len = 0;
	while (*ret_len == 0) {
		r = fill(s, e);
		if (r < 0)
			return r;
		if (!s->in_unit) {
			r = next_unit(s, e);
			if (r < 0)
				return r;
			if (r == 0 && s->eof)
				return 0;
			if (r == 0)
				continue;
		}
		size_t before = s->in_len;
		r = s->codec == CODEC_GZIP ? inflate_some(s, ret_len, e)
					   : unzstd_some(s, ret_len, e);
		if (r < 0)
			return r;
		if (*ret_len == 0 && s->in_unit && s->in_len == before && s->eof)
			return err_set(e, ERR_CORRUPT, 0,
				"the layer is cut: its compressed data ends too early");
	}
	return 0;
}

static int check_limits(struct layer_stream *s, size_t len, struct err *e)
{
	s->out_bytes += len;
	if (len > s->limits.total_bytes - *s->total_bytes)
		return err_set(e, ERR_LIMIT, 0,
			"the layers have more than %" PRIu64 " bytes uncompressed",
			s->limits.total_bytes);
	*s->total_bytes += len;
	if (s->codec != CODEC_PLAIN && s->out_bytes > s->limits.ratio_after_bytes &&
		s->out_bytes / s->limits.ratio > s->used_bytes)
		return err_set(e, ERR_LIMIT, 0,
			"the layer expands to more than %" PRIu64 " times its size",
			s->limits.ratio);
	return 0;
}

int layer_stream_next(struct layer_stream *s, const void **ret, size_t *ret_len, struct err *e)
{
	size_t len;
	int r;

	if (s->codec == CODEC_PLAIN) {
		r = fill(s, e);
		*ret = s->in;
		len = s->in_len;
		s->in_len = 0;
	} else {
		r = decompress(s, &len, e);
		*ret = s->out;
	}
	if (r == 0)
		r = check_limits(s, len, e);
	if (r < 0)
		return r;
	sha256_update(s->hash, *ret, len);
	*ret_len = len;
	return 0;
}

void layer_stream_digest(struct layer_stream *s, char ret[static SHA256_HEX_SIZE])
{
	assert(s->eof && s->in_len == 0 && !s->in_unit);
	sha256_hex(s->hash, ret);
}
