/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/client.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_json *request = NULL;
	struct client_run run;
	struct err e;

	if (json_parse_object(data, size, "the request", &request, &e) < 0)
		return 0;
	if (client_run_decode(request, &run, &e) == 0)
		client_run_release(&run);
	client_error_decode(request, &e);
	return 0;
}
