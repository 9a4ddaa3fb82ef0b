/* SPDX-License-Identifier: Apache-2.0 */
#include "audit-key.h"

#include "../base/buf.h"
#include "../base/file.h"
#include "../base/text.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <string.h>

#define KEY_FILE_MAX 4096

void audit_key_release(struct audit_key *k)
{
	EVP_PKEY_free(k->pkey);
	*k = (struct audit_key){0};
}

/* Takes ownership of pkey. */
static int adopt(EVP_PKEY *pkey, struct audit_key *ret, struct err *e)
{
	unsigned char raw[32];
	size_t len = sizeof(raw);

	if (!pkey || EVP_PKEY_get_base_id(pkey) != EVP_PKEY_ED25519 ||
		EVP_PKEY_get_raw_public_key(pkey, raw, &len) != 1 || len != sizeof(raw)) {
		EVP_PKEY_free(pkey);
		(void)err_set(e, ERR_CORRUPT, 0, "the audit log's key (audit/key) is not a key");
		return err_hint(e, "put back a copy of the state directory");
	}
	ret->pkey = pkey;
	text_hex(raw, sizeof(raw), ret->public_hex);
	return 0;
}

int audit_key_load(int dirfd, struct audit_key *ret, struct err *e)
{
	cleanup_buf struct buf b = {0};
	EVP_PKEY *pkey = NULL;

	buf_init(&b, KEY_FILE_MAX);
	int r = file_read(dirfd, "key", &b);
	if (r == -ENOENT)
		return 0;
	if (r < 0 && r != -E2BIG)
		return err_errno(e, -r, "cannot read the audit log's key");
	BIO *bio = r == 0 && b.len > 0 ? BIO_new_mem_buf(b.data, (int)b.len) : NULL;
	if (bio)
		pkey = PEM_read_bio_PrivateKey(bio, NULL, NULL, "");
	(void)BIO_free(bio);
	r = adopt(pkey, ret, e);
	return r < 0 ? r : 1;
}

int audit_key_make(int dirfd, struct audit_key *ret, struct err *e)
{
	EVP_PKEY *pkey = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	BIO *bio = BIO_new(BIO_s_mem());
	char *pem = NULL;
	long len = 0;
	int r;

	if (!pkey || !bio || PEM_write_bio_PrivateKey(bio, pkey, NULL, NULL, 0, NULL, NULL) != 1 ||
		(len = BIO_get_mem_data(bio, &pem)) <= 0) {
		r = err_set(e, ERR_INTERNAL, 0, "cannot make the audit log's key");
	} else {
		r = file_write_atomic(dirfd, "key", pem, (size_t)len, 0600, true);
		if (r < 0)
			r = err_errno(e, -r, "cannot write the audit log's key");
	}
	(void)BIO_free(bio);
	if (r < 0) {
		EVP_PKEY_free(pkey);
		return r;
	}
	return adopt(pkey, ret, e);
}

static size_t message(uint64_t count, const char *hash, char *ret, size_t size)
{
	return (size_t)snprintf(
		ret, size, "kosa8-audit-v1\n%llu\n%s", (unsigned long long)count, hash);
}

int audit_head_sign(const struct audit_key *k, uint64_t count, const char *hash,
	struct audit_head *ret, struct err *e)
{
	struct audit_head h = {.count = count};
	unsigned char sig[64];
	char text[128];
	size_t len = sizeof(sig), text_len = message(count, hash, text, sizeof(text));
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool ok = ctx && EVP_DigestSignInit(ctx, NULL, NULL, NULL, k->pkey) == 1 &&
		  EVP_DigestSign(ctx, sig, &len, (unsigned char *)text, text_len) == 1 &&
		  len == sizeof(sig);

	EVP_MD_CTX_free(ctx);
	if (!ok)
		return err_set(e, ERR_INTERNAL, 0, "cannot sign the head of the audit log");
	(void)snprintf(h.hash, sizeof(h.hash), "%s", hash);
	(void)snprintf(h.key, sizeof(h.key), "%s", k->public_hex);
	text_hex(sig, sizeof(sig), h.sig);
	*ret = h;
	return 0;
}

bool audit_head_holds(const struct audit_head *h)
{
	unsigned char raw[32], sig[64];
	char text[128];
	size_t text_len = message(h->count, h->hash, text, sizeof(text));

	if (!text_unhex(h->key, raw, sizeof(raw)) || !text_unhex(h->sig, sig, sizeof(sig)))
		return false;
	EVP_PKEY *pkey = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, raw, sizeof(raw));
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool ok = pkey && ctx && EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, pkey) == 1 &&
		  EVP_DigestVerify(ctx, sig, sizeof(sig), (unsigned char *)text, text_len) == 1;
	EVP_MD_CTX_free(ctx);
	EVP_PKEY_free(pkey);
	return ok;
}
