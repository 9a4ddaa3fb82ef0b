/* SPDX-License-Identifier: Apache-2.0 */
#include "text.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

int text_parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;

	if (*s == '\0')
		return -EINVAL;
	for (; *s; s++) {
		if (*s < '0' || *s > '9')
			return -EINVAL;
		uint64_t digit = (uint64_t)(*s - '0');
		if (v > (UINT64_MAX - digit) / 10)
			return -ERANGE;
		v = v * 10 + digit;
	}
	if (v < min || v > max)
		return -ERANGE;
	*ret = v;
	return 0;
}

static uint64_t unit_ms(const char **s)
{
	static const struct {
		const char *name;
		uint64_t ms;
	} units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		size_t len = strlen(units[i].name);
		if (strncmp(*s, units[i].name, len) == 0) {
			*s += len;
			return units[i].ms;
		}
	}
	return 0;
}

int text_parse_duration_ms(const char *s, uint64_t *ret_ms)
{
	const uint64_t most = UINT64_C(365) * 86400000;
	uint64_t total = 0;

	if (*s == '\0')
		return -EINVAL;
	while (*s) {
		uint64_t n = 0;
		size_t digits = 0;
		for (; *s >= '0' && *s <= '9'; s++, digits++) {
			n = n * 10 + (uint64_t)(*s - '0');
			if (n > most)
				return -ERANGE;
		}
		if (digits == 0)
			return -EINVAL;
		uint64_t unit = *s == '\0' && total == 0 ? 1000 : unit_ms(&s);
		if (unit == 0)
			return -EINVAL;
		total += n * unit;
		if (total > most)
			return -ERANGE;
	}
	if (total == 0)
		return -ERANGE;
	*ret_ms = total;
	return 0;
}

static bool is_name_start(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool text_is_sandbox_name(const char *s)
{
	static const char *const reserved[] = {"ls", "rm", "diff"};
	size_t len = strnlen(s, 64);

	if (len == 0 || len > 63 || !is_name_start(s[0]))
		return false;
	for (size_t i = 1; i < len; i++)
		if (!is_name_start(s[i]) && s[i] != '_' && s[i] != '.' && s[i] != '-')
			return false;
	for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
		if (strcmp(s, reserved[i]) == 0)
			return false;
	return true;
}

/* Well-formed UTF-8 as in The Unicode Standard, table 3-7: length of the sequence at s, or 0. */
static size_t utf8_sequence(const unsigned char *s, size_t left)
{
	unsigned char low = 0x80, high = 0xbf;
	size_t len;

	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		len = 2;
	else if (s[0] >= 0xe0 && s[0] <= 0xef)
		len = 3;
	else if (s[0] >= 0xf0 && s[0] <= 0xf4)
		len = 4;
	else
		return 0;
	if (len > left)
		return 0;
	if (s[0] == 0xe0)
		low = 0xa0;
	else if (s[0] == 0xed)
		high = 0x9f;
	else if (s[0] == 0xf0)
		low = 0x90;
	else if (s[0] == 0xf4)
		high = 0x8f;
	if (s[1] < low || s[1] > high)
		return 0;
	for (size_t i = 2; i < len; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	return len;
}

static uint32_t utf8_code_point(const unsigned char *s, size_t len)
{
	uint32_t c = len == 1 ? s[0] : s[0] & (0xffu >> (len + 1));

	for (size_t i = 1; i < len; i++)
		c = c << 6 | (s[i] & 0x3f);
	return c;
}

/* What a terminal obeys, breaks a line at, or shows text in another order for: control characters,
 * and the format characters of The Unicode Standard, sections 23.2 to 23.9, that are no part of
 * words. */
static bool is_deceptive(uint32_t c)
{
	static const struct {
		uint32_t first, last;
	} ranges[] = {{0, 0x1f}, {0x7f, 0x9f}, {0x61c, 0x61c}, {0x200e, 0x200f}, {0x2028, 0x202e},
		{0x2066, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f}};

	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
		if (c >= ranges[i].first && c <= ranges[i].last)
			return true;
	return false;
}

/* Of a text that is cut after n bytes, of which the last are the same in s: how many of them begin
 * an escape that s goes on with. */
static size_t cut_escape(const char *s, const char *ret, size_t n)
{
	for (size_t i = 1; i <= 3 && i <= n; i++) {
		const char *at = s - i;
		if (ret[n - i] == '\\' && at[1] == 'x' && isxdigit((unsigned char)at[2]) &&
			isxdigit((unsigned char)at[3]))
			return i;
	}
	return 0;
}

void text_escape(const char *s, char *ret, size_t size)
{
	size_t n = 0, left = strlen(s);

	while (left > 0) {
		const unsigned char *p = (const unsigned char *)s;
		size_t len = utf8_sequence(p, left);
		bool plain = len > 0 && !is_deceptive(utf8_code_point(p, len));
		len = len ? len : 1;
		if (n + (plain ? len : 4 * len) + 1 > size)
			break;
		if (plain)
			memcpy(ret + n, s, len);
		else
			for (size_t i = 0; i < len; i++)
				(void)snprintf(ret + n + 4 * i, size - n - 4 * i, "\\x%02x", p[i]);
		n += plain ? len : 4 * len;
		s += len;
		left -= len;
	}
	if (left > 0)
		n -= cut_escape(s, ret, n);
	ret[n] = '\0';
}

bool text_is_utf8(const char *s, size_t len)
{
	const unsigned char *p = (const unsigned char *)s;

	while (len > 0) {
		size_t n = utf8_sequence(p, len);
		if (n == 0)
			return false;
		p += n;
		len -= n;
	}
	return true;
}

bool text_is_label(const char *s)
{
	size_t len = strnlen(s, 129);

	if (len == 0 || len > 128 || !text_is_utf8(s, len))
		return false;
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)s[i];
		/* C0, DEL, and C1 (U+0080..U+009F are encoded as c2 80..c2 9f). */
		if (c < 0x20 || c == 0x7f)
			return false;
		if (c == 0xc2 && (unsigned char)s[i + 1] < 0xa0)
			return false;
	}
	return true;
}

void text_hex(const void *data, size_t len, char *ret)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *p = data;

	for (size_t i = 0; i < len; i++) {
		ret[2 * i] = digits[p[i] >> 4];
		ret[2 * i + 1] = digits[p[i] & 15];
	}
	ret[2 * len] = '\0';
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

bool text_unhex(const char *s, unsigned char *ret, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		int high = hex_digit(s[2 * i]);
		int low = high < 0 ? -1 : hex_digit(s[2 * i + 1]);
		if (low < 0)
			return false;
		ret[i] = (unsigned char)(high << 4 | low);
	}
	return true;
}

bool text_starts_with(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	unsigned m = a < b ? a : b;
	return m < c ? m : c;
}

unsigned text_distance(const char *a, const char *b, unsigned limit)
{
	enum { MOST = 64 };
	unsigned rows[3][MOST + 1];
	size_t la = strlen(a), lb = strlen(b);

	if (la > MOST || lb > MOST)
		return limit + 1;
	for (size_t j = 0; j <= lb; j++)
		rows[0][j] = (unsigned)j;
	for (size_t i = 1; i <= la; i++) {
		unsigned *row = rows[i % 3], *up = rows[(i + 2) % 3], *up2 = rows[(i + 1) % 3];
		row[0] = (unsigned)i;
		for (size_t j = 1; j <= lb; j++) {
			unsigned cost = a[i - 1] != b[j - 1];
			row[j] = min3(up[j] + 1, row[j - 1] + 1, up[j - 1] + cost);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
				up2[j - 2] + 1 < row[j])
				row[j] = up2[j - 2] + 1;
		}
	}
	unsigned d = rows[la % 3][lb];
	return d > limit ? limit + 1 : d;
}

void text_size(uint64_t bytes, char ret[static TEXT_SIZE_MAX])
{
	static const char *const units[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
	double v = (double)bytes;
	size_t u = 0;

	if (bytes < 1000) {
		(void)snprintf(ret, TEXT_SIZE_MAX, "%u B", (unsigned)bytes);
		return;
	}
	v /= 1000;
	while (v >= 999.95 && u + 1 < sizeof(units) / sizeof(units[0])) {
		v /= 1000;
		u++;
	}
	(void)snprintf(ret, TEXT_SIZE_MAX, "%.1f %s", v, units[u]);
}
