/* SPDX-License-Identifier: Apache-2.0 */
/* For fuzz targets that read tars. */
#ifndef KOSA8_FUZZ_REPAIR_H
#define KOSA8_FUZZ_REPAIR_H

#include <stdio.h>
#include <string.h>

/* Makes the checksum of each block that looks like a header right: else hardly an input would get
 * past it. */
static void repair(unsigned char *tar, size_t len)
{
	for (unsigned char *h = tar; len >= 512; h += 512, len -= 512) {
		unsigned sum = 0;
		if (memcmp(h + 257, "ustar", 5) != 0)
			continue;
		memset(h + 148, ' ', 8);
		for (int i = 0; i < 512; i++)
			sum += h[i];
		(void)snprintf((char *)h + 148, 8, "%06o", sum);
	}
}

#endif
