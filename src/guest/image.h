/* SPDX-License-Identifier: Apache-2.0 */
/* Images: SCSI LUNs with a squashfs, mounted read-only on /run/images/DIGEST. A LUN that is plugged
 * in while the guest runs appears some time later: the request waits for it. */
#ifndef KOSA8_GUEST_IMAGE_H
#define KOSA8_GUEST_IMAGE_H

#include "../proto/agent.h"

#include <stdint.h>

#define IMAGES_MAX 64
#define IMAGE_WAIT_MS 10000

struct image_request {
	uint32_t stream; /* 0: free */
	struct agent_image attach;
	int64_t deadline_ms;
	bool scanned; /* the kernel was asked to look for the LUN */
};

struct images {
	struct agent_image mounted[IMAGES_MAX];
	size_t mounted_len;
	struct image_request waiting[IMAGES_MAX];
	bool news; /* a device came or went, or a request: worth another look */
};

bool image_is_mounted(const struct images *im, const char *digest);
/* Begins a request; image_step() answers it. -EAGAIN: too many at once; -EINVAL: not a digest. */
int image_request(struct images *im, uint32_t stream, const struct agent_image *a) must_check;
/* Tries all that wait, if there is news or a deadline. For each that is decided, calls done(). */
void image_step(struct images *im,
	void (*done)(void *ctx, uint32_t stream, const struct agent_reply *reply), void *ctx);
/* The earliest deadline, -1 without. */
int64_t image_deadline_ms(const struct images *im);
/* Forgets who waits: an epoch has ended. */
void image_forget_requests(struct images *im);

#endif
