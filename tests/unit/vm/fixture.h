/* SPDX-License-Identifier: Apache-2.0 */
/* A temporary folder with guest assets in it, and a guest to talk to (tests/fixtures/mini-agent.c).
 */
#ifndef KOSA8_TESTS_VM_FIXTURE_H
#define KOSA8_TESTS_VM_FIXTURE_H

#include "vm/layer.h"
#include "vm/vm.h"

#include "base/buf.h"

#define TEST_LAYER_BYTES (1ull << 30)

struct fixture {
	char path[64];
	int dirfd, templates, layers;
	char assets[96]; /* vmlinuz, and an initramfs whose init is the mini-agent */
	struct vm_host host;
	struct vm_config config;
	struct err e; /* of the last call that failed */
	int log_fd;
};

/* argv: the folder with vmlinuz and initramfs (KOSA8_ASSETS overrides it), the mini-agent. When the
 * assets are not there, the program ends: skipped, or failed when CI is set in the environment. */
void fixture_init(struct fixture *f, int argc, char **argv);
void fixture_release(struct fixture *f);
/* A new empty file, open for both. */
int fixture_file(struct fixture *f, const char *name);

struct guest {
	struct vm *vm;
	uint32_t epoch, next;
	struct buf in;
};
/* Starts a VM on these layers ("a b c") and this state (pages_fd -1: the template's), runs it, and
 * brings its agent to a new epoch. */
bool guest_start(struct guest *g, struct fixture *f, const struct vm_template *t,
	const char *layers, int pages_fd, int device_fd, uint32_t epoch);
void guest_release(struct guest *g);
/* Sends a command; the answer to the last one sent, valid until the next, "" when there is none; or
 * both. */
bool guest_send(struct guest *g, const char *command);
const char *guest_answer(struct guest *g);
const char *guest_ask(struct guest *g, const char *command);
/* Asks until the answer is `want`, or is no longer `value`; at most 5 s. */
bool guest_becomes(struct guest *g, const char *command, const char *want);
bool guest_leaves(struct guest *g, const char *command, const char *value);

#endif
