/* SPDX-License-Identifier: Apache-2.0 */
#include "synthesis.h"

#include "../base/fd.h"
#include "../base/hash.h"
#include "../base/json.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define OCI "application/vnd.oci.image."

static const char *sniff(int fd)
{
	unsigned char magic[4] = {0};

	if (fd_pread_full(fd, magic, sizeof(magic), 0) < (ssize_t)sizeof(magic))
		return OCI "layer.v1.tar";
	if (magic[0] == 0x1f && magic[1] == 0x8b)
		return OCI "layer.v1.tar+gzip";
	if (memcmp(magic, "\x28\xb5\x2f\xfd", 4) == 0)
		return OCI "layer.v1.tar+zstd";
	return OCI "layer.v1.tar";
}

int synthesis_layer(int fd, struct descriptor *ret, struct err *e)
{
	char hex[SHA256_HEX_SIZE];
	struct descriptor d = {0};
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return err_errno(e, errno, "a layer");
	if ((r = sha256_hex_of_fd(fd, hex)) < 0)
		return err_errno(e, -r, "reading a layer");
	d.size = (uint64_t)st.st_size;
	(void)snprintf(d.digest, sizeof(d.digest), "sha256:%s", hex);
	(void)snprintf(d.media_type, sizeof(d.media_type), "%s", sniff(fd));
	*ret = d;
	return 0;
}

static json_t *descriptor_json(const char *type, const char *digest, uint64_t size)
{
	return json_pack(
		"{s:s, s:s, s:I}", "mediaType", type, "digest", digest, "size", (json_int_t)size);
}

int synthesis_digest(const void *config, size_t config_len, const struct descriptor *layers,
	size_t n, char ret[static REFERENCE_DIGEST_SIZE], struct err *e)
{
	char hex[SHA256_HEX_SIZE], digest[REFERENCE_DIGEST_SIZE];
	cleanup_buf struct buf b = {0};

	buf_init(&b, MANIFEST_BYTES_MAX);
	sha256_hex_of(config, config_len, hex);
	(void)snprintf(digest, sizeof(digest), "sha256:%s", hex);
	cleanup_json *o = json_pack("{s:i, s:s, s:o, s:[]}", "schemaVersion", 2, "mediaType",
		OCI "manifest.v1+json", "config",
		descriptor_json(OCI "config.v1+json", digest, config_len), "layers");
	for (size_t i = 0; i < n && o; i++)
		if (json_array_append_new(json_object_get(o, "layers"),
			    descriptor_json(
				    layers[i].media_type, layers[i].digest, layers[i].size)) < 0)
			return err_errno(e, ENOMEM, "making a manifest");
	if (o)
		json_put_canonical(&b, o);
	if (!o || buf_failed(&b))
		return err_errno(e, ENOMEM, "making a manifest");
	sha256_hex_of(b.data, b.len, hex);
	(void)snprintf(ret, REFERENCE_DIGEST_SIZE, "sha256:%s", hex);
	return 0;
}
