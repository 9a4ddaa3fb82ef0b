/* SPDX-License-Identifier: Apache-2.0 */
/* The first byte chooses: a mount or a port as it is typed, a stored spec. What is accepted is in
 * its normal form, and reads back as the same. */
#include "base/strv.h"
#include "store/spec.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_mount(const char *text)
{
	struct spec_mount m = {0}, again = {0};
	struct err e;

	if (spec_mount_parse(text, &m, &e) < 0)
		return;
	assert(m.guest[0] == '/' && m.guest[1] != '\0' && m.host[0] != '\0');
	assert(!strstr(m.guest, "//") && m.guest[strlen(m.guest) - 1] != '/');
	assert(strncmp(m.guest, "/proc/", 6) != 0 && strcmp(m.guest, "/dev") != 0);
	assert(spec_mount_make(m.host, m.guest, mount_mode_name(m.mode), &again, &e) == 0);
	assert(strcmp(m.guest, again.guest) == 0 && m.mode == again.mode);
	spec_mount_release(&m);
	spec_mount_release(&again);
}

static void try_port(const char *text)
{
	struct spec_port p, again;
	struct err e;
	char address[SPEC_ADDRESS_SIZE], whole[SPEC_ADDRESS_SIZE + 8];

	(void)spec_port_parse_host(text, &p, &e);
	if (spec_port_parse(text, &p, &e) < 0)
		return;
	spec_port_address(&p, address);
	(void)snprintf(whole, sizeof(whole), "%s:%u", address, p.guest_port);
	assert(spec_port_parse(whole, &again, &e) == 0);
	assert(strcmp(p.ip, again.ip) == 0 && p.host_port == again.host_port &&
		p.guest_port == again.guest_port);
}

static void try_spec(const char *text)
{
	struct spec s = {0}, again = {0};
	struct err e;

	if (spec_decode(text, &s, &e) < 0)
		return;
	cleanup_str char *json = spec_encode(&s);
	assert(!json || spec_decode(json, &again, &e) == 0);
	assert(!json || again.mounts.next_id == s.mounts.next_id);
	spec_release(&s);
	spec_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const tries[])(const char *) = {try_mount, try_port, try_spec};

	if (size == 0)
		return 0;
	char *text = strndup((const char *)data + 1, size - 1);
	if (text)
		tries[data[0] % 3](text);
	free(text);
	return 0;
}
