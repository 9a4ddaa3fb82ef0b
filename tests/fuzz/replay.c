/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target over every file of the folder in argv[1]; an empty folder is a failure. */
#include "base/buf.h"
#include "base/fd.h"
#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv)
{
	int count = 0;

	if (argc != 2)
		return 2;
	DIR *d = opendir(argv[1]);
	if (!d) {
		perror(argv[1]);
		return 1;
	}
	struct dirent *de;
	while ((de = readdir(d))) {
		cleanup_buf struct buf b = {0};
		buf_init(&b, 1 << 20);
		if (de->d_name[0] == '.')
			continue;
		if (file_read(dirfd(d), de->d_name, &b) < 0) {
			perror(de->d_name);
			return 1;
		}
		(void)LLVMFuzzerTestOneInput(b.data, b.len);
		count++;
	}
	(void)closedir(d);
	printf("%d inputs replayed\n", count);
	return count > 0 ? 0 : 1;
}
