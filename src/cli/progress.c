/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include "output.h"

#include "../base/clock.h"
#include "../base/text.h"

#include <string.h>

#define REDRAW_MS 100
#define SHORT_DIGEST 12

void progress_init(struct progress *p, bool quiet)
{
	*p = (struct progress){.show = !quiet && output_progress()};
}

static void short_name(const char *digest, char *ret, size_t size)
{
	char safe[20];
	const char *colon = strchr(digest, ':');

	output_escape(colon ? colon + 1 : digest, safe, sizeof(safe));
	(void)snprintf(ret, size, "%.*s", SHORT_DIGEST, safe);
}

static void draw_layer(const struct progress_layer *l)
{
	char done[TEXT_SIZE_MAX], size[TEXT_SIZE_MAX];

	text_size(l->done, done);
	text_size(l->size, size);
	if (l->size && l->done >= l->size)
		(void)fprintf(stderr, "\033[K  %s  %s\n", l->name, size);
	else
		(void)fprintf(
			stderr, "\033[K  %s  %s of %s\n", l->name, done, l->size ? size : "?");
}

static void draw(struct progress *p, bool now)
{
	char size[TEXT_SIZE_MAX];

	if (!p->show || (!now && clock_mono_ms() - p->drawn_ms < REDRAW_MS))
		return;
	p->drawn_ms = clock_mono_ms();
	if (p->lines > 0)
		(void)fprintf(stderr, "\033[%zuA\r", p->lines);
	for (size_t i = 0; i < p->len; i++)
		draw_layer(&p->layers[i]);
	p->lines = p->len;
	if (p->converted > 0) {
		text_size(p->converted, size);
		(void)fprintf(stderr, "\033[K  unpacked      %s\n", size);
		p->lines++;
	}
	(void)fflush(stderr);
}

void progress_layer(struct progress *p, const char *digest, uint64_t size, uint64_t done)
{
	char name[20];
	size_t i = 0;

	if (!p->show)
		return;
	short_name(digest, name, sizeof(name));
	while (i < p->len && strcmp(p->layers[i].name, name) != 0)
		i++;
	if (i == PROGRESS_LAYERS_MAX)
		return;
	if (i == p->len)
		p->len++;
	memcpy(p->layers[i].name, name, sizeof(name));
	p->layers[i].size = size;
	p->layers[i].done = done;
	draw(p, false);
}

void progress_convert(struct progress *p, uint64_t bytes)
{
	p->converted = bytes;
	draw(p, false);
}

void progress_notice(struct progress *p, const char *text)
{
	if (p->show && p->lines > 0)
		(void)fprintf(stderr, "\033[%zuA\r\033[J", p->lines);
	p->lines = 0;
	output_notice("%s", text);
	draw(p, true);
}

void progress_end(struct progress *p)
{
	draw(p, true);
}
