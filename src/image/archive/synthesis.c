/* SPDX-License-Identifier: Apache-2.0 */
#include "synthesis.h"

#include "../../base/fd.h"
#include "../../base/json.h"

#include <errno.h>
#include <string.h>

#define OCI "application/vnd.oci.image."

int synthesis_layer(int fd, const struct copied *content, struct descriptor *ret, struct err *e)
{
	unsigned char magic[4] = {0};
	const char *type = OCI "layer.v1.tar";
	ssize_t n = fd_pread_full(fd, magic, sizeof(magic), 0);

	if (n < 0)
		return err_errno(e, (int)-n, "reading a layer");
	if (magic[0] == 0x1f && magic[1] == 0x8b)
		type = OCI "layer.v1.tar+gzip";
	else if (memcmp(magic, "\x28\xb5\x2f\xfd", sizeof(magic)) == 0)
		type = OCI "layer.v1.tar+zstd";
	*ret = (struct descriptor){.size = content->size};
	(void)snprintf(ret->digest, sizeof(ret->digest), "%s", content->digest);
	(void)snprintf(ret->media_type, sizeof(ret->media_type), "%s", type);
	return 0;
}

static json_t *descriptor_json(const char *type, const char *digest, uint64_t size)
{
	return json_pack(
		"{s:s, s:s, s:I}", "mediaType", type, "digest", digest, "size", (json_int_t)size);
}

static int put_manifest(struct buf *b, const char *config_digest, size_t config_len,
	const struct descriptor *layers, size_t n, struct err *e)
{
	cleanup_json *o = json_pack("{s:i, s:s, s:o, s:[]}", "schemaVersion", 2, "mediaType",
		OCI "manifest.v1+json", "config",
		descriptor_json(OCI "config.v1+json", config_digest, config_len), "layers");

	for (size_t i = 0; i < n && o; i++)
		if (json_array_append_new(json_object_get(o, "layers"),
			    descriptor_json(
				    layers[i].media_type, layers[i].digest, layers[i].size)) < 0)
			return err_errno(e, ENOMEM, "making a manifest");
	if (o)
		json_put_canonical(b, o);
	return !o || buf_failed(b) ? err_errno(e, ENOMEM, "making a manifest") : 0;
}

static void digest_of(const struct buf *b, char ret[static REFERENCE_DIGEST_SIZE])
{
	char hex[SHA256_HEX_SIZE];

	sha256_hex_of(b->data, b->len, hex);
	(void)snprintf(ret, REFERENCE_DIGEST_SIZE, "sha256:%s", hex);
}

int synthesis_image(struct buf *config_bytes, struct image_config *config,
	const struct descriptor *layers, size_t n, struct image *ret, struct err *e)
{
	char config_digest[REFERENCE_DIGEST_SIZE];
	cleanup_image struct image image = {0};
	cleanup_buf struct buf b = {0};
	int r;

	buf_init(&b, MANIFEST_BYTES_MAX);
	digest_of(config_bytes, config_digest);
	if ((r = put_manifest(&b, config_digest, config_bytes->len, layers, n, e)) < 0 ||
		(r = manifest_parse(b.data, b.len, NULL, &image.manifest, e)) < 0)
		return r;
	digest_of(&b, image.digest);
	image_add_document(&image, config_digest, config_bytes);
	image_add_document(&image, image.digest, &b);
	image.config = *config;
	*config = (struct image_config){0};
	*ret = image;
	image = (struct image){0};
	return 0;
}
