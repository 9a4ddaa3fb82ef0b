/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key that signs the audit log's head, and the head itself. Both are files of the folder
 * audit/, used under its lock. Ed25519: RFC 8032; audit/key is PKCS #8 (RFC 8410) as PEM.
 */
#ifndef KOSA8_STORE_AUDIT_KEY_H
#define KOSA8_STORE_AUDIT_KEY_H

#include "../base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct audit_key {
	void *pkey;	     /* EVP_PKEY; NULL: none */
	char public_hex[65]; /* 32 bytes */
};
/* 1, or 0 when there is no key file. ERR_CORRUPT when it is not an Ed25519 key. */
int audit_key_load(int dirfd, struct audit_key *ret, struct err *e) must_check;
int audit_key_make(int dirfd, struct audit_key *ret, struct err *e) must_check;
void audit_key_release(struct audit_key *k);
#define cleanup_audit_key __attribute__((cleanup(audit_key_release)))

struct audit_head {
	uint64_t count; /* records in the log */
	char hash[65];	/* of the last one */
	char key[65];
	char sig[129];
};
int audit_head_sign(const struct audit_key *k, uint64_t count, const char *hash,
	struct audit_head *ret, struct err *e) must_check;
/* Whether its key signed it. */
bool audit_head_holds(const struct audit_head *h);

/*
 * audit/head always has 512 bytes and is overwritten in place: one sector, so a crash leaves the
 * old or the new one, the file system has no space to find for it, and making it durable costs one
 * flush.
 */
/* 1, or 0 when there is none. ERR_CORRUPT. The signature is not checked. */
int audit_head_read(int dirfd, struct audit_head *ret, struct err *e) must_check;
int audit_head_write(int dirfd, const struct audit_head *h, struct err *e) must_check;
/* Makes what was written last durable; nearly free when it is. */
int audit_head_sync(int dirfd, struct err *e) must_check;

#endif
