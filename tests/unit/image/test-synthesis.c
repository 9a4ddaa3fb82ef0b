/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "image/archive/synthesis.h"

#include "tap.h"

#include <stdlib.h>
#include <sys/mman.h>

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde"
#define CONFIG                                                                          \
	"{\"os\":\"linux\",\"architecture\":\"amd64\",\"rootfs\":{\"type\":\"layers\"," \
	"\"diff_ids\":[\"sha256:" HEX "f\"]}}"

static struct descriptor layer_of(const char *bytes, size_t len)
{
	struct copied content = {.digest = "sha256:" HEX "0", .size = len};
	struct descriptor d = {0};
	struct err e = {0};
	cleanup_fd int fd = memfd_create("layer", MFD_CLOEXEC);

	if (fd < 0 || fd_write_all(fd, bytes, len) < 0 || synthesis_layer(fd, &content, &d, &e) < 0)
		abort();
	return d;
}

static void test_layer(void)
{
	EQ_STR(layer_of("\x1f\x8b\x08\x00", 4).media_type,
		"application/vnd.oci.image.layer.v1.tar+gzip", "gzip");
	EQ_STR(layer_of("\x28\xb5\x2f\xfd", 4).media_type,
		"application/vnd.oci.image.layer.v1.tar+zstd", "zstd");
	EQ_STR(layer_of("name", 4).media_type, "application/vnd.oci.image.layer.v1.tar", "plain");
	EQ_STR(layer_of("", 0).media_type, "application/vnd.oci.image.layer.v1.tar", "nothing");
	EQ_INT(layer_of("name", 4).size, 4, "size");
}

static void make(const struct descriptor *layers, size_t n, struct image *ret)
{
	cleanup_image_config struct image_config config = {0};
	cleanup_buf struct buf b = {0};
	struct err e = {0};

	buf_init(&b, CONFIG_BYTES_MAX);
	buf_put(&b, CONFIG, strlen(CONFIG));
	if (image_config_parse(b.data, b.len, 1, &config, &e) < 0 ||
		synthesis_image(&b, &config, layers, n, ret, &e) < 0)
		abort();
	OK(!b.data && !config.reduced, "configuration and bytes were taken");
}

static void test_image(void)
{
	struct descriptor layer = layer_of("name", 4);
	cleanup_image struct image one = {0};
	cleanup_image struct image two = {0};
	char hex[SHA256_HEX_SIZE];

	make(&layer, 1, &one);
	make(&layer, 1, &two);
	EQ_STR(one.digest, two.digest, "the same digest for the same image");
	EQ_INT(one.documents_len, 2, "documents");
	EQ_STR(buf_cstr(&one.documents[0].bytes), CONFIG, "the configuration as it came");
	EQ_STR(one.documents[1].digest, one.digest, "the manifest");
	sha256_hex_of(one.documents[1].bytes.data, one.documents[1].bytes.len, hex);
	EQ_STR(one.digest + strlen("sha256:"), hex, "has its bytes' digest");
	EQ_STR(one.manifest.config.digest, one.documents[0].digest, "and names the configuration");
	EQ_STR(one.manifest.descriptors[0].digest, layer.digest, "and the layer");
	layer.size++;
	cleanup_image struct image other = {0};
	make(&layer, 1, &other);
	OK(strcmp(other.digest, one.digest) != 0, "another digest for another image");
}

int main(void)
{
	test_layer();
	test_image();
	return tap_done();
}
