/* SPDX-License-Identifier: Apache-2.0 */
#include "hash.h"

#include "fd.h"
#include "text.h"

#include <assert.h>
#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <sys/random.h>

struct sha256 {
	EVP_MD_CTX *ctx;
};

struct sha256 *sha256_new(void)
{
	struct sha256 *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->ctx = EVP_MD_CTX_new();
	if (!h->ctx || EVP_DigestInit_ex(h->ctx, EVP_sha256(), NULL) != 1) {
		sha256_free(h);
		return NULL;
	}
	return h;
}

void sha256_free(struct sha256 *h)
{
	if (!h)
		return;
	EVP_MD_CTX_free(h->ctx);
	free(h);
}

void sha256_freep(struct sha256 **h)
{
	sha256_free(*h);
	*h = NULL;
}

void sha256_update(struct sha256 *h, const void *data, size_t len)
{
	int ok = EVP_DigestUpdate(h->ctx, data, len);

	assert(ok == 1);
}

void sha256_hex(struct sha256 *h, char ret[static SHA256_HEX_SIZE])
{
	unsigned char raw[SHA256_SIZE];
	int ok = EVP_DigestFinal_ex(h->ctx, raw, NULL);

	assert(ok == 1);
	text_hex(raw, sizeof(raw), ret);
}

void sha256_hex_of(const void *data, size_t len, char ret[static SHA256_HEX_SIZE])
{
	unsigned char raw[SHA256_SIZE];
	int ok = EVP_Digest(data, len, raw, NULL, EVP_sha256(), NULL);

	assert(ok == 1);
	text_hex(raw, sizeof(raw), ret);
}

int sha256_hex_of_fd(int fd, char ret[static SHA256_HEX_SIZE])
{
	enum { CHUNK = 1 << 18 };
	cleanup_sha256 struct sha256 *h = sha256_new();
	unsigned char *chunk = malloc(CHUNK);
	off_t offset = 0;
	ssize_t n;

	if (!h || !chunk) {
		free(chunk);
		return -ENOMEM;
	}
	while ((n = fd_pread_full(fd, chunk, CHUNK, offset)) > 0) {
		sha256_update(h, chunk, (size_t)n);
		offset += n;
	}
	free(chunk);
	if (n < 0)
		return (int)n;
	sha256_hex(h, ret);
	return 0;
}

void random_bytes(void *ret, size_t len)
{
	unsigned char *p = ret;

	while (len > 0) {
		ssize_t n = getrandom(p, len, 0);
		if (n < 0) {
			assert(errno == EINTR);
			continue;
		}
		p += n;
		len -= (size_t)n;
	}
}

void random_hex(char *ret, size_t n)
{
	unsigned char raw[32];

	assert(n % 2 == 0 && n / 2 <= sizeof(raw));
	random_bytes(raw, n / 2);
	text_hex(raw, n / 2, ret);
}
