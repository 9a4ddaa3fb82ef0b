/* SPDX-License-Identifier: Apache-2.0 */
#include "resume.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define YEAR_2020_NS 1577836800000000000u

void resume_init(struct resume *r)
{
	*r = (struct resume){.port.fd = -1};
}

int resume_next(struct resume *r, struct agent_resume *ret)
{
	while (r->port.readable) {
		ssize_t n = read(r->port.fd, r->in + r->len, sizeof(r->in) - r->len);

		if (n <= 0) {
			if (n == 0 || errno != EINTR)
				r->port.readable = false;
			continue;
		}
		r->len += (size_t)n;
		if (r->len < sizeof(r->in))
			continue;
		if (agent_resume_decode(r->in, ret) == 0) {
			r->len = 0;
			return 1;
		}
		memmove(r->in, r->in + 1, --r->len);
	}
	return 0;
}

void resume_set_clock(uint64_t wall_ns, uint64_t tolerance_ns)
{
	if (wall_ns < YEAR_2020_NS || wall_ns > INT64_MAX)
		return;
	int64_t off = clock_wall_ns() - (int64_t)wall_ns;
	if ((uint64_t)(off < 0 ? -off : off) <= tolerance_ns)
		return;
	struct timespec ts = {
		.tv_sec = (time_t)(wall_ns / 1000000000), .tv_nsec = (long)(wall_ns % 1000000000)};
	if (clock_settime(CLOCK_REALTIME, &ts) < 0)
		log_warn("clock: %s", strerror(errno));
}

void resume_add_entropy(const unsigned char entropy[static AGENT_ENTROPY_SIZE])
{
	/* struct rand_pool_info: two ints, then the bytes. */
	int pool[2 + AGENT_ENTROPY_SIZE / sizeof(int)] = {
		AGENT_ENTROPY_SIZE * 8, AGENT_ENTROPY_SIZE};
	cleanup_fd int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);

	memcpy(pool + 2, entropy, AGENT_ENTROPY_SIZE);
	if (fd < 0 || ioctl(fd, RNDADDENTROPY, pool) < 0 || ioctl(fd, RNDRESEEDCRNG) < 0)
		log_warn("entropy: %s", strerror(errno));
	explicit_bzero(pool, sizeof(pool));
}
