# Short names for the scripts; the scripts need no make.
PREFIX ?= /usr/local
SOURCES = $(shell find src apps tests bench -name '*.cc' -o -name '*.h')

.PHONY: demo test test-full bench format lint install

demo:
	scripts/demo

test:
	scripts/test

test-full:
	scripts/test --full

bench:
	scripts/setup --bench
	cmake --preset release -DFLARE_BENCH=ON
	cmake --build --preset release
	build/release/bench/bench_machine
	build/release/bench/bench_kernel
	build/release/bin/ignition bench models/nano --contexts 512,2048

format:
	clang-format-19 -i $(SOURCES)

lint:
	tools/check_layers
	clang-format-19 --dry-run -Werror $(SOURCES)
	cmake --preset release
	clang-tidy-19 --quiet --extra-arg=-Wno-unknown-warning-option -p build/release $(shell find src apps -name '*.cc' ! -name '*_test.cc')

install:
	cmake --preset release
	cmake --build --preset release --target flare ignition
	cmake --install build/release --prefix $(PREFIX)
