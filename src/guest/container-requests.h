/* SPDX-License-Identifier: Apache-2.0 */
/* The requests that concern one container: SIGNAL_CONTAINER and REMOVE. */
#ifndef KOSA8_GUEST_CONTAINER_REQUESTS_H
#define KOSA8_GUEST_CONTAINER_REQUESTS_H

#include "run.h"

/* Replies at once. */
void container_signal(struct runs *rs, const struct frame *f);
/* Replies when it is gone: at once, or when the program that is ended for it has ended. */
void container_remove(struct runs *rs, const struct frame *f);

#endif
