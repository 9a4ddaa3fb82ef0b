/* SPDX-License-Identifier: Apache-2.0 */
/* What a process can still do after confine_child(): probed from inside one, and read from /proc of
 * a real QEMU in test-vm.c. */
#include "vm/confine.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/spawn.h"

#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum probe {
	PROBE_SOCKET,
	PROBE_RAM_IS_FD0,
	PROBE_RAM_NOT_WRITABLE,
	PROBE_READ_USR,
	PROBE_READ_ELSEWHERE,
	PROBE_WRITE_ELSEWHERE,
	PROBE_KILL_PARENT,
	PROBE_SIGNAL_SELF,
	PROBE_CORE,
	PROBE_COUNT
};
static const char *const names[PROBE_COUNT] = {"no socket can be made",
	"the open of RAM gives descriptor 0", "RAM cannot be written", "/usr can be read",
	"other files cannot be read", "no file can be made", "the parent cannot be signalled",
	"its own threads can be signalled", "no core is dumped"};

static char outside[64];

static bool control(enum probe p)
{
	struct rlimit core;
	int fd;

	switch (p) {
	case PROBE_SOCKET:
		return (fd = socket(AF_INET, SOCK_STREAM, 0)) >= 0;
	case PROBE_RAM_IS_FD0:
		return openat(AT_FDCWD, "/proc/self/fd/0", O_RDWR) == 0;
	case PROBE_RAM_NOT_WRITABLE:
		return write(0, "x", 1) == 1 ||
		       openat(AT_FDCWD, "/proc/self/fd/0", O_WRONLY | O_CLOEXEC) >= 0 ||
		       openat(AT_FDCWD, "/proc/self/fd/0", O_RDWR | O_CLOEXEC) >= 0;
	case PROBE_READ_USR:
		return open("/usr", O_RDONLY | O_DIRECTORY) >= 0;
	case PROBE_READ_ELSEWHERE:
		return openat(AT_FDCWD, outside, O_RDONLY) >= 0;
	case PROBE_WRITE_ELSEWHERE:
		return openat(AT_FDCWD, "/tmp/kosa8-confine-probe", O_WRONLY | O_CREAT, 0600) >= 0;
	case PROBE_KILL_PARENT:
		return kill(getppid(), 0) == 0;
	case PROBE_SIGNAL_SELF:
		return syscall(SYS_tgkill, getpid(), getpid(), 0) == 0;
	case PROBE_CORE:
		return getrlimit(RLIMIT_CORE, &core) < 0 || core.rlim_cur != 0;
	case PROBE_COUNT:
		break;
	}
	return false;
}

/* A bit for each probe that says yes, from a child with descriptor 0 the file, read-only. */
static unsigned probe_in_child(bool confined, int file)
{
	pid_t parent = getpid(), pid;
	unsigned bits = 0;
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return 0;
	if ((pid = fork()) == 0) {
		struct confine c = {.parent = parent, .ram_is_fd0 = true};
		if (dup2(file, 0) < 0 || (confined && confine_child(&c) < 0))
			_exit(1);
		for (enum probe i = 0; i < PROBE_COUNT; i++)
			bits |= control(i) ? 1u << i : 0;
		_exit(write(p[1], &bits, sizeof(bits)) == sizeof(bits) ? 0 : 1);
	}
	(void)close(p[1]);
	bool ok = fd_read_full(p[0], &bits, sizeof(bits)) == sizeof(bits);
	(void)close(p[0]);
	(void)waitpid(pid, NULL, 0);
	return ok ? bits : ~0u;
}

int main(void)
{
	(void)snprintf(outside, sizeof(outside), "/tmp/kosa8-confine.XXXXXX");
	int fd = mkstemp(outside);
	if (fd < 0 || fd_write_all(fd, "ram", 3) < 0)
		return 1;
	int ro = open(outside, O_RDONLY | O_CLOEXEC);
	unsigned before = probe_in_child(false, ro), after = probe_in_child(true, ro);
	bool landlock =
		syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) > 0;

	for (enum probe i = 0; i < PROBE_COUNT; i++) {
		bool allowed =
			i == PROBE_RAM_IS_FD0 || i == PROBE_READ_USR || i == PROBE_SIGNAL_SELF;
		bool by_landlock = i == PROBE_READ_ELSEWHERE || i == PROBE_WRITE_ELSEWHERE ||
				   i == PROBE_RAM_NOT_WRITABLE;
		if (by_landlock && !landlock)
			printf("# the next needs Landlock, which this kernel lacks\n");
		OK(!!(after & 1u << i) == (allowed || (by_landlock && !landlock)), names[i]);
		if (i != PROBE_RAM_IS_FD0 && i != PROBE_CORE)
			OK(before & 1u << i, "control: possible without confinement");
	}
	(void)unlink("/tmp/kosa8-confine-probe");
	(void)unlink(outside);
	return tap_done();
}
