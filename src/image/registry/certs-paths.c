/* SPDX-License-Identifier: Apache-2.0 */
#include "certs-paths.h"

#include "certs.h"

#include "../../base/strv.h"
#include "../../base/text.h"

#include <curl/curl.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* To another folder. Those to /usr are many (Debian's /etc/ssl/certs), and it can be read anyway.
 */
static bool leads_away(int dirfd, const char *name)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(dirfd, name, target, sizeof(target) - 1);

	if (n < 0)
		return false;
	target[n] = '\0';
	return strchr(target, '/') && !text_starts_with(target, "/usr/");
}

/* folders: how deep folders in it are looked into, links to folders included. */
static int add_links(char ***ret, const char *path, int folders, size_t *left)
{
	DIR *d = opendir(path);
	struct dirent *de;
	int r = 0;

	while (d && r == 0 && *left > 0 && (de = readdir(d))) {
		cleanup_str char *inner = NULL;
		if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0)
			continue;
		--*left;
		bool maybe_link = de->d_type == DT_LNK || de->d_type == DT_UNKNOWN;
		bool link = maybe_link && leads_away(dirfd(d), de->d_name);
		bool folder = folders > 0 && de->d_type != DT_REG;
		if (!link && !folder)
			continue;
		if (asprintf(&inner, "%s/%s", path, de->d_name) < 0) {
			inner = NULL;
			r = -ENOMEM;
			break;
		}
		if (link)
			r = strv_add(ret, inner);
		if (r == 0 && folder)
			r = add_links(ret, inner, folders - 1, left);
	}
	if (d)
		(void)closedir(d);
	return r;
}

static int add_folder(char ***ret, const char *path, int folders, size_t *left)
{
	int r = strv_add(ret, path);

	return r < 0 ? r : add_links(ret, path, folders, left);
}

static int add_bundle(char ***ret, const char *own)
{
	const char *file = getenv("SSL_CERT_FILE");
	char real[PATH_MAX];

	if (file && *file)
		return strv_add(ret, file);
	if (!own || !realpath(own, real))
		return 0;
	/* With its folder: a new bundle takes the old one's name, also during a pull. */
	*strrchr(real, '/') = '\0';
	int r = strv_add(ret, own);
	return r < 0 || !*real ? r : strv_add(ret, real);
}

/* OpenSSL takes several, with colons between them. */
static int add_folders(char ***ret, const char *list, size_t *left)
{
	int r = 0;

	for (const char *p = list; r == 0 && p && *p;) {
		size_t n = strcspn(p, ":");
		cleanup_str char *path = strndup(p, n);
		if (!path)
			return -ENOMEM;
		if (n > 0)
			r = add_folder(ret, path, 0, left);
		p += n + (p[n] == ':');
	}
	return r;
}

int certs_paths(char ***ret)
{
	const curl_version_info_data *curl = curl_version_info(CURLVERSION_NOW);
	const char *dir = getenv("SSL_CERT_DIR");
	cleanup_strv char **places = strv_new();
	size_t left = CERTS_PATHS_ENTRIES_MAX;
	int r;

	if (!places || certs_places(&places) < 0)
		return -ENOMEM;
	if ((r = add_bundle(ret, curl->cainfo)) < 0 ||
		(r = add_folders(ret, dir && *dir ? dir : curl->capath, &left)) < 0)
		return r;
	for (char **p = places; r == 0 && *p; p++)
		r = add_folder(ret, *p, 1, &left);
	return r;
}
