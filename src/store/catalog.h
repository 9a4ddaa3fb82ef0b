/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The catalog: what exists. SQLite in WAL mode, used by clients and supervisors at once (busy
 * timeout 10 s); each function is one transaction, durable when it returns (but for
 * catalog_sandbox_set_state() and catalog_audit_mark(): with the next one). Times are
 * clock_wall_ns(). Strings in rows are owned by the row; release functions accept zeroed rows. The
 * schema's version is in user_version: another one is refused with both versions named.
 */
#ifndef KOSA8_STORE_CATALOG_H
#define KOSA8_STORE_CATALOG_H

#include "home.h"

#include <stddef.h>
#include <stdint.h>

#define CATALOG_ID_SIZE 17 /* 16 hex digits and NUL: sandboxes, layers, checkpoints */

struct catalog;
int catalog_open(const struct home *h, struct catalog **ret, struct err *e) must_check;
void catalog_close(struct catalog *c);
void catalog_closep(struct catalog **c);
#define cleanup_catalog __attribute__((cleanup(catalog_closep)))

/* ---- sandboxes ---- */

enum sandbox_state {
	SANDBOX_CREATING, /* not usable yet; swept when its lock is free */
	SANDBOX_RUNNING,  /* alive, or crashed when its lock is free */
	SANDBOX_STOPPED,
	SANDBOX_CRASHED,  /* its supervisor saw the VM die */
	SANDBOX_REMOVING, /* swept when its lock is free */
	SANDBOX_STATE_COUNT
};
const char *sandbox_state_name(enum sandbox_state s);

struct sandbox_row {
	char id[CATALOG_ID_SIZE];
	char *name;
	enum sandbox_state state;
	int64_t created_ns;
	char *spec;			  /* JSON: spec.h */
	char layer[CATALOG_ID_SIZE];	  /* the writable disk layer; "" before the first start */
	char checkpoint[CATALOG_ID_SIZE]; /* what the current state descends from; "": none */
	uint32_t epoch;			  /* the highest ever used */
	char *crash;			  /* why, for SANDBOX_CRASHED; else NULL */
};
void sandbox_row_release(struct sandbox_row *s);
struct sandbox_rows {
	struct sandbox_row *rows;
	size_t len;
};
void sandbox_rows_release(struct sandbox_rows *s);

/* ERR_EXISTS when the name is taken. Fills in id; state is SANDBOX_CREATING. The sandbox's folder
 * is made too, and its lock is held when the row becomes visible (*ret_lock_fd, for the supervisor
 * to inherit), so no sweep takes the sandbox for a leftover. */
int catalog_sandbox_add(struct catalog *c, const char *name, const char *spec,
	struct sandbox_row *ret, int *ret_lock_fd, struct err *e) must_check;
/* By name. ERR_NOT_FOUND with the nearest name as the hint. */
int catalog_sandbox_find(
	struct catalog *c, const char *name, struct sandbox_row *ret, struct err *e) must_check;
/* By id. */
int catalog_sandbox_get(
	struct catalog *c, const char *id, struct sandbox_row *ret, struct err *e) must_check;
/* All, by name. */
int catalog_sandbox_list(struct catalog *c, struct sandbox_rows *ret, struct err *e) must_check;
/* crash: the reason, for SANDBOX_CRASHED; else NULL. Hold the sandbox's lock before setting
 * SANDBOX_REMOVING, else a sweep by another client may get there first. */
int catalog_sandbox_set_state(struct catalog *c, const char *id, enum sandbox_state state,
	const char *crash, struct err *e) must_check;
/* spec: JSON as spec_encode() makes it. For who holds the sandbox's lock. */
int catalog_sandbox_set_spec(
	struct catalog *c, const char *id, const char *spec, struct err *e) must_check;
/* Allots epoch + 1 for a VM that is about to be restored. */
int catalog_sandbox_next_epoch(
	struct catalog *c, const char *id, uint32_t *ret, struct err *e) must_check;
/* The rows of the sandbox, its layers, checkpoints and image uses. Not its folder. */
int catalog_sandbox_delete(struct catalog *c, const char *id, struct err *e) must_check;
/* Finishes what a crash left half done: CREATING and REMOVING rows whose lock is free go, with
 * their folders; folders under sandboxes/ that no row names go. Clients call it once at start;
 * cheap when there is nothing to do. After an error (of the first thing that could not be swept)
 * the catalog can be used all the same. */
int catalog_sweep(struct catalog *c, const struct home *h, struct err *e) must_check;

/* ---- disk layers and checkpoints ---- */

struct layer_row {
	char id[CATALOG_ID_SIZE];
	char parent[CATALOG_ID_SIZE]; /* "": on the template's disk */
};
struct layer_rows {
	struct layer_row *rows;
	size_t len;
};
void layer_rows_release(struct layer_rows *l);
int catalog_layer_list(
	struct catalog *c, const char *sandbox, struct layer_rows *ret, struct err *e) must_check;

struct checkpoint_row {
	char id[CATALOG_ID_SIZE];
	char *label;		      /* NULL: none */
	char parent[CATALOG_ID_SIZE]; /* the checkpoint it descends from; "": none */
	char layer[CATALOG_ID_SIZE];  /* the frozen layer */
	int64_t created_ns;
	uint64_t size_bytes; /* pages + device state + frozen layer, allocated */
	uint64_t pause_us;
	char hash[65]; /* SHA-256 of meta.json, which holds the files' hashes */
	bool durable;  /* on disk for sure */
};
void checkpoint_row_release(struct checkpoint_row *r);
struct checkpoint_rows {
	struct checkpoint_row *rows;
	size_t len;
};
void checkpoint_rows_release(struct checkpoint_rows *r);

/* ERR_EXISTS when the sandbox has a checkpoint of that label. */
int catalog_label_check(
	struct catalog *c, const char *sandbox, const char *label, struct err *e) must_check;
/* The checkpoint's row (all members as given; parent and layer too); sandbox.checkpoint = r->id.
 * Its layer was frozen by catalog_layer_push() before. */
int catalog_checkpoint_add(struct catalog *c, const char *sandbox, const struct checkpoint_row *r,
	struct err *e) must_check;
/* A checkpoint froze the sandbox's current layer: new_layer on top of it is the current one. */
int catalog_layer_push(
	struct catalog *c, const char *sandbox, const char *new_layer, struct err *e) must_check;
/* The first layer of a new sandbox, and SANDBOX_RUNNING, in one transaction. */
int catalog_sandbox_started(
	struct catalog *c, const char *sandbox, const char *layer, struct err *e) must_check;
/* One transaction: new_layer on top of the checkpoint's layer is the current one,
 * sandbox.checkpoint = the checkpoint, SANDBOX_RUNNING. The former current layer's row is deleted
 * when nothing stands on it; its id is returned for the file to be removed ("" when it stays). */
int catalog_rewound(struct catalog *c, const char *sandbox, const char *checkpoint,
	const char *new_layer, char ret_dropped[static CATALOG_ID_SIZE], struct err *e) must_check;
int catalog_checkpoint_set_durable(
	struct catalog *c, const char *checkpoint, struct err *e) must_check;
/* By id or label within the sandbox; NULL: the newest. ERR_NOT_FOUND names the nearest label. */
int catalog_checkpoint_find(struct catalog *c, const char *sandbox, const char *id_or_label,
	struct checkpoint_row *ret, struct err *e) must_check;
/* Oldest first. */
int catalog_checkpoint_list(struct catalog *c, const char *sandbox, struct checkpoint_rows *ret,
	struct err *e) must_check;
/* Deletes the checkpoint's row; children are re-parented to its parent. Its layer's row stays:
 * layers are freed or merged afterwards by the two functions below. */
int catalog_checkpoint_delete(
	struct catalog *c, const char *sandbox, const char *checkpoint, struct err *e) must_check;
/* A layer that no checkpoint and no sandbox names and nothing stands on. */
int catalog_layer_delete(struct catalog *c, const char *layer, struct err *e) must_check;
/* child's data now holds that of its parent: child stands on the parent's parent, and the parent's
 * row is deleted. */
int catalog_layer_merged(struct catalog *c, const char *child, struct err *e) must_check;

/* ---- images ---- */

struct image_row {
	char digest[72];      /* "sha256:<hex>" of the manifest */
	char *config;	      /* JSON: the image configuration, reduced (image/config.h) */
	uint64_t size_bytes;  /* of the file system image */
	uint64_t blobs_bytes; /* of the blobs that are kept: what was downloaded */
	int64_t created_ns;   /* when it was added here */
	char *platform;	      /* "linux/amd64" */
	char **refs;	      /* canonical references that point to it */
};
void image_row_release(struct image_row *r);
#define cleanup_image_row __attribute__((cleanup(image_row_release)))
struct image_rows {
	struct image_row *rows;
	size_t len;
};
void image_rows_release(struct image_rows *r);
#define cleanup_image_rows __attribute__((cleanup(image_rows_release)))

struct image_blob {
	char digest[72];
	uint64_t size_bytes;
};
/* What is put: all borrowed. */
struct image_new {
	const char *digest, *config, *platform;
	const char *ref; /* canonical; NULL: none */
	uint64_t size_bytes;
	const struct image_blob *blobs; /* each once */
	size_t blobs_len;
};
/* Adds or replaces the image and lets ref point to it. Files that a row names are kept by the sweep
 * (image-sweep.h): hold image_lock(). Writes nothing when all of it is so already. */
int catalog_image_put(struct catalog *c, const struct image_new *n, struct err *e) must_check;
/* By canonical reference or "sha256:..." digest. */
int catalog_image_find(struct catalog *c, const char *ref_or_digest, struct image_row *ret,
	struct err *e) must_check;
/* The one image whose digest begins with these hex digits. ERR_NOT_FOUND; ERR_INVALID when there
 * are several. */
int catalog_image_prefix(
	struct catalog *c, const char *hex, char ret_digest[static 72], struct err *e) must_check;
int catalog_image_list(struct catalog *c, struct image_rows *ret, struct err *e) must_check;
/* The names of the sandboxes that use it, as a vector to free with strv_free(). */
int catalog_image_users(
	struct catalog *c, const char *digest, char ***ret, struct err *e) must_check;
/* Another name for it. ERR_NOT_FOUND when the image has gone. */
int catalog_image_tag(
	struct catalog *c, const char *digest, const char *ref, struct err *e) must_check;
/* ERR_WRONG_STATE naming the sandboxes that use it. Removes only the reference when others point
 * to the same image (*ret_deleted false); else row and all (the caller sweeps). */
int catalog_image_delete(struct catalog *c, const char *ref_or_digest, bool *ret_deleted,
	char ret_digest[static 72], struct err *e) must_check;
/* Deletes all images that no sandbox uses, and returns them. */
int catalog_image_prune(struct catalog *c, struct image_rows *ret, struct err *e) must_check;
int catalog_sandbox_image_add(
	struct catalog *c, const char *sandbox, const char *digest, struct err *e) must_check;
int catalog_sandbox_images(
	struct catalog *c, const char *sandbox, struct image_rows *ret, struct err *e) must_check;

/* ---- a number kept apart from the audit log (audit.h) ---- */

int catalog_audit_mark(struct catalog *c, uint64_t count, const char *head_hash,
	const char *public_key_hex, struct err *e) must_check;
/* count 0 when nothing was ever marked. */
int catalog_audit_get(struct catalog *c, uint64_t *ret_count, char ret_head_hash[static 65],
	char ret_public_key_hex[static 65], struct err *e) must_check;

#endif
