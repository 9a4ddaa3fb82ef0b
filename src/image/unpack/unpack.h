/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kosa8-unpack N: turns N untrusted image layers into one read-only squashfs (lz4, 128 KiB blocks).
 * Short-lived and confined (confine.h); it opens nothing, all it may touch is handed over:
 *
 *     0         /dev/null
 *     1         report: a pipe; see below
 *     2         log (base/log.h)
 *     3         the output: an empty regular file, read-write, no O_APPEND. Not synced: a caller
 *               that wants it durable calls fsync(2). Truncated to nothing on failure.
 *     4..4+N-1  the layers, the lowest first: regular files, read from offset 0; a tar, plain or
 *               compressed with gzip or zstd (found by magic). N is 0 to UNPACK_LAYERS_MAX.
 *
 * Report: one JSON object a line, each in one write(2). At most 10 a second, and one at the end of
 * each layer:
 *     {"progress":{"layer":I,"bytes":B}}   I: 0 is the lowest; B: bytes of the layer's file read
 * Progress is dropped while the pipe is full. Then exactly one last line:
 *     {"ok":true,"entries":E,"tar_bytes":T,"size":S,"layer_diff_ids":["sha256:<hex>",...]}
 *         E: inodes in the image; T: bytes of all uncompressed tars; S: bytes of the squashfs
 *     {"ok":false,"error":{"kind":"<err_kind_name>","what":"...","hint":"..."}}
 * Exit code 0 / 1. Without a last line the worker was killed: the caller must take that as failure.
 * In error texts layers count from 1, the lowest: `layer 2: entry "p/x": ...`.
 *
 * layer_diff_ids are the digests of the uncompressed tars (OCI image-spec config.md, rootfs); the
 * caller compares them with the image's configuration.
 *
 * The same layers give the same bytes, whatever the machine and its number of processors. File data
 * of layers that a later layer hides is a hole in the output.
 *
 * Memory: some 10 MB, and for each name about 110 bytes and its length, 80 more if it is no hard
 * link; 80 more for each file over a block; attributes twice; a zstd layer's window (128 MiB at
 * most). 500,000 files take about 100 MB; UNPACK_MEMORY_BYTES leaves room for 2,000,000.
 *
 * Errors: ERR_CORRUPT damaged or cut data; ERR_INVALID an entry that no image may have; ERR_LIMIT a
 * limit below; ERR_UNSUPPORTED another compression; ERR_NO_SPACE, ERR_IO the output file.
 *
 * How layers are read (OCI image-spec layer.md, and what is left open there):
 *  - A layer of no bytes, compressed or not, changes nothing; so does a tar of zero blocks only. A
 *    tar may end after any entry: with two zero blocks, one, or none, and without the padding of
 *    its last file. What follows two zero blocks is only hashed. A tar that ends elsewhere, also
 *    between an extended header and its entry, is damaged; so is one that goes on after one zero
 *    block.
 *  - Names: a leading "/", "." and empty components are dropped. ".." is refused in names and hard
 *    link targets. A component that is a symbolic link is followed inside the image's own tree, as
 *    container engines do in the root file system: absolute targets start at its root, ".." stops
 *    there, at most UNPACK_SYMLINKS_MAX links. Missing parents are made: 0755, owner 0:0, time 0.
 *    A component that is any other thing than a folder is refused.
 *  - A folder over a folder keeps what is in it; everything else is replaced, by the last of its
 *    name in a tar too. A hard link is one more name of an inode, its header's owner, mode, times
 *    and attributes do not matter; its target is looked for in the tree as it is at that entry.
 *  - .wh.NAME of any type hides NAME, .wh..wh..opq all in its folder, of lower layers only,
 *    wherever in the tar it stands. A folder that is hidden but has entries of the same layer in it
 *    stays, as a made one. Other names that start with .wh..wh. (AUFS) are skipped. ".wh.",
 *    ".wh..", ".wh..." and folders named .wh.* are refused.
 *  - Sockets are skipped. Extended attributes outside user., trusted. and security. cannot be
 *    stored in squashfs and are dropped; trusted.overlay.* and user.overlay.* are dropped, they
 *    would speak to the guest's overlayfs, and so would a character device 0:0, which is kept but
 *    which the guest does not see. Times before 1970 are 0, after 2106 the last second.
 */
#ifndef KOSA8_IMAGE_UNPACK_UNPACK_H
#define KOSA8_IMAGE_UNPACK_UNPACK_H

#include <stdint.h>

#define UNPACK_FD_REPORT 1
#define UNPACK_FD_OUTPUT 3
#define UNPACK_FD_LAYERS 4
#define UNPACK_LAYERS_MAX 127 /* as docker */

#define UNPACK_DEPTH_MAX 256	      /* components of a name, and of a folder's place */
#define UNPACK_NAME_MAX 255	      /* bytes of a component */
#define UNPACK_PATH_MAX 4096	      /* bytes of a name */
#define UNPACK_TARGET_MAX 4095	      /* bytes of a symbolic link's target: Linux's own limit */
#define UNPACK_SYMLINKS_MAX 40	      /* links followed for one name */
#define UNPACK_STEPS_MAX 1024	      /* components walked for one name, links included */
#define UNPACK_LINKS_MAX 65000	      /* names of one inode: ext4's limit, so it can be copied up */
#define UNPACK_IDS_MAX 65536	      /* different user and group ids of an image: squashfs's */
#define UNPACK_XATTRS_MAX 128	      /* attributes of one entry */
#define UNPACK_XATTR_NAME_MAX 255     /* Linux's own limits (xattr(7)) */
#define UNPACK_XATTR_VALUE_MAX 65536u /* bytes */
#define UNPACK_XATTRS_BYTES_MAX (64u << 20) /* of all attributes of an image */
#define UNPACK_ZSTD_WINDOW_LOG 27	    /* 128 MiB: zstd --ultra -22, --long=27 */
#define UNPACK_SECONDS 7200		    /* by the clock, also while nothing is done */
#define UNPACK_SECONDS_VARIABLE "KOSA8_UNPACK_SECONDS" /* of the environment: lowers it */
#define UNPACK_CPU_SECONDS 900
#define UNPACK_MEMORY_BYTES (1024ull << 20) /* RLIMIT_DATA */

/* Limits that tests lower. */
struct unpack_limits {
	uint64_t entries;	    /* of all layers, made parents included */
	uint64_t total_bytes;	    /* of all uncompressed tars, and of all files' sizes */
	uint64_t ratio;		    /* uncompressed : compressed, of one layer */
	uint64_t ratio_after_bytes; /* uncompressed bytes from which ratio counts */
};
#define UNPACK_LIMITS                                                         \
	{                                                                     \
		.entries = 2000000, .total_bytes = 64ull << 30, .ratio = 200, \
		.ratio_after_bytes = 1ull << 30                               \
	}

#endif
