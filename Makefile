# Everything a newcomer needs: `make demo`, `make test`. CI runs `make test`.
#
# What is downloaded or compiled is kept outside the checkout, in CACHE, so that the
# storage library (8 core-minutes of C++) is compiled once and not once a checkout.

CACHE ?= $(HOME)/.cache/meridian
export CARGO_TARGET_DIR ?= $(CACHE)/target
export MERIDIAN_CACHE := $(CACHE)

# scripts/rocksdb compiles RocksDB for this kind of machine. Elsewhere, and for a bare `cargo build`, its crate does,
# in four times the time.
ifeq ($(shell uname -sm),Linux x86_64)
export ROCKSDB_LIB_DIR := $(CACHE)/rocksdb
export ROCKSDB_STATIC := 1
endif

# PCRE2 from its crate's sources, not whichever the system has.
export PCRE2_SYS_STATIC := 1

PYTEST := $(CACHE)/venv/bin/python -m pytest
# Arguments for the demonstration and the benchmark, e.g. make demo ARGS="--once --events 100000".
ARGS ?=

.PHONY: help build demo test check rust-tests outside-tests differential known-gaps bench-weather \
        bench-indexing bench-taxi bench-entities bench-restaurants bench-queries bench-timeseries torture setup-build setup-tests notices clean-cache

help:
	@echo "make demo           build, then load and query the weather evaluation; serves until Ctrl-C"
	@echo "make test           everything CI runs: format, lints, docs, all tests"
	@echo "make torture        the long forms of the tests of kills, power loss, full disks, damage, memory and fuzzed logins: an hour"
	@echo "make build          leave the program at bin/meridian"
	@echo "make differential   the same commands to Meridian and to a real mongod, replies compared"
	@echo "make bench-weather  evaluation 1 on Meridian, mongod and PostGIS, side by side"
	@echo "make bench-taxi     evaluation 2, bench-restaurants 3, bench-entities 4, bench-indexing 5, likewise"
	@echo "make bench-queries  joins, windows, groups and texts, likewise"
	@echo "make bench-timeseries  readings of sensors, likewise; PostgreSQL with BRIN and partitioned"

setup-build:
	@scripts/setup build

setup-tests: setup-build
	@scripts/setup tests

build: setup-build
	cargo build --release --locked --package meridian
	@mkdir -p bin
	@cmp -s $(CARGO_TARGET_DIR)/release/meridian bin/meridian || \
	  { cp $(CARGO_TARGET_DIR)/release/meridian bin/meridian.new && mv bin/meridian.new bin/meridian; }

demo: build
	bin/meridian demo $(ARGS)

bench-weather bench-indexing bench-taxi bench-entities bench-restaurants bench-queries bench-timeseries: bench-%: build setup-tests
	bin/meridian bench $* --target meridian --target mongod --target postgres $(ARGS)

# Format, lints, documentation and the rules that no compiler knows.
check: setup-build
	cargo fmt --all --check
	scripts/check-imports
	scripts/notices --check
	cargo clippy --release --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --release --locked --workspace --no-deps

rust-tests: build setup-tests
	cargo test --release --locked --workspace

# Tests from outside: the built program, real drivers, a real mongod.
outside-tests: build setup-tests
	$(PYTEST) tests $(ARGS)

# 200 kills under writers of every kind, 20 power losses (as root: file systems are mounted), damaged logs, attacks.
torture: build setup-tests
	MERIDIAN_CRASH_KILLS=200 MERIDIAN_MANY_KILLS=200 MERIDIAN_POWER_LOSSES=20 MERIDIAN_FLIPS=40 MERIDIAN_ATTACKS=long \
	  MERIDIAN_FUZZED_MESSAGES=1000000 \
	  $(PYTEST) tests/crash tests/server/test_attacks.py tests/access/test_fuzzed_messages.py -s $(ARGS)

differential: build setup-tests
	$(PYTEST) tests/differential -q --tb=line $(ARGS)

test: check rust-tests outside-tests

# Rewrites tests/known-gaps.txt: closed gaps go, new ones come with what they said. Read the difference.
known-gaps: build setup-tests
	-MERIDIAN_GAPS=rewrite $(PYTEST) tests/differential tests/server -q --tb=no $(ARGS)

notices:
	scripts/notices
