/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/containers.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/strv.h"
#include "guest/container-state.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* The registry on folders of a temporary one; there is no keeper, which loses its messages. */
struct bench {
	struct loop loop;
	struct disk disk;
	struct keeper keeper;
	struct cgroups cgroups;
	struct containers cs;
};

static void bench_init(struct bench *b, int dirfd)
{
	struct err e;

	OK(loop_init(&b->loop, &e) == 0, "loop");
	disk_init(&b->disk);
	b->disk.runs_fd = dir_open(dirfd, "runs", true, 0700);
	b->disk.containers_fd = dir_open(dirfd, "containers", true, 0700);
	b->disk.trash_fd = dir_open(dirfd, "trash", true, 0700);
	keeper_init(&b->keeper, &b->loop);
	b->cgroups.runs_fd = b->disk.runs_fd;
	b->cs = (struct containers){.cgroups = &b->cgroups, .disk = &b->disk, .keeper = &b->keeper};
}

static void bench_release(struct bench *b)
{
	containers_close(&b->cs);
	(void)fd_close(b->disk.runs_fd);
	(void)fd_close(b->disk.containers_fd);
	(void)fd_close(b->disk.trash_fd);
	(void)fd_close(b->loop.epfd);
}

static int add(struct bench *b, const char *id, const char *name, struct container_entry **ret)
{
	struct agent_run m = {.id = strdup(id),
		.name = strdup(name),
		.image = strdup("00"),
		.image_name = strdup("busybox"),
		.hostname = strdup(""),
		.user = strdup("joe"),
		.cwd = strdup("/"),
		.argv = strv_new(),
		.env = strv_new()};
	struct container_entry *c;
	struct err e;

	OK(strv_add(&m.argv, "echo") == 0 && strv_add(&m.argv, "a b") == 0, "argv");
	int r = containers_add(&b->cs, &m, ret ? ret : &c, &e);
	agent_run_release(&m);
	return r;
}

static int find(struct bench *b, const char *ref, const char *want)
{
	struct err e = {0};
	struct container_entry *c = containers_find(&b->cs, ref, &e);

	if (!c)
		return err_code(&e);
	return strcmp(c->is.id, want) == 0 ? 0 : -EBADMSG;
}

static const char *told(struct bench *b, const char *ref)
{
	static struct err e;

	e = (struct err){0};
	return containers_find(&b->cs, ref, &e) ? "found" : e.what;
}

static void lookup(struct bench *b)
{
	struct container_entry *c;

	EQ_INT(add(b, "aaaaaaaaaaaa", "web", &c), 0, "one");
	EQ_STR(c->is.command, "echo a b", "command");
	EQ_STR(c->user, "joe", "user");
	EQ_INT(add(b, "aaaaaaaaaaab", "aaaaaaaaaaaa", NULL), -EEXIST,
		"a name that is another's id");
	EQ_INT(add(b, "aaaaaaaaaaab", "aaaaaaaaaaab", NULL), -EEXIST, "a name that is its own id");
	EQ_INT(add(b, "aaaaaaaaaaab", "aaaaaaaaaaac", NULL), 0, "a name like an id");
	EQ_INT(add(b, "aaaaaaaaaaac", "", NULL), -EEXIST, "an id that is another's name");
	EQ_INT(add(b, "bbbbbbbbbbbb", "web", NULL), -EEXIST, "the name is taken");
	EQ_INT(add(b, "aaaaaaaaaaaa", "", NULL), -EEXIST, "the id is taken");
	EQ_INT(add(b, "bbbbbbbbbbb/", "", NULL), -EINVAL, "no id");
	EQ_INT(add(b, "bbbbbbbbbbbb", "a b", NULL), -EINVAL, "no name");
	EQ_INT(add(b, "bbbbbbbbbbbb", "", NULL), 0, "no name is needed");
	EQ_INT(find(b, "web", "aaaaaaaaaaaa"), 0, "by name");
	EQ_INT(find(b, "aaaaaaaaaaaa", "aaaaaaaaaaaa"), 0, "by id");
	EQ_INT(find(b, "aaaaaaaaaaac", "aaaaaaaaaaab"), 0, "by a name like an id");
	EQ_INT(find(b, "b", "bbbbbbbbbbbb"), 0, "by the beginning of the id");
	EQ_INT(find(b, "aaa", ""), -ENOTUNIQ, "of several");
	EQ_INT(find(b, "", ""), -ENOENT, "the empty name is nobody's");
	EQ_INT(find(b, "c", ""), -ENOENT, "nobody's");
	EQ_STR(told(b, "wob"), "no such container: wob: did you mean web?", "the nearest");
	EQ_STR(told(b, "ewb"), "no such container: ewb: did you mean web?", "two turned round");
	EQ_STR(told(b, "xy"), "no such container: xy", "what has nothing in common");
	container_pin(c);
	containers_remove(&b->cs, c);
	EQ_INT(find(b, "web", ""), -ENOENT, "removed");
	EQ_STR(c->is.name, "web", "but held");
	container_unpin(c);
	EQ_INT(add(b, "cccccccccccc", "web", NULL), 0, "the name is free again");
}

static void limit(struct bench *b)
{
	char id[32];

	for (int i = (int)b->cs.len; i < AGENT_CONTAINERS_MAX; i++) {
		(void)snprintf(id, sizeof(id), "d%011d", i);
		if (add(b, id, "", NULL) < 0)
			OK(false, "below the limit");
	}
	EQ_INT(add(b, "eeeeeeeeeeee", "", NULL), -EAGAIN, "the limit");
}

static void names(void)
{
	char longest[AGENT_NAME_SIZE + 1];

	memset(longest, 'a', sizeof(longest));
	longest[AGENT_NAME_SIZE] = '\0';
	OK(!container_name_is_valid(longest), "64 bytes");
	longest[AGENT_NAME_SIZE - 1] = '\0';
	OK(container_name_is_valid(longest), "63 bytes");
	OK(container_name_is_valid("A.b_c-9"), "all kinds");
	OK(!container_name_is_valid("-rf") && !container_name_is_valid("a/b") &&
			!container_name_is_valid("a\n"),
		"none");
}

static void persistence(struct bench *b, int dirfd)
{
	struct container_entry *c;
	char layer[CONTAINER_LAYER_SIZE];
	struct bench again;
	struct err e;

	EQ_INT(add(b, "kept00000000", "kept", &c), 0, "one");
	OK(mkdirat(b->disk.runs_fd, "k1-1", 0700) == 0, "its layer");
	(void)snprintf(c->folder, sizeof(c->folder), "k1-1");
	EQ_INT(container_keep(&b->cs, c, &e), 0, "kept");
	container_layer(c, layer);
	EQ_STR(layer, "/disk/containers/kept00000000/layer", "the layer moved");
	container_write_log(c, LOG_STDOUT, "x", 1);
	EQ_INT(c->log_records, 1, "a record");
	int odd = dir_open(b->disk.containers_fd, "damaged00000", true, 0700);
	EQ_INT(file_write_atomic(odd, CONTAINER_STATE_FILE, "x", 1, 0600, false), 0, "damage");
	(void)close(odd);
	odd = dir_open(b->disk.containers_fd, "wrong0000000", true, 0700);
	EQ_INT(container_state_write(odd, &c->is), 0, "another's record");
	(void)close(odd);
	OK(symlinkat("kept00000000", b->disk.containers_fd, "link00000000") == 0, "a link");
	bench_init(&again, dirfd);
	containers_load(&again.cs);
	EQ_INT(again.cs.len, 1, "only the whole one");
	EQ_INT(find(&again, "kept", "kept00000000"), 0, "it is there again");
	EQ_INT(again.cs.list[0]->is.state, AGENT_CONTAINER_ENDED, "ended");
	EQ_INT(again.cs.list[0]->is.exit.how, AGENT_END_LOST, "lost");
	OK(faccessat(b->disk.containers_fd, "damaged00000", F_OK, 0) < 0, "damage is gone");
	OK(faccessat(b->disk.containers_fd, "link00000000", F_OK, AT_SYMLINK_NOFOLLOW) < 0,
		"so is the link");
	containers_remove(&again.cs, again.cs.list[0]);
	OK(faccessat(b->disk.containers_fd, "kept00000000", F_OK, 0) < 0, "removed");
	bench_release(&again);
}

int main(void)
{
	char dir[] = "/tmp/kosa8-containers.XXXXXX";
	int dirfd = mkdtemp(dir) ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	struct bench b;

	OK(dirfd >= 0, "folder");
	bench_init(&b, dirfd);
	names();
	lookup(&b);
	persistence(&b, dirfd);
	limit(&b);
	bench_release(&b);
	(void)close(dirfd);
	OK(file_remove_tree(AT_FDCWD, dir) == 0, "removed");
	return tap_done();
}
