/* SPDX-License-Identifier: Apache-2.0 */
#include "image/manifest.h"

#include "tap.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde"
#define D(n) "\"digest\":\"sha256:" HEX #n "\",\"size\":1" #n
#define OCI "application/vnd.oci.image."
#define CONFIG "\"config\":{\"mediaType\":\"" OCI "config.v1+json\"," D(0) "}"
#define LAYER(type) "\"layers\":[{\"mediaType\":\"" type "\"," D(1) "}]"
#define GZIP OCI "layer.v1.tar+gzip"

static enum err_kind kind_of(const char *text, const char *content_type)
{
	cleanup_manifest struct manifest m = {0};
	struct err e = {0};

	if (manifest_parse(text, strlen(text), content_type, &m, &e) == 0)
		return ERR_NONE;
	printf("# %s\n", e.what);
	return e.kind;
}

static void test_image(void)
{
	const char *text = "{\"schemaVersion\":2," CONFIG "," LAYER(GZIP) "}";
	cleanup_manifest struct manifest m = {0};
	struct err e = {0};

	OK(manifest_parse(text, strlen(text), NULL, &m, &e) == 0, "an image without mediaType");
	EQ_INT(m.kind, MANIFEST_IMAGE, "its kind");
	EQ_INT(m.len, 1, "its layers");
	EQ_STR(m.descriptors[0].digest, "sha256:" HEX "1", "the layer's digest");
	EQ_INT(m.descriptors[0].size, 11, "the layer's size");
	EQ_INT(m.config.size, 10, "the configuration's size");
	EQ_INT(kind_of(text, OCI "index.v1+json"), ERR_PROTOCOL, "sent as an index it is refused");
	EQ_INT(kind_of("{\"schemaVersion\":2," CONFIG ",\"layers\":[]}", NULL), ERR_NONE,
		"no layers");
	EQ_INT(kind_of("{\"schemaVersion\":2," CONFIG ",\"layers\":null}", NULL), ERR_NONE,
		"no layers, as Go may write it");
}

static void test_refused(void)
{
#define WITH(rest) "{\"schemaVersion\":2," rest "}"
	EQ_INT(kind_of(WITH(CONFIG "," LAYER(GZIP) ",\"manifests\":[]"), NULL), ERR_PROTOCOL,
		"layers and manifests");
	EQ_INT(kind_of("{\"schemaVersion\":1,\"fsLayers\":[]}", NULL), ERR_UNSUPPORTED, "schema 1");
	EQ_INT(kind_of("{\"schemaVersion\":3}", NULL), ERR_UNSUPPORTED, "schema 3");
	EQ_INT(kind_of(WITH(CONFIG), NULL), ERR_PROTOCOL, "nothing about layers");
	EQ_INT(kind_of(WITH(CONFIG ",\"layers\":5"), NULL), ERR_PROTOCOL, "layers are a number");
	EQ_INT(kind_of(WITH(CONFIG ",\"layers\":[5]"), NULL), ERR_PROTOCOL, "a layer is a number");
	EQ_INT(kind_of(WITH(LAYER(GZIP)), NULL), ERR_PROTOCOL, "no configuration");
	EQ_INT(kind_of(WITH("\"config\":{\"mediaType\":\"application/x\"," D(0) "}," LAYER(GZIP)),
		       NULL),
		ERR_UNSUPPORTED, "an artifact");
	EQ_INT(kind_of(WITH(CONFIG "," LAYER(GZIP "+encrypted")), NULL), ERR_UNSUPPORTED,
		"an encrypted layer");
	EQ_INT(kind_of(WITH("\"mediaType\":\"text/plain\"," CONFIG "," LAYER(GZIP)), NULL),
		ERR_UNSUPPORTED, "an unknown type");
	EQ_INT(kind_of(WITH("\"config\":{\"mediaType\":\"" OCI "config.v1+json\",\"digest\":"
			    "\"sha512:00\",\"size\":1}," LAYER(GZIP)),
		       NULL),
		ERR_UNSUPPORTED, "another digest algorithm");
	EQ_INT(kind_of(WITH("\"config\":{\"mediaType\":\"" OCI "config.v1+json\",\"digest\":"
			    "\"sha256:" HEX "0\",\"size\":-1}," LAYER(GZIP)),
		       NULL),
		ERR_PROTOCOL, "a negative size");
	EQ_INT(kind_of(WITH("\"a\":1"), NULL), ERR_PROTOCOL, "nothing that is known");
	EQ_INT(kind_of("[]", NULL), ERR_PROTOCOL, "an array");
#undef WITH
}

#define ENTRY(n, type, rest) "{\"mediaType\":\"" OCI type ".v1+json\"," D(n) rest "}"
#define ON(os, arch, more) ",\"platform\":{\"os\":\"" os "\",\"architecture\":\"" arch "\"" more "}"

static void test_choice(void)
{
	const char *text = "{\"schemaVersion\":2,\"manifests\":[" ENTRY(
		0, "manifest", ON("unknown", "unknown", "")) "," ENTRY(1, "manifest",
		"") "," ENTRY(2, "index", "") "," ENTRY(3, "manifest",
		ON("linux", "amd64", ",\"variant\":\"v3\"")) "," ENTRY(4, "manifest",
		ON("linux", "arm64", ",\"variant\":\"v8\"")) "," ENTRY(5, "manifest",
		ON("linux", "amd64", "")) "," ENTRY(6, "manifest",
		ON("linux", "amd64", "") ",\"artifactType\":\"application/x\"") "]}";
	cleanup_manifest struct manifest m = {0};
	struct platform amd64 = {"linux", "amd64", ""}, arm64 = {"linux", "arm64", ""};
	struct platform other = {"linux", "riscv64", ""};
	struct err e = {0};

	OK(manifest_parse(text, strlen(text), NULL, &m, &e) == 0, "an index");
	EQ_INT(m.kind, MANIFEST_INDEX, "its kind");
	EQ_INT(manifest_choose(&m, &amd64, 0)->size, 15, "the plain amd64");
	EQ_INT(manifest_choose(&m, &amd64, 1)->size, 13, "then a variant of it");
	EQ_INT(manifest_choose(&m, &amd64, 2)->size, 12, "then the nested index");
	EQ_INT(manifest_choose(&m, &amd64, 3)->size, 11, "then what does not say");
	OK(!manifest_choose(&m, &amd64, 4), "and no attestation or artifact");
	EQ_INT(manifest_choose(&m, &arm64, 0)->size, 14, "arm64 is v8");
	EQ_INT(manifest_choose(&m, &other, 0)->size, 12,
		"another platform may be in the nested index");
	(void)manifest_wrong_platform(&m, &other, &e);
	EQ_INT(e.kind, ERR_INCOMPATIBLE, "the wrong platform");
	EQ_STR(e.what,
		"the image is for linux/amd64/v3, linux/arm64/v8, linux/amd64 only, not for "
		"linux/riscv64",
		"is told");
}

static void test_platform(void)
{
	static const char *const bad[] = {"", "/", "linux", "linux/", "/amd64", "a/b/c/d", "a/b/",
		"a b/c", "linux/amd64/v1/"};
	struct platform p;
	struct err e = {0};
	char text[PLATFORM_TEXT_SIZE];

	OK(platform_parse("linux/arm/v7", &p, &e) == 0, "a platform");
	platform_format(&p, text);
	EQ_STR(text, "linux/arm/v7", "and back");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		OK(platform_parse(bad[i], &p, &e) < 0, bad[i]);
}

int main(void)
{
	test_image();
	test_refused();
	test_choice();
	test_platform();
	return tap_done();
}
