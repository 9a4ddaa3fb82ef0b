/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/frame.h"
#include "base/hash.h"
#include "proto/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ASSET_MAX (256u << 20)
#define ANSWER_MS 30000

static void fail(const char *what)
{
	printf("Bail out! %s: %s\n", what, strerror(errno));
	exit(1);
}

static void read_into(const char *path, struct buf *b)
{
	if (file_read(AT_FDCWD, path, b) < 0)
		fail(path);
}

/* cpio's "newc" format (Linux Documentation/driver-api/early-userspace/buffer-format.rst). */
static void put_cpio(struct buf *b, const char *name, const struct buf *content)
{
	size_t len = content ? content->len : 0;

	while (b->len % 4)
		buf_put_u8(b, 0);
	buf_putf(b, "070701%08x%08x%08x%08x%08x%08x%08zx%08x%08x%08x%08x%08zx%08x", 1, 0100755, 0,
		0, 1, 0, len, 0, 0, 0, 0, strlen(name) + 1, 0);
	buf_put(b, name, strlen(name) + 1);
	while (b->len % 4)
		buf_put_u8(b, 0);
	if (content)
		buf_put(b, content->data, len);
	while (b->len % 4)
		buf_put_u8(b, 0);
}

/* The kernel unpacks archives one after the other; the last file of a name stays. */
static void make_assets(struct fixture *f, const char *from, const char *agent)
{
	cleanup_buf struct buf init = {0}, kernel = {0}, initramfs = {0};
	char path[4096];

	buf_init(&init, ASSET_MAX);
	buf_init(&kernel, ASSET_MAX);
	buf_init(&initramfs, ASSET_MAX);
	read_into(agent, &init);
	(void)snprintf(path, sizeof(path), "%s/vmlinuz", from);
	read_into(path, &kernel);
	(void)snprintf(path, sizeof(path), "%s/initramfs", from);
	read_into(path, &initramfs);
	put_cpio(&initramfs, "init", &init);
	put_cpio(&initramfs, "TRAILER!!!", NULL);
	if (buf_failed(&initramfs) || mkdirat(f->dirfd, "assets", 0700) < 0 ||
		file_write_atomic(
			f->dirfd, "assets/vmlinuz", kernel.data, kernel.len, 0600, false) < 0 ||
		file_write_atomic(f->dirfd, "assets/initramfs", initramfs.data, initramfs.len, 0600,
			false) < 0)
		fail("making the guest's assets");
	(void)snprintf(f->assets, sizeof(f->assets), "%s/assets", f->path);
}

void fixture_init(struct fixture *f, int argc, char **argv)
{
	char path[4096];
	const char *assets = getenv("KOSA8_ASSETS");

	if (!assets || !*assets)
		assets = argc == 3 ? argv[1] : "";
	*f = (struct fixture){.config = {.cpus = 2, .memory_mb = 256, .disk_gb = 1}};
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	(void)snprintf(path, sizeof(path), "%s/vmlinuz", assets);
	if (argc != 3 || access(path, R_OK) < 0) {
		printf("1..0 # SKIP there are no guest assets in %s\n", assets);
		exit(getenv("CI") ? 1 : 0);
	}
	(void)snprintf(f->path, sizeof(f->path), "/tmp/kosa8-vm-test.XXXXXX");
	if (!mkdtemp(f->path))
		fail("a temporary folder");
	f->dirfd = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	f->templates = dir_open(f->dirfd, "templates", true, 0700);
	f->layers = dir_open(f->dirfd, "layers", true, 0700);
	f->log_fd = openat(f->dirfd, "qemu.log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (f->dirfd < 0 || f->templates < 0 || f->layers < 0 || f->log_fd < 0)
		fail("the temporary folders");
	make_assets(f, assets, argv[2]);
	if (vm_host_probe(f->assets, f->dirfd, &f->host, &f->e) < 0) {
		printf("Bail out! %s\n", f->e.what);
		exit(1);
	}
}

void fixture_release(struct fixture *f)
{
	(void)fd_close(f->templates);
	(void)fd_close(f->layers);
	(void)fd_close(f->log_fd);
	(void)fd_close(f->dirfd);
	if (file_remove_tree(AT_FDCWD, f->path) < 0)
		printf("# %s was left behind\n", f->path);
}

int fixture_file(struct fixture *f, const char *name)
{
	int fd = openat(f->dirfd, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0)
		fail(name);
	return fd;
}

/* More bytes from the agent; false at the end or after the deadline. */
static bool receive(struct guest *g, int64_t deadline_ms)
{
	struct pollfd p = {.fd = vm_mux_fd(g->vm), .events = POLLIN};
	char chunk[4096];

	if (poll(&p, 1, clock_left_ms(deadline_ms)) <= 0)
		return false;
	ssize_t n = read(p.fd, chunk, sizeof(chunk));
	if (n <= 0)
		return false;
	buf_put(&g->in, chunk, (size_t)n);
	return !buf_failed(&g->in);
}

static bool next_frame(struct guest *g, uint16_t type, uint32_t stream, struct buf *ret)
{
	int64_t deadline_ms = clock_mono_ms() + ANSWER_MS;
	struct frame f;
	int n;

	for (;;) {
		while ((n = frame_parse(g->in.data, g->in.len, &f)) == 0)
			if (!receive(g, deadline_ms))
				return false;
		if (n < 0)
			return false;
		bool found = f.type == type && f.stream == stream && f.epoch == g->epoch;
		if (found && ret)
			buf_put(ret, f.payload, f.len);
		buf_consume(&g->in, (size_t)n);
		if (found)
			return true;
	}
}

/* Drops what came before the nonce. */
static bool find_nonce(struct guest *g, const unsigned char *nonce)
{
	int64_t deadline_ms = clock_mono_ms() + ANSWER_MS;

	for (;;) {
		void *at =
			g->in.len ? memmem(g->in.data, g->in.len, nonce, AGENT_NONCE_SIZE) : NULL;
		if (at) {
			buf_consume(&g->in,
				(size_t)((unsigned char *)at - g->in.data) + AGENT_NONCE_SIZE);
			return true;
		}
		if (!receive(g, deadline_ms))
			return false;
	}
}

static bool resume(struct guest *g)
{
	struct agent_resume r = {.epoch = g->epoch, .quiesce = 1};
	unsigned char record[AGENT_RESUME_SIZE];

	random_bytes(r.nonce, sizeof(r.nonce));
	agent_resume_encode(&r, record);
	return write(vm_resume_fd(g->vm), record, sizeof(record)) == sizeof(record) &&
	       write(vm_mux_fd(g->vm), r.nonce, sizeof(r.nonce)) == sizeof(r.nonce) &&
	       find_nonce(g, r.nonce) && next_frame(g, AGENT_RESUMED, 0, NULL);
}

bool guest_start(struct guest *g, struct fixture *f, const struct vm_template *t,
	const char *layers, int pages_fd, int device_fd, uint32_t epoch)
{
	char ids[256], *save, *id;
	const char *list[16];
	size_t n = 0;

	*g = (struct guest){.epoch = epoch};
	buf_init(&g->in, 4 * FRAME_PAYLOAD_MAX);
	(void)snprintf(ids, sizeof(ids), "%s", layers);
	for (id = strtok_r(ids, " ", &save); id && n < 16; id = strtok_r(NULL, " ", &save))
		list[n++] = id;
	struct vm_start s = {.host = &f->host,
		.template = t,
		.layers_dirfd = f->layers,
		.layers = list,
		.layers_len = n,
		.log_fd = f->log_fd};
	int64_t at[4] = {clock_mono_us()};
	if (vm_start(&s, &g->vm, &f->e) < 0)
		goto failed;
	at[1] = clock_mono_us();
	if (vm_load(g->vm, pages_fd, device_fd, &f->e) < 0)
		goto failed;
	at[2] = clock_mono_us();
	if (vm_run(g->vm, &f->e) < 0)
		goto failed;
	bool ok = resume(g);
	at[3] = clock_mono_us();
	printf("# start %lld us, load %lld us, run to the agent's answer %lld us\n",
		(long long)(at[1] - at[0]), (long long)(at[2] - at[1]), (long long)(at[3] - at[2]));
	return ok;
failed:
	printf("# %s (%s)\n", f->e.what, f->e.hint);
	return false;
}

void guest_release(struct guest *g)
{
	vm_freep(&g->vm);
	buf_release(&g->in);
}

bool guest_send(struct guest *g, const char *command)
{
	cleanup_buf struct buf out = {0};

	buf_init(&out, 4096);
	frame_put(&out, AGENT_PING, ++g->next, g->epoch, command, strlen(command));
	return g->vm && write(vm_mux_fd(g->vm), out.data, out.len) == (ssize_t)out.len;
}

const char *guest_answer(struct guest *g)
{
	static char answer[AGENT_TEXT_MAX];
	cleanup_buf struct buf payload = {0};
	struct agent_reply reply;
	struct cursor c;

	answer[0] = '\0';
	buf_init(&payload, FRAME_PAYLOAD_MAX);
	if (!g->vm || !next_frame(g, AGENT_REPLY, g->next, &payload))
		return answer;
	cursor_init(&c, payload.data, payload.len);
	if (agent_reply_decode(&c, &reply) == 0)
		(void)snprintf(answer, sizeof(answer), "%s", reply.text);
	return answer;
}

const char *guest_ask(struct guest *g, const char *command)
{
	return guest_send(g, command) ? guest_answer(g) : "";
}

bool guest_becomes(struct guest *g, const char *command, const char *want)
{
	int64_t deadline_ms = clock_mono_ms() + 5000;

	while (clock_mono_ms() < deadline_ms)
		if (strcmp(guest_ask(g, command), want) == 0)
			return true;
	return false;
}

bool guest_leaves(struct guest *g, const char *command, const char *value)
{
	int64_t deadline_ms = clock_mono_ms() + 5000;

	while (clock_mono_ms() < deadline_ms)
		if (strcmp(guest_ask(g, command), value) != 0)
			return true;
	return false;
}
