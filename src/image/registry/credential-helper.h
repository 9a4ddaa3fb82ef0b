/* SPDX-License-Identifier: Apache-2.0 */
/*
 * docker's credential helpers: the program docker-credential-NAME, found in PATH, with one of the
 * words get, store, erase; a request on its stdin, an answer on its stdout. (docker-credential-
 * helpers, README "Development".) get reads the server's key and answers {"ServerURL", "Username",
 * "Secret"}; the user name "<token>" marks an identity token. store reads such an object.
 *
 * A helper has KOSA8_CREDENTIAL_HELPER_MS (60000) to answer, and HELPER_OUTPUT_MAX bytes. Secrets
 * go through pipes only; what it prints gets into no message and no log, its stderr is dropped.
 */
#ifndef KOSA8_IMAGE_REGISTRY_CREDENTIAL_HELPER_H
#define KOSA8_IMAGE_REGISTRY_CREDENTIAL_HELPER_H

#include "credentials.h"

#define HELPER_OUTPUT_MAX (64u * 1024)

/* Letters, digits, '-', '_', '.', at most 64; not '-' or '.' first. */
bool helper_is_name(const char *name);

/* Sets the hint of an error of one of the verbs below; file: the configuration that names it. */
int helper_hint(
	const char *name, const char *verb, const char *server, const char *file, struct err *e);

/* It has none: 0, and *ret is zeroed. */
int helper_get(
	const char *name, const char *server, struct credentials *ret, struct err *e) must_check;
/* The answer to get: the same. */
int helper_parse(const char *name, const void *data, size_t len, struct credentials *ret,
	struct err *e) must_check;
int helper_store(const char *name, const char *server, const char *user, const char *secret,
	struct err *e) must_check;
/* Nothing to erase is no error. ERR_NOT_FOUND: there is no such program. */
int helper_erase(const char *name, const char *server, struct err *e) must_check;

#endif
