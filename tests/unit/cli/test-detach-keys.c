/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever the pieces in which keys come: none is lost, none is doubled, the sequence is found. */
#include "cli/detach-keys.h"

#include "tap.h"

#define ABSENT SIZE_MAX

/* What the program gets of keys, fed in pieces of `piece`; ret_at: how many keys were used when the
 * sequence was complete, or ABSENT. */
static const char *feed(
	const char *sequence, const char *keys, size_t piece, struct buf *b, size_t *ret_at)
{
	struct detach_keys d;
	struct err e;
	size_t len = strlen(keys);

	*ret_at = ABSENT;
	buf_init(b, 4096);
	if (detach_keys_parse(sequence, &d, &e) < 0)
		return "not parsed";
	for (size_t at = 0; at < len; at += piece) {
		size_t n = len - at < piece ? len - at : piece;
		if (detach_keys_feed(&d, (const unsigned char *)keys + at, n, b)) {
			*ret_at = at + n;
			return buf_cstr(b);
		}
	}
	detach_keys_flush(&d, b);
	return buf_cstr(b);
}

static void check(const char *sequence, const char *keys, const char *want, bool found)
{
	for (size_t piece = 1; piece <= 4; piece++) {
		cleanup_buf struct buf b = {0};
		size_t at;
		EQ_STR(feed(sequence, keys, piece, &b, &at), want, "what the program gets");
		OK((at != ABSENT) == found, "whether it is left");
	}
}

static void test_feed(void)
{
	check("ctrl-p,ctrl-q", "ab\x10\x11", "ab", true);
	check("ctrl-p,ctrl-q",
		"a\x10"
		"b\x11",
		"a\x10"
		"b\x11",
		false);
	check("ctrl-p,ctrl-q", "\x10\x10\x10\x11", "\x10\x10", true);
	check("ctrl-p,ctrl-q", "\x10", "\x10", false);
	check("ctrl-p,ctrl-q", "\x11\x10", "\x11\x10", false);
	check("a,a,b", "aaab", "a", true);
	check("a,b,a,c", "ababac", "ab", true);
	check("a,b,a,b,c", "abababd", "abababd", false);
	check("", "\x10\x11", "\x10\x11", false);
	check("x", "abx", "ab", true);
}

static int parses(const char *s)
{
	struct detach_keys d;
	struct err e;

	return detach_keys_parse(s, &d, &e) < 0 ? -1 : (int)d.len;
}

static void test_parse(void)
{
	struct detach_keys d;
	struct err e;

	EQ_INT(parses("ctrl-p,ctrl-q"), 2, "the default");
	EQ_INT(parses(""), 0, "none");
	EQ_INT(parses("a"), 1, "one");
	EQ_INT(parses("ctrl-@,ctrl-[,ctrl-\\,ctrl-],ctrl-^,ctrl-_"), 6, "all that are no letters");
	EQ_INT(parses("a,,,b"), 3, "a comma is a key, too");
	EQ_INT(parses("a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p"), DETACH_KEYS_MAX, "as many as fit");
	EQ_INT(parses("a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q"), -1, "one more");
	EQ_INT(parses("ctrl-"), -1, "ctrl- alone");
	EQ_INT(parses("ctrl-P"), -1, "an upper case letter");
	EQ_INT(parses("a,"), -1, "a comma at the end");
	EQ_INT(parses("ab"), -1, "two letters");
	EQ_INT(parses("\xc3\xa4"), -1, "no ASCII");
	OK(detach_keys_parse("ctrl-a,ctrl-z,ctrl-_,z", &d, &e) == 0 &&
			memcmp(d.keys, "\x01\x1a\x1fz", 4) == 0,
		"their codes");
}

int main(void)
{
	test_feed();
	test_parse();
	return tap_done();
}
