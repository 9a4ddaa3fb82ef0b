/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a registry accepts a user name and a password. It is asked by a child process, which is
 * confined as a pull is (confine-client.h) and has no images folder: what stores the password
 * afterwards, auth.json or a credential helper, needs the user's own rights. All that comes back
 * from the child is that it was accepted, or an error's text; what is taken for that is bounded.
 */
#ifndef KOSA8_IMAGE_REGISTRY_LOGIN_ASK_H
#define KOSA8_IMAGE_REGISTRY_LOGIN_ASK_H

#include "../output.h"

/* Call it while the process has one thread. Notices go to output. */
int login_ask(const char *registry, const char *user, const char *secret, bool plain_http,
	struct output *output, struct err *e) must_check;

#endif
