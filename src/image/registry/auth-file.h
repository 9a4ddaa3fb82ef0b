/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth.json: what `kosa8 login` stored, in docker's config.json format (credentials.h), 0600, at
 * the path in KOSA8_AUTH_FILE, or none when that is not set. It is replaced whole, under the lock
 * of auth.json.lock beside it. A link, another's file, or one that others may read is refused.
 */
#ifndef KOSA8_IMAGE_REGISTRY_AUTH_FILE_H
#define KOSA8_IMAGE_REGISTRY_AUTH_FILE_H

#include "credentials.h"

/* For messages; "" when there is none. */
const char *auth_file_path(void);
/* What it says about a registry; a missing file: nothing. */
int auth_file_entry(const char *registry, struct credentials_entry *ret, struct err *e) must_check;

/* Replaces what is there for the registry: by user and password, by a helper (user NULL), or by
 * nothing (both NULL). */
int auth_file_change(const char *registry, const char *user, const char *password,
	const char *helper, struct err *e) must_check;

#endif
