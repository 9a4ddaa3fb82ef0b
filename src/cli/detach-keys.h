/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys that leave a program running (docker's syntax and default). What is typed goes through
 * here; the beginning of the sequence is held back until the next key decides.
 */
#ifndef KOSA8_CLI_DETACH_KEYS_H
#define KOSA8_CLI_DETACH_KEYS_H

#include "../base/buf.h"
#include "../base/err.h"

#include <stdbool.h>

#define DETACH_KEYS_MAX 16
#define DETACH_KEYS_DEFAULT "ctrl-p,ctrl-q"

struct detach_keys {
	unsigned char keys[DETACH_KEYS_MAX];
	size_t len;  /* 0: no sequence */
	size_t held; /* so many of them were typed */
};

/* Characters and ctrl-X (a to z, @ [ \ ] ^ _), with commas between them; "": none. ERR_USAGE */
int detach_keys_parse(const char *s, struct detach_keys *ret, struct err *e) must_check;
/* Appends to b what is the program's. True: the sequence is complete, what came after it in data
 * is dropped. */
bool detach_keys_feed(struct detach_keys *d, const unsigned char *data, size_t len, struct buf *b);
/* The end of what is typed: what was held back is the program's. */
void detach_keys_flush(struct detach_keys *d, struct buf *b);

#endif
