/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 (FIPS 180-4) and random bytes, on libcrypto and getrandom(2). */
#ifndef KOSA8_BASE_HASH_H
#define KOSA8_BASE_HASH_H

#include "err.h"

#include <stddef.h>

#define SHA256_SIZE 32
#define SHA256_HEX_SIZE 65 /* with the NUL */

struct sha256;			 /* heap; one owner */
struct sha256 *sha256_new(void); /* NULL when out of memory */
void sha256_free(struct sha256 *h);
void sha256_freep(struct sha256 **h);
void sha256_update(struct sha256 *h, const void *data, size_t len);
/* Ends the hash: lower-case hex. The object can only be freed after this. */
void sha256_hex(struct sha256 *h, char ret[static SHA256_HEX_SIZE]);
#define cleanup_sha256 __attribute__((cleanup(sha256_freep)))

void sha256_hex_of(const void *data, size_t len, char ret[static SHA256_HEX_SIZE]);
/* The whole file from offset 0, by pread: the file position is not used. */
int sha256_hex_of_fd(int fd, char ret[static SHA256_HEX_SIZE]) must_check;

void random_bytes(void *ret, size_t len);
/* n random lower-case hex digits and a NUL. n is even. */
void random_hex(char *ret, size_t n);

#endif
