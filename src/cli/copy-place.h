/* SPDX-License-Identifier: Apache-2.0 */
/* The operands of `sandbox cp`. */
#ifndef KOSA8_CLI_COPY_PLACE_H
#define KOSA8_CLI_COPY_PLACE_H

#include "../base/err.h"

#include <stdbool.h>

enum copy_side { COPY_HOST, COPY_TAR, COPY_GUEST };

struct copy_place {
	enum copy_side side;
	char *sandbox;	 /* COPY_GUEST */
	char *container; /* "": its workspace */
	char *path;	 /* in the container absolute, else below the workspace */
};

/* "-"; NAME:PATH or NAME/CONTAINER:PATH; else a path of the host, as is all that begins with "/" or
 * ".". ERR_INVALID */
int copy_place_parse(const char *text, struct copy_place *ret, struct err *e) must_check;
void copy_place_release(struct copy_place *p);
#define cleanup_copy_place __attribute__((cleanup(copy_place_release)))
/* Whether it is the contents of a folder that are meant: "/.", ".", "/" at the end of all. */
bool copy_place_is_contents(const struct copy_place *p);
/* The last name of the path (malloc'ed), of a source. ERR_INVALID when there is none. */
int copy_place_name(const struct copy_place *p, char **ret, struct err *e) must_check;

#endif
