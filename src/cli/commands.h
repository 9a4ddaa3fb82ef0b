/* SPDX-License-Identifier: Apache-2.0 */
/* The commands' functions, as command-table.h describes them; one cmd-*.c a command or group. */
#ifndef KOSA8_CLI_COMMANDS_H
#define KOSA8_CLI_COMMANDS_H

#include "args.h"

int cmd_sandbox_create(const struct args *a, struct err *e);
int cmd_sandbox_ls(const struct args *a, struct err *e);
int cmd_sandbox_inspect(const struct args *a, struct err *e);
int cmd_sandbox_start(const struct args *a, struct err *e);
int cmd_sandbox_stop(const struct args *a, struct err *e);
int cmd_sandbox_rm(const struct args *a, struct err *e);
int cmd_sandbox_pull(const struct args *a, struct err *e);
int cmd_sandbox_images(const struct args *a, struct err *e);
int cmd_sandbox_exec(const struct args *a, struct err *e);
int cmd_sandbox_ps(const struct args *a, struct err *e);
int cmd_sandbox_logs(const struct args *a, struct err *e);
int cmd_sandbox_kill(const struct args *a, struct err *e);
int cmd_sandbox_wait(const struct args *a, struct err *e);
int cmd_sandbox_attach(const struct args *a, struct err *e);
int cmd_sandbox_shell(const struct args *a, struct err *e);
int cmd_sandbox_run(const struct args *a, struct err *e);
int cmd_sandbox_mount_add(const struct args *a, struct err *e);
int cmd_sandbox_mount_rm(const struct args *a, struct err *e);
int cmd_sandbox_mount_ls(const struct args *a, struct err *e);
int cmd_sandbox_port_add(const struct args *a, struct err *e);
int cmd_sandbox_port_rm(const struct args *a, struct err *e);
int cmd_sandbox_port_ls(const struct args *a, struct err *e);
int cmd_sandbox_cp(const struct args *a, struct err *e);
int cmd_sandbox_diff(const struct args *a, struct err *e);
int cmd_sandbox_apply(const struct args *a, struct err *e);
int cmd_checkpoint_create(const struct args *a, struct err *e);
int cmd_checkpoint_ls(const struct args *a, struct err *e);
int cmd_checkpoint_rm(const struct args *a, struct err *e);
int cmd_rewind(const struct args *a, struct err *e);
int cmd_image_ls(const struct args *a, struct err *e);
int cmd_image_inspect(const struct args *a, struct err *e);
int cmd_image_history(const struct args *a, struct err *e);
int cmd_image_pull(const struct args *a, struct err *e);
int cmd_image_tag(const struct args *a, struct err *e);
int cmd_image_rm(const struct args *a, struct err *e);
int cmd_image_prune(const struct args *a, struct err *e);
int cmd_image_save(const struct args *a, struct err *e);
int cmd_image_load(const struct args *a, struct err *e);
int cmd_image_import(const struct args *a, struct err *e);
int cmd_login(const struct args *a, struct err *e);
int cmd_logout(const struct args *a, struct err *e);
int cmd_audit_ls(const struct args *a, struct err *e);
int cmd_audit_verify(const struct args *a, struct err *e);
int cmd_audit_export(const struct args *a, struct err *e);
int cmd_doctor(const struct args *a, struct err *e);
int cmd_version(const struct args *a, struct err *e);
int cmd_system_df(const struct args *a, struct err *e);

#endif
