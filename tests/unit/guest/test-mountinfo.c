/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/fs-attach.h"
#include "guest/mountinfo.h"

#include "tap.h"

#include <stdlib.h>

static struct mountinfo m;

static bool parse(const char *line)
{
	return mountinfo_parse(line, strlen(line), &m);
}

static void test_lines(void)
{
	OK(parse("36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw"), "a line");
	EQ_INT(m.id, 36, "id");
	EQ_STR(m.device, "98:0", "device");
	EQ_STR(m.path, "/mnt2", "path");
	OK(parse("1 2 0:5 / /a\\040b\\012c\\134 rw - x y z"), "escapes");
	EQ_STR(m.path, "/a b\nc\\", "are undone");
	OK(parse("1 2 0:5 / /a\\04"), "half an escape");
	EQ_STR(m.path, "/a\\04", "stands as it is");
}

static void test_what_is_none(void)
{
	static const char *const lines[] = {"", " ", "x", "1", "1 2", "1 2 3", "1 2 3:4 /",
		"-1 2 3:4 / /x", "99999999999 2 3:4 / /x", "1 2 12345678901234567890:12345 / /x"};

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		OK(!parse(lines[i]), lines[i]);
	char *line = malloc(MOUNTINFO_PATH_SIZE + 64);
	int n = snprintf(line, 64, "1 2 0:5 / /");
	memset(line + n, 'a', MOUNTINFO_PATH_SIZE);
	OK(!mountinfo_parse(line, (size_t)n + MOUNTINFO_PATH_SIZE - 1, &m), "too long a path");
	OK(mountinfo_parse(line, (size_t)n + MOUNTINFO_PATH_SIZE - 2, &m), "the longest one");
	free(line);
}

static void test_own_namespace(void)
{
	char device[MOUNTINFO_DEVICE_SIZE];

	OK(mountinfo_device("/proc", device) == 0 && strchr(device, ':'), "/proc is mounted");
	OK(mountinfo_device("/no/such/place", device) < 0, "this is not");
}

static void test_paths(void)
{
	static const char *const good[] = {
		"/a", "/data/in", "/...", "/.a", "/a..", "/procs", "/devices/x", "/a/proc"};
	static const char *const bad[] = {"", "a", "/", "/a/", "//a", "/a//b", "/.", "/..",
		"/a/./b", "/a/..", "/proc", "/proc/1", "/sys", "/dev", "/dev/shm"};
	struct err e;

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		OK(fs_path_check(good[i], &e) == 0, good[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		OK(fs_path_check(bad[i], &e) < 0 && *e.what, bad[i]);
}

int main(void)
{
	test_lines();
	test_what_is_none();
	test_own_namespace();
	test_paths();
	return tap_done();
}
