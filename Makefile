# Each target sets up all that it needs: Python 3.11 or newer and cargo are enough, and Java 17 and Maven where Apache
# Kafka runs (make test-kafka, make soak, the benchmarks).

PYTHON ?= python3
# One for each Python: make test PYTHON=python3.13 VENV=.venv-3.13
VENV ?= .venv
BIN := $(CURDIR)/$(VENV)/bin
export CARGO_TARGET_DIR ?= $(CURDIR)/target
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Tests start hundreds of Python processes: without compiled modules each of them compiles for a second or more, and each of
# pytest's workers rewrites all asserts.
unexport PYTHONDONTWRITEBYTECODE
# Where what was installed when is noted; newer than all that it was made from, or it is made again.
STAMPS := $(VENV)/stamps
# tests.rerun (.ci/run) repeats up to three failed tests once.
PYTEST = $(BIN)/python -m $(PYTEST_MODULE)
PYTEST_MODULE ?= pytest
PYTEST_ARGS ?=
# The same for cargo: tests.rerun_cargo.
CARGO_TEST ?= cargo test
# Installs packages; uv resolves them in a second, pip in minutes.
INSTALL := $(BIN)/uv pip install --quiet --python $(BIN)/python
# So many at a time, each with brokers of its own (Apache Kafka: 1 GB of memory, so it is half as many): most of a test is
# waiting. A file's tests stay together, for the brokers that they share, and those that take long come first. A process that
# ends in the middle (see faulthandler_exit_on_timeout) ends the run: its test would only do the same to another one.
# PYTEST_JOBS=0 for one after the other, in one process.
PYTEST_JOBS ?=
side_by_side = -n $(or $(PYTEST_JOBS),$(1)) --dist loadfile --no-loadscope-reorder --max-worker-restart 0
# Cargo's profile of the native module: release, or fast for a build in a fraction of the time.
BUILD_PROFILE ?= release
# For each fuzz target, in make soak.
FUZZ_SECONDS ?= 900
BENCH_ARGS ?=
WHEEL_ARGS ?=
AUDIT_ARGS ?=
SDIST_ARGS ?=
TARGETS_ARGS ?=
ACTIONLINT_VERSION ?= v1.7.12

RUST_SOURCES := $(shell find crates -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock rust-toolchain.toml
PYTHON_PATHS := $(wildcard python tests benchmarks docsite examples release)

.DEFAULT_GOAL := help

.PHONY: help
help:  ## say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	@mkdir -p $(@D) && touch $@

$(STAMPS)/uv: $(STAMPS)/venv
	$(BIN)/pip install -q uv
	@touch $@

# What the package needs to be built and to run.
$(STAMPS)/minimum: $(STAMPS)/uv pyproject.toml
	$(BIN)/python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb")); \
	    print(*p["project"]["dependencies"], *p["build-system"]["requires"], sep="\n")' > $(STAMPS)/minimum.txt
	$(INSTALL) -r $(STAMPS)/minimum.txt
	@touch $@

# The dependencies of pyproject.toml without the package itself.
$(STAMPS)/tools: $(STAMPS)/minimum
	$(BIN)/python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	    e = p["optional-dependencies"]; print(*p["dependencies"], *e["test"], *e["docs"], *e["lint"], sep="\n")' \
	    > $(STAMPS)/requirements.txt
	$(INSTALL) -r $(STAMPS)/requirements.txt
	@touch $@

.PHONY: tools
tools: $(STAMPS)/tools  ## what tests, lint and docs need, in .venv

# One native module is in the package: the last one that was built, so each removes the stamp of the other.
$(STAMPS)/build: $(STAMPS)/minimum $(RUST_SOURCES)
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --profile $(BUILD_PROFILE) --quiet
	@rm -f $(STAMPS)/quick; touch $@

.PHONY: build
build: $(STAMPS)/build  ## a release build in .venv

# Compiled without most optimizations, in a third of the time.
$(STAMPS)/quick: $(STAMPS)/minimum $(RUST_SOURCES)
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --profile quick --quiet
	@rm -f $(STAMPS)/build; touch $@

.PHONY: kafka
kafka: $(STAMPS)/tools  ## bring Kafka's jars (KAFKA_VERSION)
	@$(BIN)/python -m tests.kafka --jars

# Apart, because it wants another protobuf than ours.
$(STAMPS)/agent: $(STAMPS)/uv
	$(PYTHON) -m venv $(VENV)/agent
	$(BIN)/uv pip install --quiet --python $(VENV)/agent/bin/python "ddapm-test-agent>=1.69"
	@touch $@

.PHONY: agent
agent: $(STAMPS)/agent  ## Datadog's test agent, in .venv/agent

.PHONY: test
test: build tools agent  ## every test that needs no Java: the brokers are embedded ones
	+@$(MAKE) --no-print-directory -j2 test-crates compiled-tests
	$(PYTEST) $(call side_by_side,6) $(PYTEST_ARGS)

.PHONY: test-crates
test-crates:
	$(CARGO_TEST) --workspace --quiet

# Compiles all modules and rewrites all asserts once, beside cargo. Each of pytest's workers would do so again, in 20 seconds.
.PHONY: compiled-tests
compiled-tests:
	@$(BIN)/python -m pytest --collect-only --quiet > $(STAMPS)/collected.txt || (cat $(STAMPS)/collected.txt; exit 1)

# Which of the tests with brokers run on Apache Kafka: an expression of pytest's -m.
KAFKA_TESTS ?= kafka and not soak

# What differs between the two kinds of brokers fails here: in the differential test, or in a test that passes in make test.
.PHONY: test-kafka
test-kafka: build kafka agent  ## the tests with brokers again, on Apache Kafka (KAFKA_VERSION); Kafka reads our bytes
	libs=$$(KAFKA_VERSION=4.3.0 $(BIN)/python -m tests.kafka --jars) && \
	    KAFKA_CLASSPATH="$$libs/*" cargo test --quiet --workspace --test messages --test records -- --ignored
	$(BIN)/python -m tests.kafka.differential
	$(BIN)/python -m tests.kafka.differential --authorizer --seeds 20
	$(PYTEST) --kafka=apache -m '$(KAFKA_TESTS)' $(call side_by_side,3) $(PYTEST_ARGS)

# The native module is that of .venv: the same Python.
.PHONY: test-lowest
test-lowest: build tools  ## the unit tests with the oldest versions of all dependencies that pyproject.toml allows
	$(PYTHON) -m venv --clear $(VENV)/lowest
	$(BIN)/uv pip install --quiet --python $(VENV)/lowest/bin/python --resolution lowest-direct \
	    -r $(STAMPS)/requirements.txt
	cp -r $(VENV)/lib/python*/site-packages/grete.pth $(VENV)/lib/python*/site-packages/grete-*.dist-info \
	    $(VENV)/lowest/lib/python*/site-packages/
	$(VENV)/lowest/bin/python -m pytest tests/unit $(call side_by_side,6) -W ignore::DeprecationWarning $(PYTEST_ARGS)

# In a copy of the workspace, because Cargo.lock changes.
NEWEST := $(CARGO_TARGET_DIR)/newest
.PHONY: test-newest
test-newest:  ## cargo test with the newest stable Rust and the newest versions of all crates that Cargo.toml allows
	rustup toolchain install stable --profile minimal
	rm -rf $(NEWEST) && mkdir -p $(NEWEST) && git ls-files -z | xargs -0 cp --parents -t $(NEWEST)
	cd $(NEWEST) && cargo +stable update --quiet && cargo +stable test --workspace --quiet

.PHONY: soak
soak: soak-tests soak-seeds soak-versions soak-fuzz  ## the long rounds: chaos, seeds, fuzzing, all Kafka versions

.PHONY: soak-tests
soak-tests: build tools kafka agent
	$(PYTEST) --kafka=apache -m soak --timeout 1800 -o faulthandler_timeout=2000 $(PYTEST_ARGS)

.PHONY: soak-seeds
soak-seeds:
	GRETE_SEEDS=10000 cargo test --quiet --profile fast -p grete-sim --lib
	GRETE_SEEDS=2000 cargo test --quiet --profile fast -p grete-proto --lib simulation

.PHONY: soak-versions
soak-versions: build tools kafka agent
	for version in 3.9.1 4.1.0; do \
	    $(PYTEST) --kafka=apache:$$version -m 'kafka and not soak' $(PYTEST_ARGS) || exit 1; \
	done

.PHONY: soak-fuzz
soak-fuzz:
	fuzz/run.sh $(FUZZ_SECONDS)

.PHONY: lint lint-rust lint-python
lint: lint-rust lint-python  ## rustfmt, clippy, ruff, mypy, layers, circles, prose, generated code, pages; dependencies: make audit
	@echo 'weaknesses, licences and sources of the dependencies are checked by: make audit'

lint-rust:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	cargo xtask layering
	cargo xtask circles
	cargo xtask prose
	cargo xtask codegen --check

lint-python: $(STAMPS)/tools
	$(BIN)/ruff check $(PYTHON_PATHS)
	$(BIN)/ruff format --check $(PYTHON_PATHS)
	$(BIN)/mypy --strict $(wildcard python/grete) tests benchmarks docsite examples release
	$(BIN)/python -m docsite.rules
	PYTHONPATH=python $(BIN)/lint-imports --no-logo --no-cache

# Strict: a broken link, a missing anchor or a page that no list names ends it. make test does it, too.
.PHONY: docs
docs: build tools  ## the documentation site, in build/site; it works as files, too
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=. $(BIN)/python -m mkdocs build --strict --quiet
	@echo "build/site/index.html"

# Adds this version to the branch gh-pages, where mike keeps all of them. DOCS_VERSION="0.1 latest"
.PHONY: docs-version
docs-version: build tools  ## commit the site as version DOCS_VERSION to the branch gh-pages
	PATH=$(BIN):$$PATH GRETE_DOCS_OFFLINE=false NO_MKDOCS_2_WARNING=1 PYTHONPATH=. \
	    mike deploy --update-aliases $(DOCS_VERSION)

# What it needs is not in .venv: it says what is missing.
.PHONY: docs-check
docs-check: docs  ## look at the site in Chromium: accessibility, width, search (needs chromium and npm)
	$(BIN)/python -m docsite.browser

# What it needs beside .venv: chromium and npm.
.PHONY: web-check
web-check: build  ## look at grete web in Chromium: accessibility, width, scripts (needs chromium and npm)
	$(BIN)/python -m docsite.web

.PHONY: demo
demo:  ## grete demo: retries, a dead letter, its replay, a killed node; no Kafka needed
	@$(MAKE) --no-print-directory -q $(STAMPS)/build || $(MAKE) --no-print-directory $(STAMPS)/quick
	$(BIN)/grete demo

# The peers, with the codecs that they need.
$(STAMPS)/bench: $(STAMPS)/tools benchmarks/requirements.txt
	$(INSTALL) -r benchmarks/requirements.txt
	@touch $@

.PHONY: bench
bench: build kafka $(STAMPS)/bench  ## Grete beside other clients (BENCH_ARGS="--topics T23 --rounds 1")
	$(BIN)/python -m benchmarks.consume $(BENCH_ARGS)

.PHONY: bench-produce
bench-produce: build kafka $(STAMPS)/bench  ## the same for producers (BENCH_ARGS="--parts sync --rounds 1")
	$(BIN)/python -m benchmarks.produce $(BENCH_ARGS)

.PHONY: bench-process
bench-process: build kafka $(STAMPS)/bench  ## the same for handlers (BENCH_ARGS="--parts noop --quick")
	$(BIN)/python -m benchmarks.process $(BENCH_ARGS)

.PHONY: bench-swarm
bench-swarm: build kafka $(STAMPS)/bench  ## what nodes bring and cost (BENCH_ARGS="--parts memory --load 20")
	$(BIN)/python -m benchmarks.swarm $(BENCH_ARGS)

.PHONY: bench-instrument
bench-instrument: build $(STAMPS)/bench  ## what events and listeners cost (BENCH_ARGS="--parts jobs --quick")
	$(BIN)/python -m benchmarks.instrument $(BENCH_ARGS)

.PHONY: bench-trace
bench-trace: build $(STAMPS)/bench  ## what spans cost, and agents that do not take them (BENCH_ARGS="--parts send")
	$(BIN)/python -m benchmarks.trace $(BENCH_ARGS)

$(STAMPS)/release: $(STAMPS)/minimum pyproject.toml
	$(BIN)/python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	    print(*p["optional-dependencies"]["release"], sep="\n")' > $(STAMPS)/release.txt
	$(INSTALL) -r $(STAMPS)/release.txt
	@touch $@

.PHONY: wheels
wheels: $(STAMPS)/release  ## wheels for all platforms, in build/wheels (WHEEL_ARGS="--targets musllinux-x86_64 --pythons 3.13")
	$(BIN)/python -m release.wheels $(WHEEL_ARGS)

.PHONY: audit
audit: $(STAMPS)/release  ## known weaknesses, licences and sources of what is linked or installed (AUDIT_ARGS=--required)
	$(BIN)/python -m release.audit $(AUDIT_ARGS)

# Written in Go, and brought by Go.
.PHONY: actionlint
actionlint:  ## look for mistakes in the workflows (needs Go)
	go run github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT_VERSION)

.PHONY: sdist
sdist: $(STAMPS)/release  ## source distributions in build/sdist, with and without the crates (SDIST_ARGS="--check")
	$(BIN)/python -m release.sdist $(SDIST_ARGS)

# The C code of dependencies is not compiled: no SDK is needed.
.PHONY: check-targets
check-targets: $(STAMPS)/venv  ## type checks for macOS and Windows (TARGETS_ARGS="--verbose")
	$(BIN)/python -m release.check_targets $(TARGETS_ARGS)

# What other systems than Linux get instead of its own interfaces, on Linux. The flags make cargo build all again.
.PHONY: test-portable
test-portable: tools  ## the fallbacks of other systems, tested on Linux
	RUSTFLAGS="--cfg grete_portable" cargo test --quiet --profile fast \
	    -p grete-sys -p grete-health -p grete-net -p grete-client -p grete-broker -p grete-trace

.PHONY: clean
clean:  ## remove all that was built, the jars too
	rm -rf $(VENV) build target
