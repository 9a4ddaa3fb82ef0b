/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/file.h"
#include "base/strv.h"
#include "store/spec.h"

#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct err e;

static void test_good_mounts(void)
{
	static const struct {
		const char *text, *host, *guest, *mode;
	} good[] = {
		{"/h:/g", "/h", "/g", "rw"},
		{"/h:/g:ro", "/h", "/g", "ro"},
		{"rel:/g:cow", "rel", "/g", "cow"},
		{".:/g:rw", ".", "/g", "rw"},
		{"/a:b:/g", "/a:b", "/g", "rw"},
		{"/a:/b:/g:ro", "/a:/b", "/g", "ro"},
		{"/h://g//x/./y/", "/h", "/g/x/y", "rw"},
		{"/h:/workspace/in", "/h", "/workspace/in", "rw"},
		{"/h:/process", "/h", "/process", "rw"},
		{"/h:/g/..x", "/h", "/g/..x", "rw"},
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		cleanup_spec_mount struct spec_mount m = {0};
		EQ_INT(spec_mount_parse(good[i].text, &m, &e), 0, good[i].text);
		EQ_STR(m.host, good[i].host, "  its host");
		EQ_STR(m.guest, good[i].guest, "  its guest");
		EQ_STR(mount_mode_name(m.mode), good[i].mode, "  its mode");
	}
}

static void test_bad_mounts(void)
{
	static const char *const bad[] = {"", ":", "/h", "/h:", ":/g", "/h:g", "/h:g:ro", "/h:/",
		"/h://", "/h:/.", "/h:/g:xx", "/h:/g:", "/h:/g:RO", "/h:/proc", "/h:/proc/1",
		"/h:/sys/x", "/h:/dev", "/h:/dev/shm", "/h:/./dev//shm", "/h:/workspace",
		"/h:/workspace/", "/h:/g/../x", "/h:/..", "/h:/g\xff", "/h:/g:ro:rw",
		"/h:/g:rw:ro"};
	cleanup_spec_mount struct spec_mount m = {0};
	char large[3 * PATH_MAX];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		e = (struct err){0};
		OK(spec_mount_parse(bad[i], &m, &e) < 0 && e.kind == ERR_INVALID && e.hint[0],
			bad[i][0] ? bad[i] : "(nothing)");
	}
	memset(large, 'x', sizeof(large) - 1);
	large[sizeof(large) - 1] = '\0';
	memcpy(large, "/h:/", 4);
	OK(spec_mount_parse(large, &m, &e) < 0, "a path without end");
	large[1500] = '\0';
	OK(spec_mount_parse(large, &m, &e) < 0, "a path in the sandbox that is too long");
	OK(!m.host && !m.guest, "and nothing is filled in");
}

static void add(struct spec_mounts *all, const char *text, int want)
{
	cleanup_spec_mount struct spec_mount m = {0};
	int r = spec_mount_parse(text, &m, &e);

	if (r == 0)
		r = spec_mounts_add(all, &m, &e);
	EQ_INT(r, want, text);
}

static void test_ids(void)
{
	cleanup_spec struct spec s, back = {0};
	cleanup_str char *json = NULL;
	size_t at = 99;

	spec_init(&s);
	add(&s.mounts, "/h:/a", 0);
	add(&s.mounts, "/h:/b:ro", 0);
	add(&s.mounts, "/other:/a/", -EEXIST);
	EQ_INT(e.kind, ERR_EXISTS, "one mount a path");
	EQ_INT(spec_mounts_find(&s.mounts, "/b//", &at, &e), 0, "found by a path");
	spec_mounts_remove(&s.mounts, at);
	OK(spec_mounts_find(&s.mounts, "/b", &at, &e) < 0 && e.kind == ERR_NOT_FOUND, "removed");
	json = spec_encode(&s);
	EQ_INT(spec_decode(json, &back, &e), 0, "read back");
	add(&back.mounts, "/h:/c", 0);
	EQ_INT(back.mounts.list[1].id, 3, "the id of a mount that went is not used again");
	EQ_STR(back.mounts.list[0].guest, "/a", "and the other one is as it was");
	for (int i = 0; i < 40; i++) {
		char text[32];
		(void)snprintf(text, sizeof(text), "/h:/m%d", i);
		add(&back.mounts, text, i < SPEC_MOUNTS_MAX - 2 ? 0 : -E2BIG);
	}
	EQ_INT(e.kind, ERR_LIMIT, "not more than the limit");
	EQ_INT(back.mounts.len, SPEC_MOUNTS_MAX, "but as many");
}

static void test_ports(void)
{
	static const struct {
		const char *text, *address;
		int guest;
	} good[] = {{"8080:80", "127.0.0.1:8080", 80}, {"0:80", "127.0.0.1:0", 80},
		{"0.0.0.0:1:65535", "0.0.0.0:1", 65535}, {"[::1]:8080:80", "[::1]:8080", 80},
		{"[0:0::1]:8080:80", "[::1]:8080", 80}, {"65535:1", "127.0.0.1:65535", 1}};
	static const char *const bad[] = {"", "80", ":80", "80:", "8080:0", "65536:1", "1:65536",
		"-1:80", "a:80", "1:2:3:4", "::1:8080:80", "[::1:8080:80", "[::1]8080:80",
		"[::1]:8080", "300.0.0.1:8080:80", "localhost:8080:80", ":8080:80", " 1:2", "1:2 ",
		"[]:1:2", "0x10:1", "127.0.0.1:8080:80:90", "[fe80::1%eth0]:1:2", "00000001:80",
		"[11111111111111111111111111111111111111111111111111111111]:1:2", "8080:80/udp",
		"8080/tcp:80"};
	struct spec_port p;
	char address[SPEC_ADDRESS_SIZE];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		EQ_INT(spec_port_parse(good[i].text, &p, &e), 0, good[i].text);
		spec_port_address(&p, address);
		EQ_STR(address, good[i].address, "  its address");
		EQ_INT(p.guest_port, good[i].guest, "  its port in the sandbox");
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		e = (struct err){0};
		OK(spec_port_parse(bad[i], &p, &e) < 0 && e.kind == ERR_INVALID && e.hint[0],
			bad[i][0] ? bad[i] : "(nothing)");
	}
	EQ_INT(spec_port_parse_host("8080", &p, &e), 0, "a host port");
	spec_port_address(&p, address);
	EQ_STR(address, "127.0.0.1:8080", "stands for loopback");
	EQ_INT(spec_port_parse_host("[::1]:81", &p, &e), 0, "with an address");
	spec_port_address(&p, address);
	EQ_STR(address, "[::1]:81", "as given");
	OK(spec_port_parse_host("1:2:3", &p, &e) < 0, "too much of it");
}

static void test_port_list(void)
{
	cleanup_spec struct spec s, back = {0};
	cleanup_str char *json = NULL;
	struct spec_port p = {0}, any = {0};
	char none[65], one[65], cow[65];
	size_t at;

	spec_init(&s);
	EQ_INT(spec_policy_hash(&s, none, &e), 0, "the policy");
	EQ_INT(spec_port_parse("8080:80", &p, &e) + spec_port_parse("0:80", &any, &e), 0, "two");
	EQ_INT(spec_ports_add(&s.ports, &p, &e), 0, "added");
	OK(spec_ports_add(&s.ports, &p, &e) < 0 && e.kind == ERR_EXISTS, "once only");
	EQ_INT(spec_ports_add(&s.ports, &any, &e) + spec_ports_add(&s.ports, &any, &e), 0,
		"any free port, twice");
	json = spec_encode(&s);
	EQ_INT(spec_decode(json, &back, &e), 0, "read back");
	EQ_INT(back.ports.len, 3, "all");
	EQ_INT(spec_ports_find(&back.ports, &p, &at, &e), 0, "found by address");
	EQ_INT(back.ports.list[at].guest_port, 80, "as it was");
	spec_ports_remove(&back.ports, at);
	OK(spec_ports_find(&back.ports, &p, &at, &e) < 0 && e.kind == ERR_NOT_FOUND, "removed");
	EQ_INT(spec_policy_hash(&s, one, &e), 0, "the policy with ports");
	add(&s.mounts, "/h:/a:cow", 0);
	EQ_INT(spec_policy_hash(&s, cow, &e), 0, "and with a mount");
	OK(strcmp(none, one) != 0 && strcmp(one, cow) != 0, "are others");
}

static void test_damage(void)
{
#define BASE "{\"cpus\":1,\"memory_mb\":1,\"disk_gb\":1,\"egress\":\"any\""
	static const char *const bad[] = {BASE ",\"mounts\":{}}", BASE ",\"mounts\":[1]}",
		BASE ",\"mounts\":[{\"id\":1,\"host\":\"h\",\"guest\":\"/g\",\"mode\":\"rw\"}]}",
		BASE ",\"mounts\":[{\"id\":0,\"host\":\"/h\",\"guest\":\"/g\",\"mode\":\"r\"}]}",
		BASE ",\"mounts\":[{\"id\":1,\"host\":\"/h\",\"guest\":\"/dev\",\"mode\":\"rw\"}]}",
		BASE ",\"mounts\":[{\"id\":2,\"host\":\"/h\",\"guest\":\"/a\",\"mode\":\"rw\"},"
		     "{\"id\":2,\"host\":\"/h\",\"guest\":\"/b\",\"mode\":\"rw\"}]}",
		BASE ",\"ports\":[{}]}", BASE ",\"next_mount\":-1}",
		BASE ",\"ports\":[{\"ip\":\"x\",\"host_port\":1,\"guest_port\":1}]}",
		BASE ",\"ports\":[{\"ip\":\"::1\",\"host_port\":1,\"guest_port\":0}]}"};
	cleanup_spec struct spec s = {0}, old = {0};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		OK(spec_decode(bad[i], &s, &e) < 0 && e.kind == ERR_CORRUPT, bad[i]);
	EQ_INT(spec_decode(BASE "}", &old, &e), 0, "of an earlier version");
	OK(old.mounts.len == 0 && old.ports.len == 0 && old.mounts.next_id == 1, "has none");
}

static void refused(const char *host, int home, enum err_kind kind, const char *what)
{
	int fd = -1;
	char *path = NULL;

	e = (struct err){0};
	int r = spec_mount_open(host, home, &fd, &path, &e);
	OK(r < 0 && e.kind == kind && fd == -1 && !path, what);
	printf("# %s\n", e.what);
}

static void test_open(void)
{
	char top[] = "/tmp/kosa8-test-mounts-XXXXXX", text[100];
	char *path = NULL;
	int fd = -1;

	if (!mkdtemp(top))
		_exit(1);
	cleanup_fd int dir = dir_open(AT_FDCWD, top, false, 0);
	cleanup_fd int home = dir_open(dir, "home", true, 0700);
	cleanup_fd int in_home = dir_open(home, "sandboxes", true, 0700);
	cleanup_fd int data = dir_open(dir, "data", true, 0700);
	cleanup_fd int file = openat(dir, "file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	if (in_home < 0 || data < 0 || file < 0 || symlinkat("data", dir, "link") < 0 ||
		symlinkat("home", dir, "sly") < 0)
		_exit(1);
	(void)snprintf(text, sizeof(text), "%s/link/../link/.", top);
	EQ_INT(spec_mount_open(text, home, &fd, &path, &e), 0, "a folder, by way of a link");
	(void)snprintf(text, sizeof(text), "%s/data", top);
	EQ_STR(path, text, "has its own path");
	free(path);
	fd = fd_close(fd);
	(void)snprintf(text, sizeof(text), "%s/missing", top);
	refused(text, home, ERR_NOT_FOUND, "what is not there");
	(void)snprintf(text, sizeof(text), "%s/file", top);
	refused(text, home, ERR_INVALID, "a file");
	(void)snprintf(text, sizeof(text), "%s/home", top);
	refused(text, home, ERR_DENIED, "the state directory");
	(void)snprintf(text, sizeof(text), "%s/sly/sandboxes", top);
	refused(text, home, ERR_DENIED, "a folder in it, by way of a link");
	refused(top, home, ERR_DENIED, "a folder that holds it");
	refused("/", home, ERR_DENIED, "the root folder");
	OK(file_remove_tree(AT_FDCWD, top) == 0, "cleaned up");
}

int main(void)
{
	test_good_mounts();
	test_bad_mounts();
	test_ids();
	test_ports();
	test_port_list();
	test_damage();
	test_open();
	return tap_done();
}
