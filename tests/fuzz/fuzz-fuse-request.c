/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sequence of a guest's requests, in a temporary tree. Input: for each u8 opcode, u8 node, u8
 * user, u8 length, then that many bytes of body. Beside the tree stands a file that no request may
 * reach.
 */
#include "../../src/fs/server.h"
#include "../../src/base/file.h"
#include "../../src/base/frame.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define STEPS_MAX 64
#define CANARY "nobody may touch this"

static void put_file(int dir, const char *name, const char *text)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		abort();
	close(fd);
}

static void check_canary(int dir)
{
	char text[64] = "";
	struct stat st;
	int fd = openat(dir, "canary", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0 || (st.st_mode & 07777) != 0600 || st.st_nlink != 1 ||
		read(fd, text, sizeof(text) - 1) < 0 || strcmp(text, CANARY) != 0)
		abort();
	close(fd);
}

static int request(
	struct fs *fs, uint32_t op, uint64_t node, uint32_t user, const void *body, size_t len)
{
	_Alignas(8) unsigned char m[sizeof(struct fuse_in_header) + 256];
	struct fuse_in_header h = {.opcode = op,
		.unique = 1,
		.nodeid = node,
		.uid = user,
		.pid = user,
		.len = (uint32_t)(sizeof(h) + len)};

	memcpy(m, &h, sizeof(h));
	memcpy(m + sizeof(h), body, len);
	return fs_answer(fs, m, h.len, NULL);
}

static void play(struct fs *fs, const uint8_t *data, size_t size)
{
	const struct fuse_init_in init = {.major = 7, .minor = 36, .flags = ~0u};

	if (request(fs, FUSE_INIT, 0, 0, &init, sizeof(init)) < 0)
		abort();
	for (int i = 0; i < STEPS_MAX && size >= 4; i++) {
		size_t len = data[3] < size - 4 ? data[3] : size - 4;
		int r = request(fs, data[0], data[1], data[2], data + 4, len);
		if (r < 0 || (size_t)r > sizeof(struct fuse_out_header) + REPLY_MAX)
			abort();
		data += 4 + len;
		size -= 4 + len;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char dir[] = "/tmp/kosa8-fuzz-fs-XXXXXX";
	struct fs fs;
	struct err e = {0};

	if (!mkdtemp(dir))
		abort();
	int top = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (top < 0 || mkdirat(top, "root", 0700) < 0 || mkdirat(top, "root/d", 0700) < 0 ||
		symlinkat("../canary", top, "root/link") < 0 || symlinkat("..", top, "root/up") < 0)
		abort();
	put_file(top, "canary", CANARY);
	put_file(top, "root/f", "text");
	int root = openat(top, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0 || fs_init(&fs, -1, root, false, &e) < 0)
		abort();
	play(&fs, data, size);
	watch_read(&fs);
	fs_release(&fs);
	check_canary(top);
	close(root);
	close(top);
	if (file_remove_tree(AT_FDCWD, dir) < 0)
		abort();
	return 0;
}
