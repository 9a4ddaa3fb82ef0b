# SPDX-License-Identifier: Apache-2.0
# The two commands to know: `make demo` shows kosa8 at work, `make check` tests it. Each installs
# what is missing (tools/install-deps). Meson does the building; this file only calls it.
BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 30
NIGHTLY_SECONDS ?= 600
FUZZ_BUILD ?= build-fuzz
MAKE_GUEST = tools/make-guest $(BUILD)/assets $(BUILD)/kosa8-agent
SOURCES = $(shell find src tests -name '*.[ch]')

all: deps-build programs assets

deps-build:
	@tools/install-deps --check build

deps-demo:
	@tools/install-deps build run demo

deps-check:
	@tools/install-deps build run demo check

$(BUILD)/build.ninja:
	meson setup $(BUILD) --prefix=$(PREFIX)

programs: $(BUILD)/build.ninja
	ninja -C $(BUILD) -j $(JOBS)

# The guest's kernel and initramfs, made anew when the agent or the recipe has changed. Package lists
# that are missing or too old are fetched again.
assets: programs
	@[ $(BUILD)/assets/initramfs -nt $(BUILD)/kosa8-agent ] && \
		[ $(BUILD)/assets/initramfs -nt tools/make-guest ] || \
		$(MAKE_GUEST) || { tools/install-deps --update && $(MAKE_GUEST); }

demo: deps-demo
	@$(MAKE) --no-print-directory all
	@tools/demo $(BUILD)

check: deps-check
	@$(MAKE) --no-print-directory all
	@failed=0; \
	meson test -C $(BUILD) --num-processes $(JOBS) --print-errorlogs || failed=1; \
	tests/e2e/run --build $(BUILD) || failed=1; \
	exit $$failed

# With the real crewai package, in a virtual environment that is kept between runs.
check-crewai: deps-check
	@$(MAKE) --no-print-directory all
	tests/e2e/run --build $(BUILD) crewai

bench: deps-demo
	@$(MAKE) --no-print-directory all
	bench/run --build $(BUILD)

fuzz: deps-check
	[ -e $(FUZZ_BUILD)/build.ninja ] || CC=clang meson setup $(FUZZ_BUILD) -Dfuzz=true \
		-Db_sanitize=address,undefined -Db_lundef=false
	ninja -C $(FUZZ_BUILD) -j $(JOBS)
	tools/fuzz $(FUZZ_BUILD) $(FUZZ_SECONDS)

# Every fuzz target for long enough to find something, one after the other: for a timer at night.
nightly:
	@$(MAKE) --no-print-directory fuzz FUZZ_SECONDS=$(NIGHTLY_SECONDS)

format-check:
	clang-format-14 --dry-run --Werror $(SOURCES)

format:
	clang-format-14 -i $(SOURCES)

install: all
	meson configure $(BUILD) -Dprefix=$(PREFIX)
	ninja -C $(BUILD) -j $(JOBS)
	DESTDIR="$(DESTDIR)" meson install -C $(BUILD) --no-rebuild

clean:
	rm -rf $(BUILD) $(FUZZ_BUILD)

.PHONY: all deps-build deps-demo deps-check programs assets demo check check-crewai bench fuzz \
	nightly format-check format install clean
