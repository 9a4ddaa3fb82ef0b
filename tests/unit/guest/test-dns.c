/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/dns.h"

#include "tap.h"

static const unsigned char query[] = {0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 3, 'w', 'w', 'w', 2,
	'k', '8', 0, 0, 1, 0, 1, 0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0};
#define QUESTION_END (12 + 4 + 3 + 1 + 4)

static size_t answer(const unsigned char *q, size_t len, unsigned char *ret)
{
	return dns_answer(q, len, ret);
}

int main(void)
{
	unsigned char q[600] = {0}, a[DNS_MESSAGE_MAX];

	EQ_INT(answer(query, sizeof(query), a), QUESTION_END, "the question alone is repeated");
	OK(a[0] == 0x12 && a[1] == 0x34, "the id too");
	EQ_INT(a[2], 0x81, "a response, recursion desired as asked");
	EQ_INT(a[3], 0x83, "NXDOMAIN");
	OK(memcmp(a + 12, query + 12, QUESTION_END - 12) == 0, "same question");
	EQ_INT(a[5], 1, "one question");
	EQ_INT(a[7] | a[9] | a[11], 0, "and nothing else");

	for (size_t len = 0; len < 12; len++)
		EQ_INT(answer(query, len, a), 0, "a short one is not answered");
	for (size_t len = 12; len < QUESTION_END; len++) {
		EQ_INT(answer(query, len, a), 12, "a cut one");
		EQ_INT(a[3], 0x81, "is FORMERR");
	}
	memcpy(q, query, sizeof(query));
	q[2] |= 0x80;
	EQ_INT(answer(q, sizeof(query), a), 0, "responses are not answered: no loops");
	q[2] = 0x28;
	EQ_INT(answer(q, sizeof(query), a), QUESTION_END, "another opcode");
	EQ_INT(a[3], 0x84, "is NOTIMP");
	memcpy(q, query, sizeof(query));
	q[12] = 0xc0;
	EQ_INT(answer(q, sizeof(query), a), 12, "a pointer in the question is FORMERR");
	memcpy(q, query, sizeof(query));
	q[5] = 2;
	EQ_INT(answer(q, sizeof(query), a), 12, "two questions are FORMERR");
	EQ_INT(answer(q, 513, a), 0, "too long");
	EQ_INT(answer(q, 512, a), 12, "as long as may be");
	return tap_done();
}
