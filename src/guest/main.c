/* SPDX-License-Identifier: Apache-2.0 */
/* PID 1 of the guest. A fault during boot ends it, which makes the kernel panic and QEMU exit. */
#include "../base/clock.h"
#include "../base/log.h"
#include "agent.h"
#include "boot.h"
#include "modules.h"
#include "rehearsal.h"
#include "uevent.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static struct agent agent;

static int boot(struct err *e)
{
	int r, uevent_fd;

	if ((r = boot_console(e)) < 0 || (r = uevent_fd = uevent_open(e)) < 0 ||
		(r = modules_load("/modules", e)) < 0)
		return r;
	modules_discard("/modules");
	if ((r = boot_root(e)) < 0 || (r = boot_filesystems(e)) < 0 || (r = boot_loopback(e)) < 0 ||
		(r = agent_init(&agent, uevent_fd, e)) < 0 ||
		(r = dns_init(&agent.dns, &agent.loop, e)) < 0 || (r = boot_settings(e)) < 0)
		return r;
	if ((r = rehearse(&agent.cgroups, e)) < 0)
		return r;
	/* The template then carries these pages, and none has to be fetched later. */
	(void)mlockall(MCL_CURRENT);
	return agent_open_ports(&agent, e);
}

int main(void)
{
	struct err e;

	log_init("kosa8-agent", NULL);
	if (getpid() != 1) {
		static const char text[] = "kosa8-agent is the first process of a kosa8 guest\n";
		(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
		return REHEARSAL_EXIT;
	}
	if (boot(&e) < 0) {
		log_warn("boot: %s", e.what);
		return EXIT_FAILURE;
	}
	agent_serve(&agent);
	return EXIT_FAILURE;
}
