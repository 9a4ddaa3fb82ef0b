/* SPDX-License-Identifier: Apache-2.0 */
#include "image.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/log.h"
#include "boot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define SCSI_DEVICES "/sys/bus/scsi/devices"
#define SCSI_HOSTS "/sys/class/scsi_host"

static bool is_digest(const char *s)
{
	size_t len = strlen(s);

	return len >= 32 && len <= 64 && strspn(s, "0123456789abcdef") == len;
}

bool image_is_mounted(const struct images *im, const char *digest)
{
	for (size_t i = 0; i < im->mounted_len; i++)
		if (strcmp(im->mounted[i].digest, digest) == 0)
			return true;
	return false;
}

int image_request(struct images *im, uint32_t stream, const struct agent_image *a)
{
	if (stream == 0 || !is_digest(a->digest))
		return -EINVAL;
	for (size_t i = 0; i < IMAGES_MAX; i++) {
		struct image_request *q = &im->waiting[i];

		if (q->stream != 0)
			continue;
		*q = (struct image_request){.stream = stream,
			.attach = *a,
			.deadline_ms = clock_mono_ms() + IMAGE_WAIT_MS};
		im->news = true;
		return 0;
	}
	return -EAGAIN;
}

/* The name of the block device ("sda") below one SCSI device ("0:0:0:1"). */
static bool block_name(const char *scsi, char *ret, size_t size)
{
	char path[300];
	struct dirent *de;
	bool found = false;

	(void)snprintf(path, sizeof(path), SCSI_DEVICES "/%s/block", scsi);
	DIR *d = opendir(path);
	if (!d)
		return false;
	while (!found && (de = readdir(d)))
		if (de->d_name[0] != '.')
			found = (size_t)snprintf(ret, size, "/dev/%s", de->d_name) < size;
	(void)closedir(d);
	return found;
}

/* The device node of a LUN, if the kernel has it by now. */
static bool find_device(uint32_t lun, char *ret, size_t size)
{
	DIR *d = opendir(SCSI_DEVICES);
	struct dirent *de;
	bool found = false;

	while (d && !found && (de = readdir(d))) {
		unsigned host, channel, target, number;
		char rest;

		if (sscanf(de->d_name, "%u:%u:%u:%u%c", &host, &channel, &target, &number, &rest) ==
				4 &&
			number == lun)
			found = block_name(de->d_name, ret, size);
	}
	if (d)
		(void)closedir(d);
	return found && access(ret, F_OK) == 0;
}

/* Asks the kernel to look: there is no event for a LUN that was plugged in while another kernel
 * state was running. */
static void scan_for(uint32_t lun)
{
	DIR *d = opendir(SCSI_HOSTS);
	struct dirent *de;

	while (d && (de = readdir(d))) {
		char path[300], what[32];

		if (de->d_name[0] == '.')
			continue;
		(void)snprintf(path, sizeof(path), "%s/scan", de->d_name);
		cleanup_fd int fd = openat(dirfd(d), path, O_WRONLY | O_CLOEXEC);
		int n = snprintf(what, sizeof(what), "0 0 %u", lun);
		if (fd < 0 || fd_write_all(fd, what, (size_t)n) < 0)
			log_warn("scan %s for LUN %u failed", de->d_name, lun);
	}
	if (d)
		(void)closedir(d);
}

static int mount_image(struct images *im, const struct agent_image *a, const char *device)
{
	char path[128];

	if (im->mounted_len == IMAGES_MAX)
		return -EMFILE;
	(void)snprintf(path, sizeof(path), PATH_IMAGES "/%s", a->digest);
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return -errno;
	if (mount(device, path, "squashfs", MS_RDONLY, NULL) < 0) {
		int r = -errno;
		(void)rmdir(path);
		return r;
	}
	im->mounted[im->mounted_len++] = *a;
	return 0;
}

/* 0: mounted; -ENXIO: the device is not there yet, or its node is but not the disk behind it (an
 * event follows when it is); else it failed. */
static int try_mount(struct images *im, const struct agent_image *a)
{
	char device[64];

	return find_device(a->lun, device, sizeof(device)) ? mount_image(im, a, device) : -ENXIO;
}

/* -EINPROGRESS: to be tried again when there was an event. */
static int attach(struct images *im, struct image_request *q)
{
	if (image_is_mounted(im, q->attach.digest))
		return 0;
	int r = try_mount(im, &q->attach);
	if (r == -ENXIO && !q->scanned) {
		q->scanned = true;
		scan_for(q->attach.lun);
		r = try_mount(im, &q->attach);
	}
	if (r != -ENXIO)
		return r;
	return clock_left_ms(q->deadline_ms) > 0 ? -EINPROGRESS : -ETIMEDOUT;
}

void image_step(struct images *im,
	void (*done)(void *ctx, uint32_t stream, const struct agent_reply *reply), void *ctx)
{
	if (!im->news && clock_left_ms(image_deadline_ms(im)) != 0)
		return;
	im->news = false;
	for (size_t i = 0; i < IMAGES_MAX; i++) {
		struct image_request *q = &im->waiting[i];
		int r = q->stream ? attach(im, q) : -EINPROGRESS;

		if (r == -EINPROGRESS)
			continue;
		struct agent_reply reply = {.status = (uint32_t)-r};
		if (r == -ETIMEDOUT)
			(void)snprintf(reply.text, sizeof(reply.text),
				"the image's device (LUN %u) did not appear", q->attach.lun);
		else if (r < 0)
			(void)snprintf(reply.text, sizeof(reply.text),
				"mount the image on LUN %u: %s", q->attach.lun, strerror(-r));
		uint32_t stream = q->stream;
		q->stream = 0;
		done(ctx, stream, &reply);
	}
}

int64_t image_deadline_ms(const struct images *im)
{
	int64_t first = -1;

	for (size_t i = 0; i < IMAGES_MAX; i++)
		if (im->waiting[i].stream && (first < 0 || im->waiting[i].deadline_ms < first))
			first = im->waiting[i].deadline_ms;
	return first;
}

void image_forget_requests(struct images *im)
{
	for (size_t i = 0; i < IMAGES_MAX; i++)
		im->waiting[i].stream = 0;
}
