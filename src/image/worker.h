/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kosa8-image: gets images and turns each into one file system image. A short-lived child of the
 * command line (later of the API daemon), so that libcurl, TLS and the registries' answers stay out
 * of the process that holds the catalog. It knows nothing of the catalog: what it returns is what
 * the caller records.
 *
 *   kosa8-image parse REF
 *   kosa8-image pull --images-dir DIR [--hold] [--platform OS/ARCH] [--plain-http] REF
 *   kosa8-image load --images-dir DIR [--hold] [--platform OS/ARCH] FILE|-
 *   kosa8-image import --images-dir DIR [--hold] [--config JSON] FILE|-
 *   kosa8-image save --images-dir DIR DIGEST[=REF]...
 *   kosa8-image show --images-dir DIR DIGEST
 *   kosa8-image login --user USER [--plain-http] REGISTRY
 *   kosa8-image logout REGISTRY
 *
 * FILE of load is a tar (plain, gzip, zstd) as `docker save` or an OCI layout makes it, or a folder
 * with the same in it. FILE of import is a root file system's tar; JSON is the "config" member of
 * an image configuration ({"Cmd": ["sh"], ...}). --platform is linux/amd64 by default. save
 * writes an oci-archive of these images to descriptor 3; a DIGEST (sha256:HEX, of a manifest) may
 * stand there several times with different names.
 *
 * --hold: the result's last line does not end the worker: it waits until its stdout is closed by
 * the reader, and keeps its claim (proto/images-dir.h) until then. The reader puts the images into
 * the catalog first.
 *
 * login reads the password from stdin up to its end (no line break follows it), asks the registry
 * whether it is right, and only then stores it (login.h). REGISTRY as parse prints it: docker.io.
 *
 * stdin is else read only for "-". stderr carries logs, never a result. stdout carries JSON lines
 * of at most WORKER_LINE_MAX bytes:
 *
 *   {"event":"layer","digest":"sha256:..","size":N,"done":N}   bytes of a layer that are here; at
 *                       most ten a second for each layer, and one when it is complete. Before the
 *                       first is fetched, one for each with "state":"here" or "waiting" more
 *   {"event":"convert","layer":I,"bytes":N}   bytes of layer I (0 is the lowest) that were unpacked
 *   {"event":"notice","text":".."}            for people
 *   {"event":"waiting","text":".."}           the same, unless they want no progress
 *
 * and as the last line, for
 *
 *   parse    {"ok":true,"canonical":..,"registry":..,"repository":..,"tag":..,"digest":..}
 *            tag or digest is null when there is none
 *   pull, import
 *            {"ok":true,"digest":"sha256:<hex of the manifest>","ref":"<canonical>"|null,
 *             "config":{..},"size":N,"cached":B,"blobs":[{"digest":..,"size":N},..]}
 *            config: the image configuration, reduced to what is checked (config.h); size: of the
 *            file system image; cached: it was there already; blobs: what is kept of it, each once:
 *            manifest, configuration, layers
 *   load     {"ok":true,"images":[{..as above..}]}, an image with several names once for each
 *   save     {"ok":true,"size":N}, N: bytes written
 *   show     {"ok":true,"manifest":{..},"config":{..}}, both as they were published
 *   login    {"ok":true,"registry":..,"user":..,"helper":NAME|null,"file":PATH}
 *            helper: who keeps the secret; null: it is in the file, in plain text
 *   logout   {"ok":true,"registry":..,"removed":B,"remaining":PATH|null}
 *            remaining: docker's file, which still leads to credentials for it
 *   any      {"ok":false,"error":{"kind":..,"errno":N,"what":..,"hint":..}}   (proto/client.h)
 *
 * Exit code 0 when ok, else 1. The caller starts it with base/spawn's die_with_parent.
 *
 * DIR is $KOSA8_HOME/images, made by the caller; proto/images-dir.h says what is in it. After a
 * failure only such blobs and partial downloads stay that a next try may use (no connection, no
 * answer, interrupted); then the claim stays too.
 *
 * Environment: KOSA8_AUTH_FILE (an absolute path: auth.json, which login writes and pull reads; the
 * command line sets it to $KOSA8_HOME/auth.json), KOSA8_REGISTRY_MIRROR (REGISTRY=URL,...: ask
 * there instead, such as docker.io=https://mirror.example.com; several for one registry are tried
 * in order, and the registry itself is asked only if it is named as one of them; login always goes
 * to the registry), KOSA8_CERTS_DIR (certs.h), KOSA8_CREDENTIAL_HELPER_MS (60000),
 * KOSA8_PULL_RETRY_MS (the first back-off, 1000), KOSA8_PULL_STALL_MS (30000: a server that sends
 * less than 1000 bytes a second over that time has stalled), KOSA8_PULL_CONNECT_MS (15000),
 * KOSA8_PULL_WAIT_MS (60000: a worker that brings less than 1 MiB in that time is not waited for),
 * DOCKER_CONFIG, HOME, PATH (for credential helpers), SSL_CERT_FILE,
 * SSL_CERT_DIR, and the proxy variables (http.h).
 */
#ifndef KOSA8_IMAGE_WORKER_H
#define KOSA8_IMAGE_WORKER_H

#define WORKER_LINE_MAX (8u * 1024 * 1024)

#endif
