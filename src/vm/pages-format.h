/* SPDX-License-Identifier: Apache-2.0 */
/* The page file's fixed parts, for its writer and its reader. The format is in pages.h. */
#ifndef KOSA8_VM_PAGES_FORMAT_H
#define KOSA8_VM_PAGES_FORMAT_H

#include "ram-map.h"

#define PAGES_MAGIC "k8pages1"
#define PAGES_HEADER_SIZE 64u
#define PAGES_RUN_SIZE 16u
#define PAGES_CHUNK 256u /* 1 MiB of page contents is handled at once */

enum pages_kind { PAGES_DATA, PAGES_ZERO };

struct pages_header {
	uint64_t ram_bytes, runs, data_pages, data_offset;
};

#endif
