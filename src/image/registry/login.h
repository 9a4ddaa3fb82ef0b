/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs login and logout (worker.h). */
#ifndef KOSA8_IMAGE_REGISTRY_LOGIN_H
#define KOSA8_IMAGE_REGISTRY_LOGIN_H

#include "../output.h"

/* The password is all of secret_fd. Nothing is stored before the registry has accepted it: with the
 * credential helper that docker's configuration names for it now, else in auth.json; an earlier
 * login's helper forgets it. */
int login_registry(const char *registry, const char *user, int secret_fd, bool plain_http,
	struct output *output, json_t **ret, struct err *e) must_check;
int logout_registry(
	const char *registry, struct output *output, json_t **ret, struct err *e) must_check;

#endif
