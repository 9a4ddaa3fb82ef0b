/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wire between a client (the command line) and a supervisor: frames (base/frame.h) on the
 * sandbox's unix socket, or on the socketpair of the client that started the supervisor. One
 * request a connection:
 *
 *   client -> REQUEST {"op": ..., "actor": {...}, ...}
 *   client <- NOTICE {"text": ...}        any number: progress for people
 *   client <- RESULT {"ok": true, ...} or {"ok": false, "error": {...}}   the last frame
 *
 * op         request members                          members of the result
 * start      (socketpair only) mode, checkpoint,      epoch
 *            record: the audit record to be ended
 * status                                              the object of `sandbox inspect`'s "live"
 * attach     image (digest)
 * run        see client_run                           how, code, oom; id (of the container)
 * exec       see client_exec                          how, code, oom
 * container-attach   container, stdin, rows, columns  how, code, oom
 * logs       container, follow, since_ns              (streams: records of proto/log.h as STDOUT)
 * wait       container                                how, code, oom
 * ps                                                  containers: [...]
 * kill       container, signal
 * container-rm   container, force
 * copy       kind (out, in, upper), container or "",  (streams: a tree, proto/tree.h)
 *            path and name ([bytes]), contents, mount
 * mount-add  host, guest, mode (rw, ro, cow)          id
 * mount-rm   guest
 * port-add   ip, host_port (0: any), guest_port       host_port
 * port-rm    ip, host_port
 * checkpoint label (optional)                         id, label, pause_ms, size_bytes, ...
 * checkpoint-rm   checkpoint (id)
 * rewind     checkpoint (id)                          id, epoch
 * stop                                                clean: whether the guest powered down itself
 * destroy                                             ends the VM at once, for rm --force
 *
 * how: exited, signaled, timeout, killed, detached, lost (enum agent_end).
 * containers: id, name, image, image_name, command, state (starting, running, ended), how, code,
 * oom, created_ns, ended_ns, processes, memory_bytes, kept, tty, stdin, attached.
 *
 * A session's connection (run, exec, container-attach, logs, wait, copy) also carries, after its
 * REQUEST: STARTED, STDIN, STDIN_EOF, SIGNAL, DETACH, RESIZE, STDOUT, STDERR and WINDOW, with the
 * flow control of proto/agent.h: the supervisor passes windows through, so it never holds more of a
 * stream than was granted. When a client's connection ends before RESULT, the whole process tree of
 * its run or exec is killed; for the other operations nothing is undone.
 */
#ifndef KOSA8_PROTO_CLIENT_H
#define KOSA8_PROTO_CLIENT_H

#include "../base/frame.h"
#include "../base/json.h"

#include <stdbool.h>

enum client_type {
	CLIENT_REQUEST = 1,   /* JSON */
	CLIENT_STDIN = 2,     /* data */
	CLIENT_STDIN_EOF = 3, /* empty */
	CLIENT_SIGNAL = 4,    /* u32: signal number for the run's first process */
	CLIENT_WINDOW = 5,    /* struct agent_window: both directions */
	CLIENT_DETACH = 6,    /* empty: leave the program running; RESULT follows */
	CLIENT_RESIZE = 7,    /* struct agent_size */
	CLIENT_NOTICE = 65,   /* JSON */
	CLIENT_RESULT = 66,   /* JSON */
	CLIENT_STARTED = 67,  /* empty */
	CLIENT_STDOUT = 68,   /* data */
	CLIENT_STDERR = 69,   /* data */
};

/* REQUEST and RESULT of at most this much (one frame). */
#define CLIENT_JSON_MAX FRAME_PAYLOAD_MAX

struct client_run {
	const char *image;	/* digest: "sha256:<hex>" */
	char **argv;		/* CMD; empty: the image's Cmd. Owned, like the other vectors */
	char **entrypoint;	/* NULL: the image's; an empty vector: none */
	char **env;		/* K=V, over the sandbox's and the image's */
	const char *cwd;	/* NULL: the image's */
	const char *user;	/* NULL: the image's */
	const char *name;	/* NULL: none */
	const char *image_name; /* for people: as it was asked for; NULL: none */
	uint64_t timeout_ms;	/* 0: none */
	uint64_t memory_bytes;	/* 0: none */
	uint64_t pids;		/* 0: none */
	uint64_t cpu_milli;	/* thousandths of a CPU; 0: none */
	uint64_t rows, columns; /* of the terminal */
	bool stdin_open, tty, detach;
};
void client_run_release(struct client_run *r);
/* Adds the members to a request object; 0 or -ENOMEM. */
int client_run_encode(const struct client_run *r, json_t *request) must_check;
/* Strings point into request; the vectors are owned by ret. */
int client_run_decode(const json_t *request, struct client_run *ret, struct err *e) must_check;

struct client_exec {
	const char *container; /* id, name, or the beginning of an id */
	char **argv;
	char **env;	  /* K=V, over the container's */
	const char *cwd;  /* NULL: the container's */
	const char *user; /* NULL: the container's */
	uint64_t timeout_ms;
	uint64_t rows, columns;
	bool stdin_open, tty;
};
void client_exec_release(struct client_exec *x);
int client_exec_encode(const struct client_exec *x, json_t *request) must_check;
int client_exec_decode(const json_t *request, struct client_exec *ret, struct err *e) must_check;

/* Arguments and environment are bytes, JSON strings are UTF-8: a string, or {"hex": ...} for what
 * is not UTF-8. Encode: NULL when out of memory; decode: a missing member is an empty vector. */
json_t *client_bytes_encode(char *const *v);
int client_bytes_decode(const json_t *o, const char *key, char ***ret, struct err *e) must_check;

/* The "error" member of a failed result, and back. */
json_t *client_error_encode(const struct err *e);
void client_error_decode(const json_t *error, struct err *ret);

#endif
