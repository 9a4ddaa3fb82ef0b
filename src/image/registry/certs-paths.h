/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files and folders that certificates are read from when a host is first asked: the bundle of
 * SSL_CERT_FILE, or libcurl's own and its folder; the folders of SSL_CERT_DIR, or libcurl's own;
 * those of certs.h; and of these, the links that lead to some other place. Who confines itself
 * before then has to allow them: redirects lead to hosts that nobody knows yet.
 */
#ifndef KOSA8_IMAGE_REGISTRY_CERTS_PATHS_H
#define KOSA8_IMAGE_REGISTRY_CERTS_PATHS_H

/* Adds them to *ret (base/strv.h), whether they are there or not. In all folders together the first
 * CERTS_PATHS_ENTRIES_MAX entries are looked at. 0 or -ENOMEM. */
#define CERTS_PATHS_ENTRIES_MAX 8192
int certs_paths(char ***ret) __attribute__((warn_unused_result));

#endif
