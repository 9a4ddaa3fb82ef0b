/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The images' folder, $KOSA8_HOME/images: what stands where, and who may remove it. kosa8-image
 * (the worker, src/image) fills it, the catalog says which images exist, and the sweep
 * (store/image-sweep.h) removes what nobody needs. HEX are the 64 digits of a SHA-256 digest.
 *
 *   HEX.sqfs           the file system of the image whose manifest has this digest, 0400; complete
 *                      when it is there
 *   blobs/sha256/HEX   a complete blob, byte for byte as it was published: manifest, configuration,
 *                      layer. Mode 0400: on disk for sure. 0600: a crash of the host may have
 *                      damaged it, so it is hashed again before it is used
 *   partial/HEX        a blob on its way; its writer holds the file's lock. Whoever takes the lock
 *                      next continues it
 *   work/NAME/         half-made files of one worker, which holds a flock on the folder itself;
 *                      NAME as for claims
 *   claims/NAME        what one worker needs, a line "sha256:HEX" each; it holds the file's lock as
 *                      long as it lives. NAME: HEX of the manifest when it makes that one image
 *                      (so one worker at a time does, while it gets on), else "x" and 16 hex
 *                      digits
 *   lock               held for moments by who claims, sweeps, or changes which images exist
 *
 * Locks are base/file.h's lock_open(). The rules:
 *
 *  - A worker holds `lock` while it writes digests into its claim, and only then looks what is
 *    there. A manifest's digest stands for HEX.sqfs as well.
 *  - It keeps its claim until its reader has put the image into the catalog (worker.h), which holds
 *    `lock` for that.
 *  - The sweep holds `lock`, and keeps what a row of the catalog or a claim names.
 *  - A claim whose lock is free was left by a pull that was interrupted: what it names is kept for
 *    IMAGES_RESUME_S after its last change, so that the next pull of that image continues. A free
 *    one whose NAME begins with x is garbage.
 */
#ifndef KOSA8_PROTO_IMAGES_DIR_H
#define KOSA8_PROTO_IMAGES_DIR_H

#define IMAGES_BLOBS "blobs/sha256"
#define IMAGES_PARTIAL "partial"
#define IMAGES_WORK "work"
#define IMAGES_CLAIMS "claims"
#define IMAGES_LOCK "lock"
#define IMAGES_SUFFIX ".sqfs"

#define IMAGES_BLOB_SYNCED 0400
#define IMAGES_BLOB_FRESH 0600

#define IMAGES_RESUME_S (24 * 60 * 60)
#define IMAGES_CLAIM_BYTES_MAX (1024u * 1024)

#endif
