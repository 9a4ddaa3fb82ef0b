/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors: -1 is unset, CLOEXEC from birth, one owner. Functions return >= 0 or a negative
 * errno; they retry EINTR themselves.
 */
#ifndef KOSA8_BASE_FD_H
#define KOSA8_BASE_FD_H

#include "buf.h"

#include <stddef.h>
#include <sys/types.h>

/* Closes if set; keeps errno; returns -1: fd = fd_close(fd). */
int fd_close(int fd);
void fd_closep(int *fd);
#define cleanup_fd __attribute__((cleanup(fd_closep)))
/* Takes the descriptor out of *fd: hands ownership over on a last line. */
int fd_take(int *fd);

int fd_set_nonblock(int fd, bool on) must_check;
/* Loops until all is written or an error; blocking descriptors only. */
int fd_write_all(int fd, const void *data, size_t len) must_check;
int fd_pwrite_all(int fd, const void *data, size_t len, off_t offset) must_check;
/* Writes at the file's offset, or only moves it when these are many zeros: a hole. After the last
 * piece fd_end_sparse() gives the file its size. For new regular files. */
int fd_write_sparse(int fd, const void *data, size_t len) must_check;
int fd_end_sparse(int fd) must_check;
/* Reads until len bytes or EOF; returns the count. */
ssize_t fd_read_full(int fd, void *data, size_t len) must_check;
ssize_t fd_pread_full(int fd, void *data, size_t len, off_t offset) must_check;
/* Appends to b until EOF; -E2BIG when b's maximum is reached first. */
int fd_read_all(int fd, struct buf *b) must_check;

/* One message with up to FD_PASS_MAX descriptors (unix(7), SCM_RIGHTS). fd_recv_fds() stores what
 * came (CLOEXEC) and returns the byte count, 0 at the end of the stream. */
#define FD_PASS_MAX 8
ssize_t fd_send_fds(int sock, const void *data, size_t len, const int *fds, size_t n) must_check;
ssize_t fd_recv_fds(
	int sock, void *data, size_t len, int *ret_fds, size_t max, size_t *ret_n) must_check;

#endif
