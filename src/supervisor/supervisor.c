/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor.h"

#include "op.h"
#include "rewind.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/file.h"
#include "../base/install.h"
#include "../base/log.h"
#include "../proto/agent-session.h"
#include "../base/space.h"
#include "../base/strv.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The guest is let run again when this much is free on the host. */
#define DISK_FREE_BYTES (1024u * 1024)
#define DISK_CHECK_MS 1000
#define DISK_NOTICE_MS 60000
/* Results that no client has read by then are not read at all. */
#define END_MS 3000

static int open_dirs(struct supervisor *s, struct err *e)
{
	int r;

	if ((r = s->dirfd = home_sandbox_dir(&s->home, s->id, false, e)) < 0 ||
		(r = s->images_dirfd = home_images_dir(&s->home, e)) < 0 ||
		(r = s->templates_dirfd = home_templates_dir(&s->home, e)) < 0)
		return r;
	s->layers_dirfd = dir_open(s->dirfd, "layers", true, 0700);
	s->checkpoints_dirfd = dir_open(s->dirfd, "checkpoints", true, 0700);
	if (s->layers_dirfd < 0 || s->checkpoints_dirfd < 0)
		return err_errno(e, s->layers_dirfd < 0 ? -s->layers_dirfd : -s->checkpoints_dirfd,
			"cannot open the sandbox's folders");
	return 0;
}

int supervisor_open(struct supervisor *s, struct err *e)
{
	char assets[PATH_MAX];
	int r;

	if ((r = home_open(false, &s->home, e)) < 0 ||
		(r = catalog_open(&s->home, &s->catalog, e)) < 0 ||
		(r = audit_open(&s->home, s->catalog, &s->audit, e)) < 0 ||
		(r = catalog_sandbox_get(s->catalog, s->id, &s->row, e)) < 0)
		return r;
	log_init("kosa8-supervisor", s->row.name);
	if ((r = spec_decode(s->row.spec, &s->spec, e)) < 0 ||
		(r = spec_policy_hash(&s->spec, s->policy_hash, e)) < 0 ||
		(r = open_dirs(s, e)) < 0 ||
		(r = install_assets_dir(assets, sizeof(assets), e)) < 0)
		return r;
	return vm_host_probe(assets, s->templates_dirfd, &s->host, e);
}

int supervisor_start_machine(
	struct supervisor *s, struct machine_source *source, struct machine **ret, struct err *e)
{
	source->host = &s->host;
	source->layers_dirfd = s->layers_dirfd;
	source->images_dirfd = s->images_dirfd;
	return machine_start(
		&s->loop, source, STDERR_FILENO, &supervisor_machine_events, s, ret, e);
}

int supervisor_new_mounts(struct supervisor *s, struct mounts **ret, struct err *e)
{
	const struct mounts_config config = {
		.loop = &s->loop, .home_dirfd = s->home.dirfd, .sandbox = s->row.name};

	*ret = mounts_new(&config);
	return *ret ? 0 : err_set(e, ERR_IO, ENOMEM, "out of memory");
}

static void kick(void *ctx)
{
	struct supervisor *s = ctx;

	if (s->machine)
		machine_kick(s->machine);
}

void supervisor_open_ports(struct supervisor *s)
{
	if (s->ports)
		ports_bind(s->ports, s->machine ? machine_net(s->machine) : NULL, kick, s);
}

void supervisor_set_machine(
	struct supervisor *s, struct machine *m, struct mounts *mounts, const struct err *why)
{
	struct machine *former = s->machine;

	/* Their frames would go to the new machine's channel: they end first. */
	op_fail_of_machine(s, why);
	mounts_free(s->mounts);
	s->mounts = mounts;
	s->machine = m;
	s->ends_left = AGENT_CONTAINERS_MAX;
	s->ends_told = false;
	s->disk_full = false;
	supervisor_open_ports(s);
	machine_free(former);
}

int supervisor_save_spec(struct supervisor *s, struct err *e)
{
	cleanup_str char *json = spec_encode(&s->spec);
	int r;

	if (!json)
		return err_set(e, ERR_IO, ENOMEM, "out of memory");
	if ((r = catalog_sandbox_set_spec(s->catalog, s->row.id, json, e)) < 0)
		return r;
	return spec_policy_hash(&s->spec, s->policy_hash, e);
}

static void record_state(struct supervisor *s, enum sandbox_state state, const char *crash)
{
	struct err e;

	/* One that is still being created is removed by whoever creates it. */
	if (state == SANDBOX_CREATING || !s->catalog)
		return;
	if (catalog_sandbox_set_state(s->catalog, s->id, state, crash, &e) < 0)
		log_warn("the catalog does not know that the sandbox is %s: %s",
			sandbox_state_name(state), e.what);
}

static void on_end_timeout(uv_timer_t *timer)
{
	struct supervisor *s = timer->data;

	uv_stop(&s->loop);
}

void supervisor_end(struct supervisor *s, enum sandbox_state state, const char *crash,
	const struct err *why, const struct op *last)
{
	struct machine *m = s->machine;

	if (s->state == SUPERVISOR_ENDING)
		return;
	s->state = SUPERVISOR_ENDING;
	if (crash)
		log_warn("crashed: %s", crash);
	/* First: what waits for them is answered by this. */
	mounts_free(s->mounts);
	s->mounts = NULL;
	ports_free(s->ports);
	s->ports = NULL;
	op_fail_all(s, last, why);
	s->machine = NULL;
	machine_free(m);
	record_state(s, state, crash);
	uv_close((uv_handle_t *)&s->listen_poll, NULL);
	uv_close((uv_handle_t *)&s->disk_timer, NULL);
	uv_close((uv_handle_t *)&s->sigterm, NULL);
	if (s->dirfd >= 0)
		(void)unlinkat(s->dirfd, "control.sock", 0);
	s->listen_fd = fd_close(s->listen_fd);
	s->lock_fd = fd_close(s->lock_fd);
	(void)uv_timer_start(&s->timer, on_end_timeout, END_MS, 0);
	uv_unref((uv_handle_t *)&s->timer);
}

/* ---- what the machine reports ---- */

static void on_ready(void *ctx, struct machine *m)
{
	struct supervisor *s = ctx;

	if (!rewind_ready(s, m) && s->state == SUPERVISOR_STARTING)
		op_start_ready(s);
}

static void on_quiesced(void *ctx, struct machine *m, uint32_t number)
{
	struct supervisor *s = ctx;

	if (m == s->machine)
		op_checkpoint_quiesced(s, number);
}

static void on_session_frame(void *ctx, struct machine *m, const struct frame *f)
{
	struct supervisor *s = ctx;

	if (m == s->machine)
		op_session_frame(s, f);
}

static int on_net_frame(void *ctx, struct machine *m, const struct frame *f, struct err *e)
{
	struct supervisor *s = ctx;

	return m == s->machine && s->ports ? ports_frame(s->ports, f, e) : 0;
}

static int on_fs_frame(void *ctx, struct machine *m, const struct frame *f, struct err *e)
{
	struct supervisor *s = ctx;
	struct mounts *mounts = m == s->machine ? s->mounts : rewind_mounts(s, m);

	return mounts ? mounts_frame(mounts, f, e) : 0;
}

static void on_disk_timer(uv_timer_t *timer)
{
	struct supervisor *s = timer->data;
	uint64_t free_bytes;
	struct err e;

	if (!s->machine || !s->disk_full) {
		(void)uv_timer_stop(timer);
		return;
	}
	if (file_free_bytes(s->layers_dirfd, &free_bytes) < 0 || free_bytes < DISK_FREE_BYTES)
		return;
	if (vm_run(machine_vm(s->machine), &e) < 0)
		log_warn("%s", e.what);
	s->disk_full = false;
	(void)uv_timer_stop(timer);
}

int supervisor_why_it_waits(const struct supervisor *s, struct err *e)
{
	(void)space_error(s->layers_dirfd, "the sandbox's disk", 0, e);
	return err_wrap(e, "the sandbox waits");
}

static void tell_disk_full(struct supervisor *s)
{
	int64_t now_ms = clock_mono_ms();
	struct err e;

	if (s->disk_notice_ms && now_ms - s->disk_notice_ms < DISK_NOTICE_MS)
		return;
	s->disk_notice_ms = now_ms;
	(void)supervisor_why_it_waits(s, &e);
	log_warn("%s", e.what);
	for (struct op *op = s->ops; op; op = op->next)
		op_notice(op, e.what);
}

static void on_disk_full(struct supervisor *s)
{
	s->disk_full = true;
	tell_disk_full(s);
	(void)uv_timer_start(&s->disk_timer, on_disk_timer, DISK_CHECK_MS, DISK_CHECK_MS);
}

static void on_vm_event(void *ctx, struct machine *m, enum vm_event event)
{
	struct supervisor *s = ctx;
	struct err why;

	switch (event) {
	case VM_EVENT_IO_ERROR:
		(void)space_error(s->layers_dirfd, "the sandbox's disk", 0, &why);
		if (m != s->machine)
			(void)rewind_died(s, m, &why);
		else if (s->state == SUPERVISOR_STARTING)
			op_start_died(s, &why);
		else
			on_disk_full(s);
		break;
	case VM_EVENT_MERGED:
	case VM_EVENT_MERGE_FAILED:
		if (m == s->machine)
			op_checkpoint_rm_merged(s, event == VM_EVENT_MERGED);
		break;
	case VM_EVENT_PANIC:
		log_warn("the guest reset itself");
		break;
	case VM_EVENT_NONE:
	case VM_EVENT_SHUTDOWN:
	case VM_EVENT_GONE:
		break;
	}
}

static void on_died(void *ctx, struct machine *m, const struct err *why)
{
	struct supervisor *s = ctx;
	struct err crash = *why;

	if (rewind_died(s, m, why) || op_stop_ended(s))
		return;
	if (s->state == SUPERVISOR_STARTING) {
		op_start_died(s, why);
		return;
	}
	(void)err_wrap(&crash, "the sandbox crashed");
	(void)err_hint(&crash, "kosa8 sandbox start %s", s->row.name);
	supervisor_end(s, SANDBOX_CRASHED, why->what, &crash, NULL);
}

const struct machine_events supervisor_machine_events = {
	.ready = on_ready,
	.quiesced = on_quiesced,
	.session_frame = on_session_frame,
	.net_frame = on_net_frame,
	.fs_frame = on_fs_frame,
	.vm_event = on_vm_event,
	.died = on_died,
};
