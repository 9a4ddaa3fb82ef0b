/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where kosa8's own parts are: beside the running program in a build folder, else in
 * ../libexec/kosa8 (programs) and ../lib/kosa8 (guest assets). KOSA8_LIBEXEC and KOSA8_ASSETS
 * override.
 */
#ifndef KOSA8_BASE_INSTALL_H
#define KOSA8_BASE_INSTALL_H

#include "err.h"

#include <stddef.h>

/* The path of a helper program (kosa8-supervisor, kosa8-image, kosa8-unpack). ERR_UNAVAILABLE. */
int install_program(const char *name, char *ret, size_t size, struct err *e) must_check;
/* The folder that holds vmlinuz and initramfs. Not checked for being there. */
int install_assets_dir(char *ret, size_t size, struct err *e) must_check;

#endif
