/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/client.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_json *request = NULL;
	struct client_run run;
	struct client_exec exec;
	struct err e;

	if (json_parse_object(data, size, "the request", &request, &e) < 0)
		return 0;
	if (client_run_decode(request, &run, &e) == 0)
		client_run_release(&run);
	if (client_exec_decode(request, &exec, &e) == 0)
		client_exec_release(&exec);
	client_error_decode(request, &e);
	return 0;
}
