/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands around a session have in common: run, exec, attach, logs, wait, shell. */
#ifndef KOSA8_CLI_SESSION_H
#define KOSA8_CLI_SESSION_H

#include "args.h"
#include "context.h"
#include "stream.h"

#include "../proto/client.h"

/* The wire carries text: JSON. ERR_INVALID naming what. s may be NULL. */
int session_check_text(const char *what, const char *s, struct err *e) must_check;
/* The container of an operand: ERR_NOT_FOUND for what cannot be one. */
int session_check_container(const char *ref, struct err *e) must_check;
/* --env: K=V; or K alone, whose value is taken from here as docker does, when it has one. With tty
 * also TERM, unless it is set. */
int session_env(const struct args *a, bool tty, char ***ret, struct err *e) must_check;
/* --workdir and --user. */
int session_place(const struct args *a, const char **ret_cwd, const char **ret_user,
	struct err *e) must_check;
/* The operands from `first` on. */
int session_argv(const struct args *a, size_t first, char ***ret, struct err *e) must_check;
int session_check_size(char *const *argv, char *const *env, struct err *e) must_check;
/* --interactive, --tty, --detach-keys and --timeout (where the command has it) into o. Refuses -it
 * without a terminal, unless o->detached. */
int session_streams(const struct args *a, struct stream_options *o, struct err *e) must_check;
/* --detach-keys, or the default. */
int session_detach_keys(const struct args *a, struct detach_keys *ret, struct err *e) must_check;

/* The state directory, and a running sandbox in it. */
int session_open(const char *name, struct context *c, struct sandbox *s, struct err *e) must_check;
/* A request on a connection of its own, as stream_run(). */
int session_run(const struct sandbox *s, json_t *request, const struct stream_options *o,
	struct err *e) must_check;
/* Runs r in a new container of an image, which is pulled when it is not there; r->image and
 * r->image_name are set here. Where kosa8-image failed, its exit status. */
int session_run_image(struct context *c, const struct sandbox *s, const char *image, bool quiet,
	struct client_run *r, const struct stream_options *o, struct err *e) must_check;

#endif
