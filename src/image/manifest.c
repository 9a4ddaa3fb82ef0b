/* SPDX-License-Identifier: Apache-2.0 */
#include "manifest.h"

#include "../base/buf.h"
#include "../base/json.h"
#include "../base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define OCI "application/vnd.oci.image."
#define DOCKER "application/vnd.docker.distribution.manifest."

static bool is_word(const char *s)
{
	return *s && s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				 "._-")] == '\0';
}

int platform_parse(const char *text, struct platform *ret, struct err *e)
{
	struct platform p = {0};
	char shown[64], rest[2];

	int n = sscanf(text, "%31[^/]/%31[^/]/%31[^/]%1s", p.os, p.arch, p.variant, rest);
	if (n < 2 || n > 3 || !is_word(p.os) || !is_word(p.arch) ||
		(n == 3 && !is_word(p.variant)) || text[strlen(text) - 1] == '/') {
		text_escape(text, shown, sizeof(shown));
		(void)err_set(e, ERR_INVALID, 0, "\"%s\" is not a platform", shown);
		return err_hint(e, "OS/ARCHITECTURE, such as linux/amd64");
	}
	*ret = p;
	return 0;
}

void platform_format(const struct platform *p, char ret[static PLATFORM_TEXT_SIZE])
{
	(void)snprintf(ret, PLATFORM_TEXT_SIZE, "%s/%s%s%s", p->os, p->arch,
		p->variant[0] ? "/" : "", p->variant);
}

void manifest_release(struct manifest *m)
{
	free(m->descriptors);
	m->descriptors = NULL;
	m->len = 0;
}

bool manifest_is_index_type(const char *type)
{
	return strcmp(type, OCI "index.v1+json") == 0 || strcmp(type, DOCKER "list.v2+json") == 0;
}

static bool is_image_type(const char *type)
{
	return strcmp(type, OCI "manifest.v1+json") == 0 || strcmp(type, DOCKER "v2+json") == 0;
}

static bool is_config_type(const char *type)
{
	return strcmp(type, OCI "config.v1+json") == 0 ||
	       strcmp(type, "application/vnd.docker.container.image.v1+json") == 0;
}

static int not_an_image(struct err *e, const char *type)
{
	char shown[MANIFEST_TYPE_SIZE];

	text_escape(type, shown, sizeof(shown));
	(void)err_set(e, ERR_UNSUPPORTED, 0,
		"it is not a container image but an artifact of type %s", shown);
	return err_code(e);
}

static int check_layer_type(const char *type, struct err *e)
{
	static const char *const known[] = {OCI "layer.v1.tar", OCI "layer.v1.tar+gzip",
		OCI "layer.v1.tar+zstd", "application/vnd.docker.image.rootfs.diff.tar",
		"application/vnd.docker.image.rootfs.diff.tar.gzip",
		"application/vnd.docker.image.rootfs.diff.tar.zstd"};
	char shown[MANIFEST_TYPE_SIZE];

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(type, known[i]) == 0)
			return 0;
	text_escape(type, shown, sizeof(shown));
	if (strstr(type, "nondistributable") || strstr(type, "foreign"))
		return err_set(e, ERR_UNSUPPORTED, 0,
			"a layer is not distributed by registries (type %s)", shown);
	if (strstr(type, "encrypted"))
		return err_set(e, ERR_UNSUPPORTED, 0, "a layer is encrypted (type %s)", shown);
	return err_set(e, ERR_UNSUPPORTED, 0, "a layer has the unknown type %s", shown);
}

static int copy_member(const json_t *o, const char *key, char *ret, size_t size, struct err *e)
{
	const char *s;
	int r = json_get_str_or(o, key, size - 1, "", &s, e);

	if (r == 0)
		(void)snprintf(ret, size, "%s", s);
	return r;
}

static int parse_descriptor(const json_t *o, struct descriptor *ret, struct err *e)
{
	struct descriptor d = {0};
	const char *digest;
	int r;

	if (!json_is_object(o))
		return err_set(e, ERR_PROTOCOL, 0, "a descriptor is not an object");
	if ((r = json_get_str(o, "digest", 256, &digest, e)) < 0 ||
		(r = json_get_u64(o, "size", LAYER_BYTES_MAX, &d.size, e)) < 0 ||
		(r = copy_member(o, "mediaType", d.media_type, sizeof(d.media_type), e)) < 0)
		return r;
	if (!reference_is_digest(digest)) {
		char shown[100];
		text_escape(digest, shown, sizeof(shown));
		return err_set(e, ERR_UNSUPPORTED, 0, "\"%s\" is not a SHA-256 digest", shown);
	}
	(void)snprintf(d.digest, sizeof(d.digest), "%s", digest);
	*ret = d;
	return 0;
}

/* What only an index's entry has. Unknown or odd values make it no match, not an error. */
static void parse_entry_extras(const json_t *o, struct descriptor *d)
{
	const json_t *platform = json_object_get(o, "platform");
	const json_t *notes = json_object_get(o, "annotations");
	struct err ignored;

	if (json_is_object(platform) &&
		(copy_member(platform, "os", d->platform.os, sizeof(d->platform.os), &ignored) <
				0 ||
			copy_member(platform, "architecture", d->platform.arch,
				sizeof(d->platform.arch), &ignored) < 0 ||
			copy_member(platform, "variant", d->platform.variant,
				sizeof(d->platform.variant), &ignored) < 0))
		d->attached = true;
	if (strcmp(d->platform.os, "unknown") == 0 || strcmp(d->platform.arch, "unknown") == 0 ||
		json_object_get(notes, "vnd.docker.reference.type") ||
		json_object_get(o, "artifactType") ||
		!(d->media_type[0] == '\0' || is_image_type(d->media_type) ||
			manifest_is_index_type(d->media_type)))
		d->attached = true;
	if (!json_is_object(notes))
		return;
	if (copy_member(notes, "io.containerd.image.name", d->ref, sizeof(d->ref), &ignored) < 0 ||
		d->ref[0] == '\0')
		(void)copy_member(notes, "org.opencontainers.image.ref.name", d->ref,
			sizeof(d->ref), &ignored);
}

static int parse_descriptors(const json_t *array, bool of_index, struct manifest *m, struct err *e)
{
	size_t n = json_array_size(array);
	int r;

	m->descriptors = calloc(n ? n : 1, sizeof(*m->descriptors));
	if (!m->descriptors)
		return err_errno(e, ENOMEM, "reading a manifest");
	m->len = n;
	for (size_t i = 0; i < n; i++) {
		const json_t *o = json_array_get(array, i);
		struct descriptor *d = &m->descriptors[i];
		if ((r = parse_descriptor(o, d, e)) < 0)
			return err_wrap(e, "%s %zu", of_index ? "entry" : "layer", i + 1);
		if (of_index)
			parse_entry_extras(o, d);
		else if ((r = check_layer_type(d->media_type, e)) < 0)
			return r;
	}
	return 0;
}

static int parse_image(const json_t *o, struct manifest *m, struct err *e)
{
	char artifact[MANIFEST_TYPE_SIZE];
	json_t *config, *layers;
	int r;

	if ((r = json_get_object(o, "config", &config, e)) < 0 ||
		(r = parse_descriptor(config, &m->config, e)) < 0)
		return err_wrap(e, "config");
	if (!is_config_type(m->config.media_type)) {
		if (copy_member(o, "artifactType", artifact, sizeof(artifact), e) < 0 || !*artifact)
			return not_an_image(e, m->config.media_type);
		return not_an_image(e, artifact);
	}
	if (json_array_size(json_object_get(o, "layers")) > MANIFEST_LAYERS_MAX)
		return err_set(
			e, ERR_LIMIT, 0, "the image has more than %d layers", MANIFEST_LAYERS_MAX);
	/* null: what Go's tools write for none. */
	r = json_get_array_or_null(o, "layers", MANIFEST_LAYERS_MAX, &layers, e);
	return r < 0 ? r : parse_descriptors(layers, false, m, e);
}

/* Decides by the document's mediaType, then the transport's, then the shape. A document that has
 * both shapes could be one thing here and another elsewhere: refused (CVE-2021-41190). */
static int parse_kind(
	const json_t *o, const char *content_type, enum manifest_kind *ret, struct err *e)
{
	bool index = json_object_get(o, "manifests"), image = json_object_get(o, "layers");
	char type[MANIFEST_TYPE_SIZE];
	uint64_t schema;
	int r;

	if ((r = copy_member(o, "mediaType", type, sizeof(type), e)) < 0 ||
		(r = json_get_u64_or(o, "schemaVersion", 100, 2, &schema, e)) < 0)
		return r;
	if (type[0] == '\0' && content_type &&
		(manifest_is_index_type(content_type) || is_image_type(content_type) ||
			text_starts_with(content_type, DOCKER "v1")))
		(void)snprintf(type, sizeof(type), "%s", content_type);
	if (schema == 1 || text_starts_with(type, DOCKER "v1")) {
		(void)err_set(e, ERR_UNSUPPORTED, 0,
			"it is in Docker's old image format (manifest schema 1)");
		return err_hint(e, "push the image again with a docker of this decade");
	}
	if (schema != 2)
		return err_set(e, ERR_UNSUPPORTED, 0, "its manifest has the unknown version %llu",
			(unsigned long long)schema);
	if (index && image)
		return err_set(e, ERR_PROTOCOL, 0, "its manifest is an image and an index at once");
	if (type[0] && !manifest_is_index_type(type) && !is_image_type(type))
		return not_an_image(e, type);
	if ((!index && !image) || (type[0] && manifest_is_index_type(type) != index))
		return err_set(e, ERR_PROTOCOL, 0, "its manifest is neither an image nor an index");
	*ret = index ? MANIFEST_INDEX : MANIFEST_IMAGE;
	return 0;
}

int manifest_parse(
	const void *data, size_t len, const char *content_type, struct manifest *ret, struct err *e)
{
	cleanup_json *o = NULL;
	cleanup_manifest struct manifest m = {0};
	json_t *entries;
	int r;

	if ((r = json_parse_object(data, len, "its manifest", &o, e)) < 0 ||
		(r = parse_kind(o, content_type, &m.kind, e)) < 0)
		return r;
	if (m.kind == MANIFEST_IMAGE)
		r = parse_image(o, &m, e);
	else if ((r = json_get_array(o, "manifests", MANIFEST_ENTRIES_MAX, &entries, e)) == 0)
		r = parse_descriptors(entries, true, &m, e);
	if (r < 0)
		return r;
	*ret = m;
	m = (struct manifest){0};
	return 0;
}

/* How well an entry fits, 0 best; -1 not at all. */
static int rank(const struct descriptor *d, const struct platform *p)
{
	if (d->attached)
		return -1;
	if (d->platform.os[0] == '\0')
		return manifest_is_index_type(d->media_type) ? 3 : 4;
	if (strcmp(d->platform.os, p->os) != 0 || strcmp(d->platform.arch, p->arch) != 0)
		return -1;
	if (strcmp(d->platform.variant, p->variant) == 0)
		return 0;
	if (p->variant[0])
		return d->platform.variant[0] ? -1 : 1;
	/* amd64/v2 and above need a newer CPU than was asked for: after the plain ones. */
	return strcmp(d->platform.variant, "v1") == 0 ? 1 : 2;
}

const struct descriptor *manifest_choose(
	const struct manifest *index, const struct platform *p, size_t skip)
{
	for (int want = 0; want <= 4; want++)
		for (size_t i = 0; i < index->len; i++)
			if (rank(&index->descriptors[i], p) == want && skip-- == 0)
				return &index->descriptors[i];
	return NULL;
}

int manifest_wrong_platform(
	const struct manifest *index, const struct platform *wanted, struct err *e)
{
	cleanup_buf struct buf list = {0};
	char text[PLATFORM_TEXT_SIZE], asked[PLATFORM_TEXT_SIZE], shown[PLATFORM_TEXT_SIZE * 2];
	size_t listed = 0;

	buf_init(&list, ERR_WHAT_MAX - 100);
	platform_format(wanted, asked);
	for (size_t i = 0; i < index->len; i++) {
		const struct descriptor *d = &index->descriptors[i];
		if (d->attached || d->platform.os[0] == '\0')
			continue;
		platform_format(&d->platform, text);
		text_escape(text, shown, sizeof(shown));
		if (list.len + strlen(shown) + 2 > list.max)
			break;
		buf_putf(&list, "%s%s", listed++ ? ", " : "", shown);
	}
	if (listed == 0)
		return err_set(e, ERR_INCOMPATIBLE, 0, "it holds no image for %s", asked);
	return err_set(e, ERR_INCOMPATIBLE, 0, "the image is for %s only, not for %s",
		buf_cstr(&list), asked);
}
