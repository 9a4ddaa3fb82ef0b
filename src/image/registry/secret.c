/* SPDX-License-Identifier: Apache-2.0 */
#include "secret.h"

int secret_json_parse(const void *data, size_t len, const char *what, json_t **ret, struct err *e)
{
	json_error_t where;
	json_t *j = json_loadb(len > 0 ? data : "", len, JSON_REJECT_DUPLICATES, &where);

	if (!j)
		return err_set(
			e, ERR_PROTOCOL, 0, "%s is not valid JSON (line %d)", what, where.line);
	if (!json_is_object(j)) {
		json_decref(j);
		return err_set(e, ERR_PROTOCOL, 0, "%s is not a JSON object", what);
	}
	*ret = j;
	return 0;
}
