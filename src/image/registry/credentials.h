/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The credentials that this user has for a registry. They are looked for in two files of docker's
 * config.json format: ours (auth-file.h), then $DOCKER_CONFIG/config.json or ~/.docker/config.json;
 * in each of them in this order, the first that has some counts:
 *
 *   {"credHelpers": {HOST: NAME},     docker-credential-NAME is asked (credential-helper.h); "": no
 *                                     helper for this host, not even credsStore
 *    "auths": {HOST: {"auth": BASE64 of "USER:PASSWORD", or "username" and "password",
 *                     "identitytoken": .., "registrytoken": ..}},
 *    "credsStore": NAME}
 *
 * HOST may be written with a scheme and a path; https://index.docker.io/v1/ is docker.io.
 */
#ifndef KOSA8_IMAGE_REGISTRY_CREDENTIALS_H
#define KOSA8_IMAGE_REGISTRY_CREDENTIALS_H

#include "secret.h"

#include "../../base/err.h"

#include <limits.h>
#include <stdbool.h>

#define CREDENTIAL_MAX 16384
#define HELPER_NAME_SIZE 65

/* All NULL: none. */
struct credentials {
	char *user; /* not NULL when password is not; may be "" */
	char *password;
	char *identity_token; /* for the token server, instead of a password (OAuth 2 refresh) */
	char *registry_token; /* for the registry itself, as Bearer */
	char from[300];	      /* the file or the helper, for messages */
	/* Where they could not be had: the helper whose failure is the error, or "". */
	char failed_helper[HELPER_NAME_SIZE];
	bool is_others_fault; /* of a helper or docker's file: what is public can be had all the
				 same */
};
void credentials_release(struct credentials *c);
#define cleanup_credentials __attribute__((cleanup(credentials_release)))
static inline bool credentials_exist(const struct credentials *c)
{
	return c->password || c->identity_token || c->registry_token;
}
/* Whether one of the secrets is part of text, also in the forms in which they are sent. */
bool credentials_are_in(const struct credentials *c, const char *text);
/* base64 of "USER:PASSWORD"; NULL: out of memory. */
char *credentials_basic(const char *user, const char *password);

/* What one file says about a registry. */
struct credentials_entry {
	char helper[HELPER_NAME_SIZE]; /* of credHelpers, or "" */
	char store[HELPER_NAME_SIZE];  /* credsStore, or "" */
	bool in_auths;		       /* there is an entry, which may be empty */
	struct credentials credentials;
};
void credentials_entry_release(struct credentials_entry *x);
#define cleanup_credentials_entry __attribute__((cleanup(credentials_entry_release)))
int credentials_parse(const char *registry, const void *data, size_t len,
	struct credentials_entry *ret, struct err *e) must_check;

/* registry as in struct reference: docker.io, registry.example.com:5000. None: 0. ask_helpers: else
 * none is started, and 1 says that one would have to be. */
int credentials_find(
	const char *registry, bool ask_helpers, struct credentials *ret, struct err *e) must_check;

/* docker's file: its path, or "" where there can be none; and what it says, a missing one nothing.
 */
void credentials_docker_path(char ret[static PATH_MAX]);
int credentials_docker_entry(
	const char *registry, struct credentials_entry *ret, struct err *e) must_check;
/* The first that the entry leads to. file: for messages. */
int credentials_of_entry(const char *registry, const char *file, struct credentials_entry *x,
	struct credentials *ret, struct err *e) must_check;

/* A key of these objects as a registry's canonical name: without scheme and path. */
void credentials_key_host(const char *key, char *ret, size_t size);
/* And what docker writes for a host: https://index.docker.io/v1/ for docker.io, else the host. */
const char *credentials_host_key(const char *registry);

#endif
