/* SPDX-License-Identifier: Apache-2.0 */
#include "certs.h"

#include "secret.h"

#include "../../base/fd.h"
#include "../../base/log.h"
#include "../../base/file.h"
#include "../../base/strv.h"
#include "../../base/text.h"

#include <curl/curl.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILES_MAX 256

static void init(struct certs *c)
{
	buf_init(&c->authorities, CERTS_BYTES_MAX);
	buf_init(&c->certificate, CERTS_BYTES_MAX);
	buf_init(&c->key, CERTS_BYTES_MAX);
}

void certs_release(struct certs *c)
{
	buf_release(&c->authorities);
	buf_release(&c->certificate);
	secret_buf_release(&c->key);
}

static int read_into(int dirfd, const char *path, const char *name, struct buf *b, struct err *e)
{
	int r = file_read(dirfd, name, b);

	if (r < 0)
		return err_errno(e, -r, "cannot read the certificate %s/%s", path, name);
	buf_put_u8(b, '\n'); /* some files do not end their last line */
	return buf_failed(b) ? err_errno(e, E2BIG, "%s/%s", path, name) : 0;
}

static int count_certificates(const void *pem, size_t len)
{
	BIO *bio = BIO_new_mem_buf(pem, (int)len);
	X509 *x;
	int n = 0;

	for (; bio && (x = PEM_read_bio_X509(bio, NULL, NULL, NULL)); n++)
		X509_free(x);
	/* The end of the text is the one error that is none. */
	unsigned long last = ERR_peek_last_error();
	if (last && ERR_GET_REASON(last) != PEM_R_NO_START_LINE)
		n = 0;
	ERR_clear_error();
	BIO_free(bio);
	return n;
}

static int add_authority(
	int dirfd, const char *path, const char *name, struct certs *c, struct err *e)
{
	size_t before = c->authorities.len;
	int r = read_into(dirfd, path, name, &c->authorities, e);

	if (r < 0)
		return r;
	if (count_certificates(c->authorities.data + before, c->authorities.len - before) == 0)
		return err_set(
			e, ERR_INVALID, 0, "%s/%s is not a certificate in PEM form", path, name);
	return 0;
}

/* Else OpenSSL would ask on the terminal. */
static int no_passphrase(char *buf, int size, int writing, void *ctx)
{
	(void)buf;
	(void)size;
	(void)writing;
	(void)ctx;
	return -1;
}

static int check_pair(const struct certs *c, const char *path, const char *name, struct err *e)
{
	BIO *certificate = BIO_new_mem_buf(c->certificate.data, (int)c->certificate.len);
	BIO *key_text = BIO_new_mem_buf(c->key.data, (int)c->key.len);
	X509 *x = certificate ? PEM_read_bio_X509(certificate, NULL, NULL, NULL) : NULL;
	EVP_PKEY *key =
		key_text ? PEM_read_bio_PrivateKey(key_text, NULL, no_passphrase, NULL) : NULL;
	int r = 0;

	if (!x)
		r = err_set(e, ERR_INVALID, 0, "%s/%s.cert is not a certificate in PEM form", path,
			name);
	else if (!key)
		r = err_set(e, ERR_INVALID, 0,
			"%s/%s.key is not a private key in PEM form without a passphrase", path,
			name);
	else if (X509_check_private_key(x, key) != 1)
		r = err_set(
			e, ERR_INVALID, 0, "%s/%s.key is not the key of %s.cert", path, name, name);
	ERR_clear_error();
	X509_free(x);
	EVP_PKEY_free(key);
	BIO_free(certificate);
	BIO_free(key_text);
	return r;
}

static int add_pair(int dirfd, const char *path, const char *file, struct certs *c, struct err *e)
{
	char name[NAME_MAX + 1], key[NAME_MAX + 8];
	int r;

	if (c->certificate.len > 0)
		return 0;
	(void)snprintf(name, sizeof(name), "%.*s", (int)(strlen(file) - strlen(".cert")), file);
	(void)snprintf(key, sizeof(key), "%s.key", name);
	if ((r = read_into(dirfd, path, file, &c->certificate, e)) < 0 ||
		(r = read_into(dirfd, path, key, &c->key, e)) < 0)
		return r;
	return check_pair(c, path, name, e);
}

static bool ends_with(const char *s, const char *end)
{
	size_t len = strlen(s), n = strlen(end);

	return len > n && strcmp(s + len - n, end) == 0;
}

/* The authorities that hold for every host. */
static int add_system(struct certs *c, struct err *e)
{
	const char *file = getenv("SSL_CERT_FILE");

	if (!file || !*file)
		file = curl_version_info(CURLVERSION_NOW)->cainfo;
	if (!file)
		return 0;
	int r = file_read(AT_FDCWD, file, &c->authorities);
	buf_put_u8(&c->authorities, '\n');
	if (r == -ENOENT && !getenv("SSL_CERT_FILE"))
		return 0;
	if (r < 0 || buf_failed(&c->authorities))
		return err_errno(e, r < 0 ? -r : E2BIG, "cannot read the certificates in %s", file);
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list(int dirfd, const char *path, char ***names, struct err *e)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;
	int r = 0;

	if (!d) {
		r = err_errno(e, errno, "cannot read the certificates in %s", path);
		(void)fd_close(fd);
		return r;
	}
	while (r == 0 && (de = readdir(d))) {
		if (!ends_with(de->d_name, ".crt") && !ends_with(de->d_name, ".cert"))
			continue;
		if (strv_len(*names) >= FILES_MAX)
			r = err_set(e, ERR_LIMIT, 0, "more than %d certificates in %s", FILES_MAX,
				path);
		else if (strv_add(names, de->d_name) < 0)
			r = err_errno(e, ENOMEM, "%s", path);
	}
	(void)closedir(d);
	if (r == 0)
		qsort(*names, strv_len(*names), sizeof(**names), by_name);
	return r;
}

static int read_folder(int dirfd, const char *path, struct certs *c, struct err *e)
{
	cleanup_strv char **names = strv_new();
	bool first = true;
	int r = names ? list(dirfd, path, &names, e) : err_errno(e, ENOMEM, "%s", path);

	for (char **name = names; r == 0 && *name; name++) {
		if (ends_with(*name, ".cert")) {
			r = add_pair(dirfd, path, *name, c, e);
			continue;
		}
		if (first && (r = add_system(c, e)) < 0)
			break;
		first = false;
		r = add_authority(dirfd, path, *name, c, e);
	}
	return r;
}

int certs_places(char ***ret)
{
	const char *own = getenv("KOSA8_CERTS_DIR"), *home = getenv("HOME");
	int r = 0;

	if (own && *own)
		return strv_add(ret, own);
	if (home && *home)
		r = strv_addf(ret, "%s/.config/containers/certs.d", home);
	if (r == 0)
		r = strv_add(ret, "/etc/containers/certs.d");
	return r < 0 ? r : strv_add(ret, "/etc/docker/certs.d");
}

/* Opens the folder of this name in the first place that has it. */
static int find_folder(const char *name, char *ret_path, struct err *e)
{
	cleanup_strv char **places = strv_new();

	if (!places || certs_places(&places) < 0)
		return err_errno(e, ENOMEM, "cannot look for the certificates of %s", name);
	for (char **place = places; *place; place++) {
		(void)snprintf(ret_path, PATH_MAX, "%.3000s/%.300s", *place, name);
		int fd = open(ret_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0)
			return fd;
		/* A folder that is not for us (dockerd's, of root) holds nothing for us. */
		if (errno == EACCES)
			log_info("%s cannot be entered: its certificates do not count", ret_path);
		else if (errno != ENOENT && errno != ENOTDIR)
			return err_errno(e, errno, "cannot read the certificates in %s", ret_path);
	}
	return -1;
}

int certs_load(const char *origin, struct certs *ret, struct err *e)
{
	const char *host = origin + strlen("https://");
	cleanup_certs struct certs c = {0};
	char path[PATH_MAX], name[320];
	struct err found = {0};

	init(&c);
	if (!text_starts_with(origin, "https://") || strchr(host, '/') || *host == '.')
		return 0;
	(void)snprintf(name, sizeof(name), "%s", host);
	cleanup_fd int fd = find_folder(name, path, &found);
	if (fd < 0 && found.kind == ERR_NONE && ends_with(name, ":443")) {
		name[strlen(name) - strlen(":443")] = '\0';
		fd = find_folder(name, path, &found);
	}
	if (fd < 0 && found.kind != ERR_NONE) {
		*e = found;
		return err_code(e);
	}
	int r = fd < 0 ? 0 : read_folder(fd, path, &c, e);
	if (r < 0)
		return r;
	*ret = c;
	init(&c);
	return 0;
}
