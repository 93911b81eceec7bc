# The targets that people and CI call. `make demo` and `make test` set up whatever is missing, once.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
JOBS ?= $(shell nproc)
# Tests wait as long as they compute, so there are two workers for a processor.
WORKERS ?= $(shell expr 2 \* $(JOBS))
BIN := .venv/bin
DONE := build/done
FREE := build/free-threaded
RACES := build/races/environment
PORT ?= 8000
MINUTES ?= 5
SECONDS ?= 60
PYTHONS ?=
ARGS ?=

# CMake takes it from here when it first configures a build.
export CMAKE_CXX_COMPILER_LAUNCHER ?= $(shell command -v ccache)
# Without compiled modules each process of the tests would compile its own.
unexport PYTHONDONTWRITEBYTECODE
# No smoke test is skipped here (tests/smoke/conftest.py).
export SMOKE_REQUIRES ?= all

# What `make test` builds first and then runs, each a target of its own, the longest first. What takes longer goes into
# CHECKS, and what takes hours into PROOFS; a step of these makes what it needs.
BUILDS := build-dev
TESTS := test-python test-dev lint
CHECKS := test-asan check-python test-bindings test-threads count
PROOFS := prove-crashes test-clang test-portable prove-portable test-musl test-arm64 cross test-ubsan test-tsan tidy fuzz \
  prove-algorithm prove-mutations prove-python wheels prove-reproducible smoke smoke-sdist test-sdist release-check

SDIST = dist/overlimit-$(shell sed -n 's/^project.overlimit VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt).tar.gz
SOURCES := $(shell find cpp lua cmake -type f -not -path 'cpp/benchmarks/*') CMakeLists.txt CMakePresets.json pyproject.toml

.PHONY: help demo serve test check check-python lint test-cpp test-python test-bindings prove prove-algorithm prove-crashes prove-mutations prove-portable prove-python prove-reproducible cross test-free-threaded test-races fuzz soak count bench bench-docs docs wheels sdist smoke smoke-sdist test-sdist release-check tidy format hooks clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

demo: $(DONE)/package ## Watch a real Flask app refuse real requests
	$(BIN)/python examples/demo.py

serve: $(DONE)/package ## Leave the example app and its page up (PORT=8000; WORKERS=4 for gunicorn)
	$(BIN)/python examples/demo.py --serve --port $(PORT) $(if $(findstring command,$(origin WORKERS)),--workers $(WORKERS))

test: $(DONE)/packages ## What to run before a commit: lint, the C++ tests, the Python tests on real redis-servers
	MAKE="$(MAKE)" scripts/run-steps --jobs $(JOBS) $(BUILDS)
	MAKE="$(MAKE)" scripts/run-steps --jobs $(JOBS) $(TESTS)

check: $(DONE)/package ## What CI runs besides: C++ and the bindings under sanitizers, counts of instructions, tests that take long
	MAKE="$(MAKE)" scripts/run-steps --jobs $(JOBS) $(CHECKS)

lint: $(DONE)/package ## Style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest --allowlist tests/stubtest_allowlist.txt overlimit._core
	git ls-files '*.cpp' '*.hpp' | xargs clang-format --dry-run --Werror

test-cpp: test-asan test-threads ## The C++ tests: all under the address sanitizer, those with threads under the thread sanitizer

# build-PRESET and test-PRESET for each preset of CMakePresets.json; "threads" is the part of "tsan" with threads, and
# "bindings" is built into "asan", so nobody configures either while the other is built, installed or run.
build-%: $(DONE)/packages
	mkdir -p build
	flock build/$(subst bindings,asan,$*).lock sh -c \
	  'cmake --preset $(subst threads,tsan,$*) $(CONFIGURE) >/dev/null && cmake --build --preset $* -j $(JOBS) $(INSTALL)'

build-clang: $(DONE)/packages-prove

# Beside the extension, of the same libraries.
build-dev: $(DONE)/package
	cmake --build --preset dev -j $(JOBS)

test-dev test-clang test-portable test-musl test-arm64 test-asan test-ubsan test-tsan test-threads: test-%: build-%
	flock build/$*.lock scripts/run-ctest $* -j $(WORKERS)

# For other systems and processors, by the presets that inherit "cross". Programs for the first ones run here, too.
CROSS_BUILDS := $(addprefix build-,musl arm64 arm64-glibc arm64-macos x64-macos)
$(CROSS_BUILDS): export ZIG = $(shell $(BIN)/python -c 'import ziglang; print(ziglang.__path__[0])')/zig
$(CROSS_BUILDS): $(DONE)/cross

cross: build-arm64-glibc build-arm64-macos build-x64-macos ## Everything in C++ compiled and linked for arm64 and macOS; test-musl and test-arm64 run it

test-python: $(DONE)/package ## The Python tests, on memory and on real redis-servers (ARGS= for pytest)
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadgroup $(ARGS)

check-python: $(DONE)/package ## The Python tests marked check (ARGS= for pytest)
	$(BIN)/python -m pytest -q -m check -n $(WORKERS) --dist loadgroup $(ARGS)

build-bindings: $(DONE)/environment
build-bindings: INSTALL = && cmake --install build/asan --component python --prefix build/asan/site >/dev/null
build-bindings: CONFIGURE = -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python -Dpybind11_DIR=$$($(BIN)/python -m pybind11 --cmakedir)

test-free-threaded: $(FREE)/done ## The Python tests without the GIL (PYTHON=python3.14t)
	$(FREE)/bin/python -m pytest -q -n $(WORKERS) --dist loadgroup $(ARGS)

test-races: $(RACES)/done ## The tests of threads under the thread sanitizer (PYTHON: one without the GIL, built under it)
	scripts/test-races $(ARGS)

test-bindings: build-bindings $(DONE)/package ## The tests of the bindings, on an extension under the address sanitizer
	scripts/test-bindings

prove: $(DONE)/environment ## The long proofs, for every night: clang's and thread-sanitized C++, clang-tidy, fuzzers, random lives
	MAKE="$(MAKE)" scripts/run-steps --jobs 1 $(PROOFS)

prove-python: $(DONE)/package $(DONE)/packages-prove $(DONE)/environment-prove ## The tests marked prove; random lives on the model, memory and Redis, and forks: ten times as many
	PROVE=10 $(BIN)/python -m pytest -m 'prove or longer_in_prove' --timeout 7200

prove-crashes: $(DONE)/packages ## A kill after each instruction that writes shared memory, of an optimized build; deaths noticed in time
	cmake --preset release >/dev/null
	cmake --build --preset release -j $(JOBS) --target shared_memory_tests
	PROVE=1 build/release/tests/cpp/shared_memory_tests --gtest_filter='Crashes.*:SharedProcesses.*'

prove-portable: $(DONE)/portable ## The Python tests on an extension that uses POSIX alone (ARGS= for pytest)
	SMOKE_REQUIRES= build/elsewhere/bin/python -m pytest -q -n $(WORKERS) --dist loadgroup $(ARGS)

prove-algorithm: $(DONE)/package ## An algorithm added as docs/adding_an_algorithm.md says, through all suites
	scripts/prove-algorithm $(JOBS)

prove-mutations: $(DONE)/package ## Lines broken one after the other in a copy of the tree, each of which tests must notice
	$(BIN)/python scripts/prove-mutations

fuzz: $(DONE)/packages-prove ## Search each parser in C++ for inputs that break it (SECONDS=60)
	cmake --preset fuzz >/dev/null
	cmake --build --preset fuzz -j $(JOBS)
	scripts/fuzz build/fuzz $(SECONDS)

soak: $(DONE)/package ## Callers on a Redis that fails at random, then processes killed on shared memory (MINUTES=5, of each)
	PYTHONPATH=tests $(BIN)/python -m soak --minutes $(MINUTES)
	STORM_SECONDS=$$(( $(MINUTES) * 60 )) $(BIN)/python -m pytest -q tests/faults/test_shared_memory_storm.py --timeout 0

count: $(DONE)/package ## Instructions of a hit, a Decision and a script, held against those recorded
	$(BIN)/python benchmarks/count_instructions.py

bench: $(DONE)/bench $(DONE)/bench-cpp ## Speed, side by side with others, of an extension built as wheels are (ARGS='web tasks' for parts)
	build/bench/bin/python benchmarks/run.py --json build/benchmarks/results.json --figures build/benchmarks $(ARGS)

bench-docs: $(DONE)/bench $(DONE)/bench-cpp ## The same, kept for the site, and the factors that pages show
	build/bench/bin/python benchmarks/run.py --docs

docs: $(DONE)/package ## The documentation as a site in build/site
	rm -rf build/pages build/site
	cp -R docs build/pages
	cp -R examples/notebooks examples/*.log.gz build/pages
	$(BIN)/sphinx-build -q -n -W --keep-going -j $(JOBS) -c docs -d build/doctrees build/pages build/site
	$(BIN)/python docs/_site/check.py build/site
	@echo "The site begins at build/site/index.html"

wheels: $(DONE)/environment-wheels ## Wheels in dist/, for each CPython there is (PYTHONS= names more), for glibc 2.28
	$(BIN)/python scripts/build-wheels $(PYTHONS)

prove-reproducible: $(DONE)/environment-wheels ## That two builds of a wheel in different folders are the same bytes
	scripts/prove-reproducible

sdist: $(DONE)/environment ## The sources in dist/, for building elsewhere
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m build --sdist --no-isolation --outdir dist . >/dev/null
	ls -l $(SDIST)

smoke: $(DONE)/packages-prove $(DONE)/environment ## Smoke tests of each wheel in dist/ on each Python that it fits, also in bare Debians
	$(BIN)/python scripts/smoke --jobs $(JOBS) $(addprefix --python ,$(PYTHONS)) dist/*.whl

smoke-sdist: sdist $(DONE)/packages-prove ## Smoke tests of the sdist, built in Debians with only what README.md names
	$(BIN)/python scripts/smoke --jobs $(JOBS) $(SDIST)

test-sdist: sdist ## The sdist's own Python tests, in an environment where it is installed
	JOBS=$(WORKERS) scripts/test-sdist $(PYTHON) $(SDIST) $(ARGS)

release-check: $(DONE)/environment-wheels ## What would be wrong with a release of what is in dist/
	$(BIN)/python scripts/release-check

tidy: $(DONE)/packages-prove ## clang-tidy over the engine
	cmake --preset tidy >/dev/null
	cmake --build --preset tidy -j $(JOBS)

format: $(DONE)/package ## Put all sources into the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	git ls-files '*.cpp' '*.hpp' | xargs clang-format -i

hooks: $(DONE)/environment ## Check each commit before it is made (pre-commit)
	$(BIN)/pre-commit install

clean: ## Forget all builds; .venv stays
	rm -rf build dist

$(DONE)/packages: packages.txt scripts/install-packages
	scripts/install-packages
	mkdir -p $(@D) && touch $@

$(DONE)/packages-prove: packages-prove.txt $(DONE)/packages
	scripts/install-packages $<
	touch $@

$(DONE)/environment: $(DONE)/packages pyproject.toml
	@echo "Setting up .venv, once; this takes a minute"
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/pip install --quiet --no-compile --group dev
	touch $@

$(DONE)/cross: $(DONE)/environment $(DONE)/packages-prove scripts/hiredis.txt
	$(BIN)/pip install --quiet --group cross
	$(BIN)/python scripts/fetch-hiredis build/hiredis
	touch $@

# What only packages need, a compiler among it.
$(DONE)/environment-wheels: $(DONE)/environment
	$(BIN)/pip install --quiet --group wheels --group release
	touch $@

# What only the tests marked prove need.
$(DONE)/environment-prove: $(DONE)/environment
	$(BIN)/pip install --quiet --group prove
	touch $@

# Of an extension that is compiled fast.
QUICK := -Ccmake.args=--preset=dev -Ccmake.define.CMAKE_INTERPROCEDURAL_OPTIMIZATION=OFF -Ccmake.define.OVERLIMIT_PYTHON=ON
# Beside the sources.
EDITABLE := --quiet --no-build-isolation --no-deps --editable . $(QUICK)

$(DONE)/package: $(DONE)/environment $(SOURCES)
	@echo "Building the extension"
	$(BIN)/pip install $(EDITABLE) -Cbuild-dir=build/dev -Ccmake.define.OVERLIMIT_TESTS=ON
	touch $@

# Environments for the Python without the GIL that PYTHON names, and the extension for it.
$(FREE)/environment $(RACES)/done: $(DONE)/packages pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(getattr(sys, "_is_gil_enabled", lambda: True)() and \
	  "PYTHON must name a Python without the GIL, 3.14 or later, such as PYTHON=python3.14t")'
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install --quiet --upgrade 'pip>=25.1'
	$(@D)/bin/pip install --quiet --no-compile --group build --group test-free-threaded --group bench
	touch $@

$(FREE)/done: $(FREE)/environment $(SOURCES)
	$(FREE)/bin/pip install $(EDITABLE) -Cbuild-dir=$(FREE)/build
	touch $@

# $(call beside,FOLDER,BUILD,OPTIONS): an environment beside .venv with the package built in another way; the rest is .venv's.
define beside
	$(BIN)/python -m venv --without-pip --clear $(1)
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >"$$($(1)/bin/python -c \
	  'import sysconfig; print(sysconfig.get_path("purelib"))')/developers.pth"
	$(BIN)/pip --python $(1)/bin/python install --quiet --no-build-isolation --no-deps . -Cbuild-dir=$(2) $(3)
endef

# As wheels have it, link-time optimization and all.
$(DONE)/bench: $(DONE)/environment $(SOURCES) $(shell find python -name '*.py')
	@echo "Building the extension with link-time optimization"
	$(call beside,build/bench,build/lto)
	touch $@

# The programs in C++ that benchmarks/run.py calls.
$(DONE)/bench-cpp: $(DONE)/packages $(SOURCES) $(wildcard cpp/benchmarks/*)
	cmake --preset release >/dev/null
	cmake --build --preset release -j $(JOBS) --target overlimit_benchmarks redis_floor
	mkdir -p $(@D) && touch $@

# With what POSIX has alone, as on other systems.
$(DONE)/portable: $(DONE)/environment $(SOURCES) $(shell find python -name '*.py')
	@echo "Building the extension with POSIX alone"
	$(call beside,build/elsewhere,build/elsewhere-cmake,$(QUICK) -Ccmake.define.OVERLIMIT_PORTABLE=ON)
	touch $@
