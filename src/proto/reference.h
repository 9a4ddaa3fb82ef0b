/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An image's name, as people type it (the grammar of distribution's `reference` package):
 *
 *     [REGISTRY/]REPOSITORY[:TAG][@sha256:HEX]
 *
 * The part before the first slash is a registry only if it holds a dot or a colon or is
 * "localhost"; else the registry is docker.io, where a repository of one component stands below
 * library/. (With an upper-case letter it can be neither: refused.) A registry's name is
 * case-insensitive, lower case in the canonical form; index.docker.io and registry-1.docker.io are
 * docker.io. Without tag and digest the tag is "latest". The canonical form names everything:
 * docker.io/library/python:3.12-slim. It parses to itself. Names below library/ that could be meant
 * as a digest are refused: sha256, and 64 hex digits.
 */
#ifndef KOSA8_PROTO_REFERENCE_H
#define KOSA8_PROTO_REFERENCE_H

#include "../base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define REFERENCE_NAME_MAX 255 /* registry and repository with the slash between */
#define REFERENCE_TAG_MAX 128
#define REFERENCE_DIGEST_SIZE 72     /* "sha256:", 64 lower-case hex digits, NUL */
#define REFERENCE_CANONICAL_SIZE 800 /* each part at its maximum */

struct reference {
	char registry[REFERENCE_NAME_MAX + 1]; /* host in lower case, with :port if one was given */
	char repository[REFERENCE_NAME_MAX + 1]; /* "library/python" */
	char tag[REFERENCE_TAG_MAX + 1];	 /* "": none, then there is a digest */
	char digest[REFERENCE_DIGEST_SIZE];	 /* "": none */
};

/* ERR_INVALID with what is wrong and, where it is a known slip, how to write it. */
int reference_parse(const char *text, struct reference *ret, struct err *e) must_check;
/* The canonical form. */
void reference_canonical(const struct reference *r, char ret[static REFERENCE_CANONICAL_SIZE]);
/* The canonical form of a registry's name alone; -EINVAL when it is none. */
int reference_registry(
	const char *s, size_t len, char ret[static REFERENCE_NAME_MAX + 1]) must_check;
/* Whether s is "sha256:" and 64 lower-case hex digits. */
bool reference_is_digest(const char *s);

#endif
