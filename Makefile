# `make help` lists the targets. Everything runs in this folder. System packages that are missing are
# installed by `make deps`, which `make demo` and `make test` begin with; who is not root is told what
# to install.

CARGO ?= cargo
PYTHON ?= python3
VENV := .venv
VENV_READY := $(VENV)/.ready
BENCH_VENV := bench/.venv
BENCH_READY := $(BENCH_VENV)/.ready
SCALE ?= 0.25
RUNS ?= 3

# Where `make install` puts things. mount(8) looks for helpers in /sbin, whatever the prefix is.
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
SBINDIR ?= /sbin
DESTDIR ?=

.PHONY: help build demo test lint test-rust test-python conformance soak soak-model soak-join fuzz bench doc deps clean

help:
	@echo "make demo     build it and see it at work in a temporary folder"
	@echo "make build    build target/release/zarrmount"
	@echo "make install  install it and the helpers of mount(8) and umount(8) (as root; PREFIX, DESTDIR)"
	@echo "make test     format, lints, tests, documentation, interoperability with Python"
	@echo "make conformance  all tests of zarr-python's stores and xarray's files, in a mount"
	@echo "make soak     N runs of each sweep of failures (N=500 SEED=1): kill -9, broken requests"
	@echo "make soak-model N=250 SEED=1  random operations beside a model of files and folders"
	@echo "make soak-join N=1000 SEED=1  random sets of files joined to one dataset, compared with their values"
	@echo "make bench    the product and its peers through a long wire, side by side"
	@echo "make fuzz     100,000 damaged files through the reader, then libFuzzer for FUZZ_SECONDS"
	@echo "make lint     format and lints only"
	@echo "make deps     install the system packages that are missing (as root)"
	@echo "make clean    remove what was built"

build:
	$(CARGO) build --release

# Builds nothing: root need not have a toolchain. The helpers are told where the program is.
HELPERS := mount.fuse.zarrmount umount.fuse.zarrmount
BUILT := target/release/zarrmount

.PHONY: install uninstall

install:
	@test -x $(BUILT) || { echo "run 'make build' first"; exit 1; }
	install -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(SBINDIR)
	install -m 755 $(BUILT) $(DESTDIR)$(BINDIR)/zarrmount
	for helper in $(HELPERS); do \
	    sed 's|^PATH=.*|PATH=$$PATH:$(BINDIR)|' packaging/$$helper > $(DESTDIR)$(SBINDIR)/$$helper && \
	    chmod 755 $(DESTDIR)$(SBINDIR)/$$helper || exit 1; \
	done
	ln -sf mount.fuse.zarrmount $(DESTDIR)$(SBINDIR)/mount.zarrmount

uninstall:
	rm -f $(DESTDIR)$(BINDIR)/zarrmount $(DESTDIR)$(SBINDIR)/mount.zarrmount
	for helper in $(HELPERS); do rm -f $(DESTDIR)$(SBINDIR)/$$helper; done

demo: deps build
	target/release/zarrmount demo

test: deps lint test-rust doc test-python

lint:
	$(CARGO) fmt --check
	$(CARGO) clippy --all-targets -- -D warnings

test-rust:
	$(CARGO) test

# The documentation is for those who work on the code: private items are part of it, and
# may be linked to.
doc:
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" $(CARGO) doc --no-deps --document-private-items

# Real mounts, read by the software that people use. `cargo test` has built the binary already; this
# names it in case somebody runs this target alone.
test-python: $(VENV_READY)
	$(CARGO) build --bins --examples
	$(VENV)/bin/pytest -q tests/python

# Random operations beside a model of files and folders, many more than `make test` has time for: N
# times 400 of them, from this seed on.
soak-model:
	N=$(or $(N),250) SEED=$(or $(SEED),1) $(CARGO) test --test filesystem random

# What zarr-python and xarray test their own files with, pointed at a mount; `make test` runs a part.
conformance: $(VENV_READY)
	$(CARGO) build --bins --examples
	ZARRMOUNT_CONFORMANCE=1 $(VENV)/bin/pytest -q -s -W ignore tests/python/test_conformance.py

# The sweeps of which `make test` runs a sample, N runs of each with seeds that SEED begins. They print
# how many runs ended how; one that went wrong is named with its seed.
N ?= 500
SEED ?= 1
soak:
	ZARRMOUNT_SOAK_RUNS=$(N) ZARRMOUNT_SOAK_SEED=$(SEED) $(CARGO) test --test faults -- --nocapture --test-threads=1

# Random sets of files joined to one dataset: N cases by `zarrmount import`, a fifth of that in mounts.
soak-join: $(VENV_READY)
	$(CARGO) build --bins --examples
	$(VENV)/bin/python tests/python/oracle.py --cases $(N) --mounts $$(($(N) / 5)) --seed $(SEED)

# docs/BENCHMARKS.md says what is measured and how to choose. More for bench/bench.py in BENCH:
# make bench RUNS=5 BENCH='--workloads w1 w4'
bench: deps $(BENCH_READY)
	$(CARGO) build --release --bins --example bench_server
	$(BENCH_VENV)/bin/python bench/bench.py --zarrmount target/release/zarrmount \
		--server target/release/examples/bench_server --scale $(SCALE) --runs $(RUNS) $(BENCH)

$(BENCH_READY): bench/requirements.txt
	$(PYTHON) -m venv $(BENCH_VENV)
	$(BENCH_VENV)/bin/pip install --quiet --disable-pip-version-check -r bench/requirements.txt
	touch $@

# First the mutants of the tests, in one process. Then libFuzzer, which looks for new paths in the code:
# the compiler's instrumentation is stable, and so is what finds them (no `cargo fuzz` is needed). What it
# finds stays in fuzz/corpus, what fails in fuzz/failures.
FUZZ_INPUTS ?= 100000
FUZZ_SEED ?= 1
FUZZ_SECONDS ?= 300
HOST := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
COVERAGE := -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
	-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
	-Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg fuzzing

fuzz: deps
	ZARRMOUNT_FUZZ_INPUTS=$(FUZZ_INPUTS) ZARRMOUNT_FUZZ_SEED=$(FUZZ_SEED) $(CARGO) test --test fuzz -- --nocapture
	RUSTFLAGS="$(COVERAGE)" $(CARGO) build --release --manifest-path fuzz/Cargo.toml --target-dir fuzz/target --target $(HOST)
	mkdir -p fuzz/corpus fuzz/failures
	fuzz/target/$(HOST)/release/netcdf fuzz/corpus tests/fuzz/seeds -artifact_prefix=fuzz/failures/ \
		-max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=1024 -timeout=60 -use_value_profile=1 -print_final_stats=1

$(VENV_READY): tests/python/requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -r tests/python/requirements.txt
	touch $@

deps:
	scripts/install-deps

clean:
	$(CARGO) clean
	rm -rf $(VENV) $(BENCH_VENV) fuzz/target
