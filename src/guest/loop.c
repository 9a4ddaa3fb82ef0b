/* SPDX-License-Identifier: Apache-2.0 */
#include "loop.h"

#include "../base/fd.h"

#include <errno.h>
#include <sys/epoll.h>

#define EVENTS_MAX 64

int loop_init(struct loop *l, struct err *e)
{
	l->epfd = epoll_create1(EPOLL_CLOEXEC);
	return l->epfd < 0 ? err_errno(e, errno, "epoll") : 0;
}

int loop_watch(struct loop *l, struct watch *w, int fd, unsigned what, struct err *e)
{
	struct epoll_event ev = {.events = EPOLLET, .data.ptr = w};

	if (what & WATCH_READ)
		ev.events |= EPOLLIN;
	if (what & WATCH_WRITE)
		ev.events |= EPOLLOUT;
	if (what & WATCH_PRIORITY)
		ev.events |= EPOLLPRI;
	*w = (struct watch){.fd = -1};
	if (epoll_ctl(l->epfd, EPOLL_CTL_ADD, fd, &ev) < 0) {
		int r = err_errno(e, errno, "watch a descriptor");
		(void)fd_close(fd);
		return r;
	}
	*w = (struct watch){.fd = fd,
		.readable = what & WATCH_READ,
		.writable = what & WATCH_WRITE,
		.priority = what & WATCH_PRIORITY};
	return 0;
}

void loop_unwatch(struct loop *l, struct watch *w)
{
	if (w->fd >= 0) {
		(void)epoll_ctl(l->epfd, EPOLL_CTL_DEL, w->fd, NULL);
		(void)fd_close(w->fd);
	}
	*w = (struct watch){.fd = -1};
}

void loop_wait(struct loop *l, int timeout_ms)
{
	struct epoll_event ev[EVENTS_MAX];
	int n = epoll_wait(l->epfd, ev, EVENTS_MAX, timeout_ms);

	for (int i = 0; i < n; i++) {
		struct watch *w = ev[i].data.ptr;

		if (ev[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP))
			w->readable = true;
		if (ev[i].events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
			w->writable = true;
		if (ev[i].events & (EPOLLPRI | EPOLLERR))
			w->priority = true;
	}
}
