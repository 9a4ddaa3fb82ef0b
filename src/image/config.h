/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The image configuration (OCI image-spec config.md): checked, bounded, and reduced to what is
 * used. The reduced form, which is what the catalog keeps and the guest is given:
 *
 *   {"architecture","os","variant"?,"created"?,
 *    "config":{"Env":[..],"Entrypoint":[..],"Cmd":[..],"User":"","WorkingDir":"/..",
 *              "StopSignal":"","Volumes":{..},"ExposedPorts":{..},"Labels":{..}},
 *    "rootfs":{"type":"layers","diff_ids":[..]}}
 *
 * All members of "config" are there; WorkingDir is "" or absolute. Env, Entrypoint and Cmd together
 * hold at most CONFIG_ARGS_MAX bytes, so that a run request fits into one frame.
 */
#ifndef KOSA8_IMAGE_CONFIG_H
#define KOSA8_IMAGE_CONFIG_H

#include "manifest.h"

#include "../base/json.h"

#define CONFIG_BYTES_MAX (8u * 1024 * 1024)
#define CONFIG_ARGS_MAX (200u * 1000)
#define CONFIG_REDUCED_MAX (512u * 1024) /* the reduced form; over that the labels are left out */

struct image_config {
	json_t *reduced;
	struct platform platform;
};
void image_config_release(struct image_config *c);
#define cleanup_image_config __attribute__((cleanup(image_config_release)))

/* layers: how many the manifest has. */
int image_config_parse(const void *data, size_t len, size_t layers, struct image_config *ret,
	struct err *e) must_check;
/* Only the "config" member, as `import --config` gives it; the rest is made: linux/amd64, no
 * diff_ids yet. NULL: an empty one. */
int image_config_make(const char *member, struct image_config *ret, struct err *e) must_check;
/* ERR_INCOMPATIBLE "the image is for linux/arm64 only" unless it is for this platform. */
int image_config_check_platform(
	const struct image_config *c, const struct platform *wanted, struct err *e) must_check;
/* The i-th of rootfs.diff_ids ("sha256:..."), borrowed; NULL past the end. */
const char *image_config_diff_id(const struct image_config *c, size_t i);

#endif
