/* SPDX-License-Identifier: Apache-2.0 */
/* A run and its client: the frames of the session, its end, and another client's ATTACH. */
#ifndef KOSA8_GUEST_RUN_CLIENT_H
#define KOSA8_GUEST_RUN_CLIENT_H

#include "run.h"

/* A frame of a session. False: no run has this client. */
bool runs_frame(struct runs *rs, const struct frame *f);
/* ATTACH; refusals are sent as RUN_FAILED. */
void runs_attach(struct runs *rs, uint32_t stream, const struct agent_attach *m);
struct run *runs_find(struct runs *rs, uint32_t stream);
/* Ends the session with RUN_EXIT; the run has no client any more. */
void run_client_end(struct runs *rs, struct run *r, const struct agent_exit *exit);
/* What DETACH means for it: of a RUN, that the container is kept. */
void run_detach(struct runs *rs, struct run *r);

#endif
