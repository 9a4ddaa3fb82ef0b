/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program is called with struct bpf_cgroup_dev_ctx (uapi/linux/bpf.h) for every open and mknod
 * of a device node; it returns 1 to allow. Allowed are, as in docker's default list:
 *   mknod alone    of anything (a node that cannot be opened does no harm)
 *   char 1:*       3 null, 5 zero, 7 full, 8 random, 9 urandom
 *   char 5:*       0 tty, 2 ptmx
 *   char 136:*     pts/N
 */
#include "devices.h"

#include "../base/fd.h"

#include <errno.h>
#include <linux/bpf.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOAD(dst, field)                                                                   \
	{                                                                                  \
		.code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = (dst), .src_reg = BPF_REG_1, \
		.off = offsetof(struct bpf_cgroup_dev_ctx, field)                          \
	}
#define MOVE(dst, src)                                                                  \
	{                                                                               \
		.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = (dst), .src_reg = (src) \
	}
#define SET(dst, value)                                                               \
	{                                                                             \
		.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = (dst), .imm = (value) \
	}
#define AND(dst, value)                                                               \
	{                                                                             \
		.code = BPF_ALU64 | BPF_AND | BPF_K, .dst_reg = (dst), .imm = (value) \
	}
#define SHIFT_RIGHT(dst, n)                                                       \
	{                                                                         \
		.code = BPF_ALU64 | BPF_RSH | BPF_K, .dst_reg = (dst), .imm = (n) \
	}
/* n instructions further, if equal / not equal */
#define IF_EQ(reg, value, n)                                                                    \
	{                                                                                       \
		.code = BPF_JMP | BPF_JEQ | BPF_K, .dst_reg = (reg), .off = (n), .imm = (value) \
	}
#define IF_NE(reg, value, n)                                                                    \
	{                                                                                       \
		.code = BPF_JMP | BPF_JNE | BPF_K, .dst_reg = (reg), .off = (n), .imm = (value) \
	}
#define END                                \
	{                                  \
		.code = BPF_JMP | BPF_EXIT \
	}

static const struct bpf_insn program[] = {
	/*  0 */ LOAD(BPF_REG_2, access_type),
	/*  1 */ LOAD(BPF_REG_4, major),
	/*  2 */ LOAD(BPF_REG_5, minor),
	/*  3 */ MOVE(BPF_REG_3, BPF_REG_2),
	/*  4 */ AND(BPF_REG_2, 0xffff),
	/*  5 */ SHIFT_RIGHT(BPF_REG_3, 16),
	/*  6 */ IF_EQ(BPF_REG_3, BPF_DEVCG_ACC_MKNOD, 13),
	/*  7 */ IF_NE(BPF_REG_2, BPF_DEVCG_DEV_CHAR, 10),
	/*  8 */ IF_EQ(BPF_REG_4, 136, 11),
	/*  9 */ IF_NE(BPF_REG_4, 5, 2),
	/* 10 */ IF_EQ(BPF_REG_5, 0, 9),
	/* 11 */ IF_EQ(BPF_REG_5, 2, 8),
	/* 12 */ IF_NE(BPF_REG_4, 1, 5),
	/* 13 */ IF_EQ(BPF_REG_5, 3, 6),
	/* 14 */ IF_EQ(BPF_REG_5, 5, 5),
	/* 15 */ IF_EQ(BPF_REG_5, 7, 4),
	/* 16 */ IF_EQ(BPF_REG_5, 8, 3),
	/* 17 */ IF_EQ(BPF_REG_5, 9, 2),
	/* 18 */ SET(BPF_REG_0, 0),
	/* 19 */ END,
	/* 20 */ SET(BPF_REG_0, 1),
	/* 21 */ END,
};

int devices_restrict(int cgroup_fd, struct err *e)
{
	static const char license[] = "";
	union bpf_attr load = {.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE,
		.insn_cnt = sizeof(program) / sizeof(*program),
		.insns = (uintptr_t)program,
		.license = (uintptr_t)license};
	cleanup_fd int prog = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &load, sizeof(load));

	if (prog < 0)
		return err_errno(e, errno, "load the device filter");
	union bpf_attr attach = {.target_fd = (uint32_t)cgroup_fd,
		.attach_bpf_fd = (uint32_t)prog,
		.attach_type = BPF_CGROUP_DEVICE};
	if (syscall(SYS_bpf, BPF_PROG_ATTACH, &attach, sizeof(attach)) < 0)
		return err_errno(e, errno, "attach the device filter");
	return 0;
}
