/* SPDX-License-Identifier: Apache-2.0 */
/* The channel against a scripted agent on a socketpair: no QEMU, no loop. */
#include "supervisor/channel.h"

#include "base/fd.h"
#include "base/sock.h"

#include "tap.h"

#include <errno.h>
#include <unistd.h>

struct seen {
	int resumed, quiesced, frames, broken, replies, null_replies;
	uint32_t number;
	char broken_text[ERR_WHAT_MAX];
};

static void on_resumed(void *ctx)
{
	((struct seen *)ctx)->resumed++;
}

static void on_quiesced(void *ctx, uint32_t number)
{
	((struct seen *)ctx)->quiesced++;
	((struct seen *)ctx)->number = number;
}

static void on_frame(void *ctx, const struct frame *f)
{
	(void)f;
	((struct seen *)ctx)->frames++;
}

static void on_broken(void *ctx, const struct err *why)
{
	struct seen *s = ctx;

	s->broken++;
	(void)snprintf(s->broken_text, sizeof(s->broken_text), "%s", why->what);
}

static void on_reply(void *ctx, const struct agent_reply *reply)
{
	struct seen *s = ctx;

	s->replies += reply != NULL;
	s->null_replies += reply == NULL;
}

struct bench {
	struct seen seen;
	struct channel *ch;
	int mux[2], resume[2];
	struct agent_resume record;
};

static void begin(struct bench *b, uint32_t epoch)
{
	static const struct channel_events events = {on_resumed, on_quiesced, on_frame, on_broken};

	*b = (struct bench){0};
	if (sock_pair(b->mux) < 0 || sock_pair(b->resume) < 0 ||
		fd_set_nonblock(b->mux[0], true) < 0 || fd_set_nonblock(b->mux[1], true) < 0)
		_exit(1);
	b->ch = channel_new(b->mux[0], b->resume[0], epoch, &events, &b->seen);
}

static void end(struct bench *b)
{
	channel_free(b->ch);
	for (int i = 0; i < 2; i++) {
		(void)fd_close(b->mux[i]);
		(void)fd_close(b->resume[i]);
	}
}

static void read_record(struct bench *b)
{
	unsigned char raw[AGENT_RESUME_SIZE];

	EQ_INT(fd_read_full(b->resume[1], raw, sizeof(raw)), sizeof(raw),
		"a record on the resume port");
	EQ_INT(agent_resume_decode(raw, &b->record), 0, "that can be read");
}

static void agent_says(struct bench *b, uint16_t type, uint32_t stream, uint32_t epoch,
	const void *data, size_t len)
{
	cleanup_buf struct buf out = {0};

	buf_init(&out, 1 << 20);
	frame_put(&out, type, stream, epoch, data, len);
	if (fd_write_all(b->mux[1], out.data, out.len) < 0)
		_exit(1);
}

static void open_epoch(struct bench *b)
{
	struct err e;

	EQ_INT(channel_resume(b->ch, true, &e), 0, "resume");
	read_record(b);
	if (fd_write_all(b->mux[1], b->record.nonce, sizeof(b->record.nonce)) < 0)
		_exit(1);
	agent_says(b, AGENT_RESUMED, 0, b->record.epoch, NULL, 0);
	(void)channel_process(b->ch);
	EQ_INT(b->seen.resumed, 1, "the agent stands in the epoch");
}

static void test_sync(void)
{
	unsigned char out[4096];
	struct bench b;

	begin(&b, 7);
	agent_says(&b, AGENT_STDOUT, 3, 6, "old", 3);
	if (fd_write_all(b.mux[1], "half a fra", 10) < 0)
		_exit(1);
	open_epoch(&b);
	EQ_INT(b.record.epoch, 7, "the record carries the epoch");
	EQ_INT(b.seen.frames, 0, "what came before the nonce is dropped");
	EQ_INT(read(b.mux[1], out, sizeof(out)), AGENT_NONCE_SIZE, "our nonce went first");
	OK(memcmp(out, b.record.nonce, AGENT_NONCE_SIZE) == 0, "the record's");
	agent_says(&b, AGENT_STDOUT, 3, 6, "old", 3);
	agent_says(&b, AGENT_STDOUT, 3, 7, "new", 3);
	(void)channel_process(b.ch);
	EQ_INT(b.seen.frames, 1, "a frame of another epoch is ignored");
	end(&b);
}

static void test_quiesce(void)
{
	unsigned char out[4096];
	struct frame f;
	struct bench b;
	struct err e;

	begin(&b, 1);
	open_epoch(&b);
	uint32_t number = channel_quiesce(b.ch);
	channel_send(b.ch, AGENT_STDIN, 9, "later", 5);
	(void)channel_process(b.ch);
	ssize_t n = read(b.mux[1], out, sizeof(out));
	EQ_INT(n, AGENT_NONCE_SIZE + FRAME_HEADER_SIZE + 4, "after QUIESCE nothing more is sent");
	agent_says(&b, AGENT_QUIESCED, 0, 1, &number, 4);
	(void)channel_process(b.ch);
	EQ_INT(b.seen.number, number, "QUIESCED is told with its number");
	EQ_INT(channel_resume(b.ch, false, &e), 0, "resume in the same epoch");
	read_record(&b);
	EQ_INT(b.record.quiesce, number, "its record ends that quiescence");
	(void)channel_process(b.ch);
	n = read(b.mux[1], out, sizeof(out));
	OK(n > 0 && frame_parse(out, (size_t)n, &f) == n && f.type == AGENT_STDIN,
		"what was held follows");
	end(&b);
}

static void test_requests(void)
{
	struct agent_reply reply = {0};
	struct bench b;
	struct err e;
	cleanup_buf struct buf payload = {0};

	buf_init(&payload, 256);
	agent_reply_encode(&payload, &reply);
	begin(&b, 1);
	open_epoch(&b);
	EQ_INT(channel_request(b.ch, AGENT_PING, NULL, on_reply, &b.seen, &e), 0, "a request");
	agent_says(&b, AGENT_REPLY, 1, 1, payload.data, payload.len);
	(void)channel_process(b.ch);
	EQ_INT(b.seen.replies, 1, "gets its reply");
	EQ_INT(channel_request(b.ch, AGENT_PING, NULL, on_reply, &b.seen, &e), 0, "another");
	agent_says(&b, AGENT_REPLY, 77, 1, payload.data, payload.len);
	(void)channel_process(b.ch);
	EQ_INT(b.seen.broken, 1, "a reply to no request breaks the channel");
	EQ_INT(b.seen.null_replies, 1, "and the waiting request is told");
	OK(channel_process(b.ch) < 0, "a broken channel stays broken");
	EQ_INT(b.seen.broken, 1, "and says so once");
	end(&b);
}

static void test_hostile(void)
{
	static const struct {
		const char *what;
		unsigned char bytes[20];
		size_t len;
	} cases[] = {
		{"a header without the magic", {0, 0, 0, 0, 66, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0},
			16},
		{"a length over the limit", {1, 0, 4, 0, 66, 0, 0xc0, 0x38, 1, 0, 0, 0, 1, 0, 0, 0},
			16},
		{"an unknown type", {0, 0, 0, 0, 5, 1, 0xc0, 0x38, 1, 0, 0, 0, 1, 0, 0, 0}, 16},
		{"a reply that is too short",
			{0, 0, 0, 0, 66, 0, 0xc0, 0x38, 1, 0, 0, 0, 1, 0, 0, 0}, 16},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bench b;
		begin(&b, 1);
		open_epoch(&b);
		EQ_INT(b.seen.broken, 0, "well so far");
		if (fd_write_all(b.mux[1], cases[i].bytes, cases[i].len) < 0)
			_exit(1);
		(void)channel_process(b.ch);
		EQ_INT(b.seen.broken, 1, cases[i].what);
		end(&b);
	}
}

int main(void)
{
	test_sync();
	test_quiesce();
	test_requests();
	test_hostile();
	return tap_done();
}
