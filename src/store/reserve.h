/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room on a full disk for what frees room: to remove something, its record and the catalog have to
 * be written first. $KOSA8_HOME/reserve is a file that holds some blocks for that moment.
 */
#ifndef KOSA8_STORE_RESERVE_H
#define KOSA8_STORE_RESERVE_H

#include "home.h"

#define RESERVE_BYTES (512u * 1024)

/* Makes it when it is missing and the file system has 16 times its size free; else does nothing. */
void reserve_fill(const struct home *h);
/* After something was removed: makes it also with less room, of half of what is free at most. */
void reserve_refill(const struct home *h);
/* Gives its blocks back; false when there is none. */
bool reserve_release(const struct home *h);
/* The same when less than its size is free. */
void reserve_release_if_full(const struct home *h);

#endif
