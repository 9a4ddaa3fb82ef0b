/* SPDX-License-Identifier: Apache-2.0 */
/* The only program of the test's scratch image: prints what it was given, or misbehaves. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void print_all(char **v)
{
	for (; *v; v++)
		(void)fwrite(*v, 1, strlen(*v) + 1, stdout);
}

static int eat_memory(void)
{
	for (;;) {
		char *p = malloc(1 << 20);

		if (!p)
			return 3;
		memset(p, 1, 1 << 20);
	}
}

/* Opens a device node that it makes itself. */
static int open_device(const char *kind, unsigned major_number, unsigned minor_number)
{
	mode_t type = *kind == 'b' ? S_IFBLK : S_IFCHR;

	if (mknod("node", type | 0666, makedev(major_number, minor_number)) < 0) {
		printf("mknod %s\n", strerror(errno));
		return 1;
	}
	int fd = open("node", O_RDWR | O_NONBLOCK);
	printf("open %s\n", fd < 0 ? strerror(errno) : "ok");
	return unlink("node");
}

static int deep(long levels)
{
	for (long i = 0; i < levels; i++)
		if (mkdir("d", 0755) < 0 || chdir("d") < 0)
			return 1;
	return 0;
}

/* Each is left by its parent at once, and ends. */
static int orphans(long count)
{
	for (long i = 0; i < count; i++) {
		pid_t pid = vfork();

		if (pid == 0)
			_exit(fork() < 0);
		int status;
		if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0)
			return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (strcmp(what, "argv") == 0)
		print_all(argv + 2);
	else if (strcmp(what, "env") == 0)
		print_all(environ);
	else if (strcmp(what, "memory") == 0)
		return eat_memory();
	else if (strcmp(what, "device") == 0 && argc == 5)
		return open_device(argv[2], (unsigned)strtoul(argv[3], NULL, 10),
			(unsigned)strtoul(argv[4], NULL, 10));
	else if (strcmp(what, "deep") == 0 && argc == 3)
		return deep(strtol(argv[2], NULL, 10));
	else if (strcmp(what, "orphans") == 0 && argc == 3)
		return orphans(strtol(argv[2], NULL, 10));
	else if (strcmp(what, "pause") == 0)
		return pause();
	else if (strcmp(what, "ids") == 0)
		printf("%d %d %d %d\n", (int)getuid(), (int)getgid(), (int)getpid(),
			(int)getppid());
	return 0;
}
