/* SPDX-License-Identifier: Apache-2.0 */
/* What catalog-sweep.c and catalog-sandbox.c need of home.c beside home.h. */
#ifndef KOSA8_STORE_HOME_INTERNAL_H
#define KOSA8_STORE_HOME_INTERNAL_H

#include "home.h"

#define HOME_PATH_MAX 450

/* A folder that is being removed: sandboxes/.gone.ID.TAG. Whoever finds one may finish it. */
#define HOME_ASIDE_PREFIX ".gone."
#define HOME_ASIDE_SIZE 40

bool home_is_id(const char *id);
/* home_sandbox_dir() for those that have only a descriptor of the home. */
int home_sandbox_dir_at(int home_dirfd, const char *id, bool create, struct err *e) must_check;
/* Renames sandboxes/ID: 1, or 0 when there is none. */
int home_sandbox_move_aside(int sandboxes_dirfd, const char *id, char ret[static HOME_ASIDE_SIZE],
	struct err *e) must_check;

#endif
