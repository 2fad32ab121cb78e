# Thin front of the CMake build: `make help` lists what it does.
PREFIX ?= /usr/local
RELEASE := build/release

.PHONY: all demo pictures test test-all bench lint format install clean help abi abi-dump setup static

all: ## build the library, the program and the examples: build/release/fovea
	@tools/build release product

static: ## one static program for any x86-64 Linux, with musl: build/static/fovea
	@tools/build static fovea
	@ls -l build/static/fovea | awk '{ printf "build/static/fovea: %.2f MB\n", $$5 / 1e6 }'

demo: setup ## train a small attention model and show where it looks
	@tools/build release fovea
	@$(RELEASE)/fovea demo

test: ## build and run the tests (under 10 minutes on two cores)
	@tools/setup --tests
	@tools/test

test-all: ## sanitizers, scans, lint, install and fuzz corpus (as .ci/run does)
	@tools/setup --all
	@tools/test-all

pictures: setup ## draw the pictures of the pages; those of models from small forms, to build/release/pictures
	@tools/build release product
	@tools/make-pictures --models $(RELEASE)

bench: setup ## measure this machine and the kernels against it
	@tools/build release fovea
	@$(RELEASE)/fovea bench peak
	@$(RELEASE)/fovea bench gemm
	@$(RELEASE)/fovea bench attention --quick
	@$(RELEASE)/fovea bench ops

lint: ## formatting, layers, words, and the analyser on what changed (tools/lint --all: on everything)
	@tools/lint

format: ## rewrite the sources in the project's format
	@tools/lint --fix

install: all ## install under PREFIX (/usr/local), staged in DESTDIR
	@DESTDIR='$(DESTDIR)' cmake --install $(RELEASE) --prefix '$(PREFIX)'
	@[ -n "$(DESTDIR)" ] || [ ! -w /etc/ld.so.cache ] || ldconfig

abi: setup ## compare the library with the last release's interface
	@tools/check-abi

abi-dump: setup ## store the interface of this version as a release
	@tools/check-abi --dump

setup:
	@tools/setup

clean: ## remove every build
	rm -rf build

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile
