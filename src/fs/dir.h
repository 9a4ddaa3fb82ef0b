/* SPDX-License-Identifier: Apache-2.0 */
/* The names in a folder as they were when a reader began, so that what is removed meanwhile shifts
 * nothing. Large folders are taken in pieces. */
#ifndef KOSA8_FS_DIR_H
#define KOSA8_FS_DIR_H

struct dir_names;

void dir_names_free(struct dir_names *d); /* NULL allowed */

#endif
