/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host's own certificates, as docker and podman keep them: a folder HOST:PORT (or HOST, for port
 * 443) in KOSA8_CERTS_DIR, else in ~/.config/containers/certs.d, /etc/containers/certs.d and
 * /etc/docker/certs.d, the first that has it. In it, in the order of their names:
 *
 *   *.crt             authorities that are trusted for this host, beside the system's
 *   NAME.cert, .key   a client certificate and its key (PEM, no passphrase); the first pair counts
 *
 * They are for this origin alone: what a redirect leads to has its own folder or none.
 */
#ifndef KOSA8_IMAGE_REGISTRY_CERTS_H
#define KOSA8_IMAGE_REGISTRY_CERTS_H

#include "../../base/buf.h"
#include "../../base/err.h"

#define CERTS_BYTES_MAX (4u * 1024 * 1024)

/* PEM; empty where there is none. */
struct certs {
	struct buf authorities; /* the system's (or SSL_CERT_FILE) are in it, too */
	struct buf certificate;
	struct buf key;
};

/* origin as http_origin() makes it. No folder, or not https: all empty. A file in it that cannot be
 * read, is no PEM, or a certificate and a key that do not belong together: an error that names
 * the file. */
int certs_load(const char *origin, struct certs *ret, struct err *e) must_check;
void certs_release(struct certs *c);
/* Adds the folders that hold hosts' folders to *ret (base/strv.h), in the order in which they
 * count. 0 or -ENOMEM. */
int certs_places(char ***ret) must_check;
#define cleanup_certs __attribute__((cleanup(certs_release)))

#endif
