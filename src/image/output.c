/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"

#include "worker.h"

#include "../base/clock.h"
#include "../base/fd.h"
#include "../base/text.h"
#include "../proto/client.h"

#include <stdarg.h>

#define PACE_MS 100

void output_take(struct output *o, json_t *object)
{
	cleanup_json *owned = object;
	cleanup_buf struct buf b = {0};

	buf_init(&b, WORKER_LINE_MAX);
	if (!owned) {
		o->failed = true;
		return;
	}
	json_put_canonical(&b, owned);
	buf_put_u8(&b, '\n');
	if (buf_failed(&b) || fd_write_all(o->fd, b.data, b.len) < 0)
		o->failed = true;
}

format_printf(3, 0) static void tell(
	struct output *o, const char *event, const char *fmt, va_list ap)
{
	char text[512], safe[1024];

	(void)vsnprintf(text, sizeof(text), fmt, ap);
	text_escape(text, safe, sizeof(safe));
	output_take(o, json_pack("{s:s, s:s}", "event", event, "text", safe));
}

void output_notice(struct output *o, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	tell(o, "notice", fmt, ap);
	va_end(ap);
}

void output_waiting(struct output *o, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	tell(o, "waiting", fmt, ap);
	va_end(ap);
}

static bool may_send(struct output_pace *p, bool last)
{
	int64_t now = clock_mono_ms();

	if (!last && now < p->next_ms)
		return false;
	p->next_ms = now + PACE_MS;
	return true;
}

void output_layer(struct output *o, struct output_pace *p, const char *digest, uint64_t size,
	uint64_t done, bool last)
{
	if (!may_send(p, last))
		return;
	output_take(o, json_pack("{s:s, s:s, s:I, s:I}", "event", "layer", "digest", digest, "size",
			       (json_int_t)size, "done", (json_int_t)done));
}

void output_layer_state(struct output *o, const char *digest, uint64_t size, bool here)
{
	output_take(o,
		json_pack("{s:s, s:s, s:I, s:I, s:s}", "event", "layer", "digest", digest, "size",
			(json_int_t)size, "done", here ? (json_int_t)size : (json_int_t)0, "state",
			here ? "here" : "waiting"));
}

void output_convert(
	struct output *o, struct output_pace *p, uint64_t layer, uint64_t bytes, bool last)
{
	if (!may_send(p, last))
		return;
	output_take(o, json_pack("{s:s, s:I, s:I}", "event", "convert", "layer", (json_int_t)layer,
			       "bytes", (json_int_t)bytes));
}

void output_error(struct output *o, const struct err *e)
{
	struct err plain = *e;

	/* Words of registries and files; one cut inside a character would be no JSON. */
	text_escape(e->what, plain.what, sizeof(plain.what));
	text_escape(e->hint, plain.hint, sizeof(plain.hint));
	output_take(o, json_pack("{s:b, s:o}", "ok", 0, "error", client_error_encode(&plain)));
}
