/* SPDX-License-Identifier: Apache-2.0 */
/* The folders of the host that a sandbox has mounted, and the ports of it that are published: the
 * part of its spec that can be changed later. */
#ifndef KOSA8_STORE_SPEC_MOUNTS_H
#define KOSA8_STORE_SPEC_MOUNTS_H

#include "../base/err.h"
#include "../base/json.h"
#include "../proto/agent-files.h"

#include <stdbool.h>
#include <stdint.h>

#define SPEC_MOUNTS_MAX 32
#define SPEC_PORTS_MAX 64
#define SPEC_IP_SIZE 46 /* INET6_ADDRSTRLEN */

const char *mount_mode_name(enum agent_mount_mode m); /* rw, ro, cow */
/* -EINVAL */
int mount_mode_from_name(const char *name, enum agent_mount_mode *ret) must_check;

struct spec_mount {
	uint32_t id; /* never used again in the sandbox's life; 0: not given yet */
	enum agent_mount_mode mode;
	char *host;  /* absolute, without symbolic links */
	char *guest; /* absolute, normal: no //, /./, /../, no / at the end */
};
void spec_mount_release(struct spec_mount *m);
/* -ENOMEM */
int spec_mount_copy(const struct spec_mount *from, struct spec_mount *ret) must_check;
#define cleanup_spec_mount __attribute__((cleanup(spec_mount_release)))

struct spec_mounts {
	struct spec_mount list[SPEC_MOUNTS_MAX];
	size_t len;
	uint32_t next_id;
};
void spec_mounts_release(struct spec_mounts *m);

struct spec_port {
	char ip[SPEC_IP_SIZE]; /* as inet_ntop(3) writes it */
	uint16_t host_port;    /* 0: any that is free */
	uint16_t guest_port;
};
struct spec_ports {
	struct spec_port list[SPEC_PORTS_MAX];
	size_t len;
};

/* HOST:GUEST[:ro|:rw|:cow], rw when it is left out; id stays 0. The mode is taken off the end, then
 * GUEST is what follows the last ":/". HOST is as given. ERR_INVALID says what is expected. */
int spec_mount_parse(const char *text, struct spec_mount *ret, struct err *e) must_check;
/* From its parts: guest is made normal. ERR_INVALID */
int spec_mount_make(const char *host, const char *guest, const char *mode, struct spec_mount *ret,
	struct err *e) must_check;
/* Opens the folder (O_PATH) that is to be mounted, and gives its path without symbolic links
 * (malloc'ed; may be NULL when that is not wanted). Refused: what is no folder, what holds the
 * state directory or lies in it, a path that is not UTF-8. ERR_NOT_FOUND when it is gone. */
int spec_mount_open(
	const char *host, int home_dirfd, int *ret_fd, char **ret_host, struct err *e) must_check;

/* Adds it with the next id; takes m's strings. ERR_EXISTS for the guest's path, ERR_LIMIT */
int spec_mounts_add(struct spec_mounts *all, struct spec_mount *m, struct err *e) must_check;
/* By the path in the guest (made normal first). ERR_NOT_FOUND */
int spec_mounts_find(
	const struct spec_mounts *all, const char *guest, size_t *ret, struct err *e) must_check;
void spec_mounts_remove(struct spec_mounts *all, size_t i);

/* [IP:]PORT:PORT; an IPv6 address stands in []. 127.0.0.1 when it is left out. ERR_INVALID */
int spec_port_parse(const char *text, struct spec_port *ret, struct err *e) must_check;
/* [IP:]PORT, as `port rm` takes it; guest_port is 0. */
int spec_port_parse_host(const char *text, struct spec_port *ret, struct err *e) must_check;
int spec_port_make(const char *ip, uint64_t host_port, uint64_t guest_port, struct spec_port *ret,
	struct err *e) must_check;
bool spec_port_is_loopback(const struct spec_port *p);
/* "127.0.0.1:8080", "[::1]:8080" */
#define SPEC_ADDRESS_SIZE (SPEC_IP_SIZE + 10)
void spec_port_address(const struct spec_port *p, char ret[static SPEC_ADDRESS_SIZE]);
/* A listening socket (non-blocking) and its port. ERR_EXISTS: the address is taken; ERR_DENIED: a
 * privileged port; ERR_INVALID: not an address of this host. */
int spec_port_listen(
	const struct spec_port *p, int *ret_fd, uint16_t *ret_port, struct err *e) must_check;
/* ERR_EXISTS for the address, ERR_LIMIT */
int spec_ports_add(struct spec_ports *all, const struct spec_port *p, struct err *e) must_check;
/* ERR_NOT_FOUND */
int spec_ports_find(const struct spec_ports *all, const struct spec_port *wanted, size_t *ret,
	struct err *e) must_check;
void spec_ports_remove(struct spec_ports *all, size_t i);

/* As members of the spec's JSON: [{"id", "host", "guest", "mode"}], [{"ip", "host_port",
 * "guest_port"}]. NULL: out of memory. Decoding a missing (NULL) list gives an empty one. */
json_t *spec_mounts_encode(const struct spec_mounts *all);
int spec_mounts_decode(const json_t *list, struct spec_mounts *ret, struct err *e) must_check;
json_t *spec_ports_encode(const struct spec_ports *all);
int spec_ports_decode(const json_t *list, struct spec_ports *ret, struct err *e) must_check;

#endif
