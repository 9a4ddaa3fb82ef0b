/* SPDX-License-Identifier: Apache-2.0 */
/* Paths below a folder, taken name by name: no symbolic link is followed, and none leads out. */
#ifndef KOSA8_CLI_TREE_WALK_H
#define KOSA8_CLI_TREE_WALK_H

#include <stddef.h>

/* Opens (O_PATH) the folder that the first len bytes of path name below base; 0: base itself. A
 * descriptor or -errno: ENOTDIR, ELOOP where a name is no folder. */
int tree_walk(int base, const char *path, size_t len);
/* Of the folder that a path's last name is in; 0: it is in base. */
size_t tree_parent_len(const char *path);
const char *tree_last_name(const char *path);

#endif
