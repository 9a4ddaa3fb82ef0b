/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who a program runs as: docker's --user, resolved in the image's /etc/passwd and /etc/group
 * (passwd(5), group(5)).
 *
 *   ""           uid 0
 *   name, uid    primary and supplementary groups from the files; a uid that is not in them is
 *                taken as it is, with gid 0
 *   ...:group    this group, by name or gid, and no supplementary ones
 */
#ifndef KOSA8_GUEST_USER_H
#define KOSA8_GUEST_USER_H

#include "../base/err.h"

#include <stddef.h>
#include <sys/types.h>

#define USER_GROUPS_MAX 256
#define USER_HOME_MAX 256
/* Larger files are refused. */
#define USER_FILE_MAX (1024u * 1024)

struct user {
	uid_t uid;
	gid_t gid;
	gid_t groups[USER_GROUPS_MAX];
	size_t groups_len;
	char home[USER_HOME_MAX]; /* "/" when the files say nothing */
};

/* passwd and group are the files' content, NULL for none. */
int user_resolve(const char *spec, const char *passwd, const char *group, struct user *ret,
	struct err *e) must_check;
/* The same with the files below the current root. */
int user_lookup(const char *spec, struct user *ret, struct err *e) must_check;

#endif
