# Two commands do everything a newcomer needs: `make demo` and `make test`. `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.NOTPARALLEL:

export CARGO_TERM_COLOR ?= auto
JOBS ?= $(shell nproc)
KASURI := target/release/kasuri
# What tests use: the command as cargo builds it for its own tests, with debug assertions and an optimised recorder. So it is built once.
TESTED := target/debug/kasuri
# The kernel's events need root; without it a recording still has annotations and the program's own switches.
SUDO := $(shell [ "$$(id -u)" = 0 ] || command -v sudo)
DEMO := target/demo/quake

.PHONY: help deps deps-test deps-site build c viewer rust tested demo test check ci lint fmt clean bench install site deb static sdist python test-deb test-static \
        test-c test-rust test-viewer test-sanitizers test-asan test-tsan test-model test-cross test-account test-hostile test-kills test-python test-fleet test-docs test-guides test-packages test-measure audit fuzz fuzz-hostile

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z%-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# ---- dependencies -------------------------------------------------------------------------------------------------
# Debian / Ubuntu packages: what building needs, and what tests and checks need beside it.
APT := build-essential cmake pkg-config python3
APT_TEST := abigail-tools clang clang-format libomp-dev gfortran chromium linux-perf gdb trace-cmd pigz pbzip2 xz-utils protobuf-compiler jq \
       gcc-aarch64-linux-gnu libc6-dev-arm64-cross gcc-riscv64-linux-gnu libc6-dev-riscv64-cross gcc-arm-linux-gnueabihf libc6-dev-armhf-cross \
       gcc-i686-linux-gnu libc6-dev-i386-cross gcc-s390x-linux-gnu libc6-dev-s390x-cross \
       qemu-user-static tmux memcached redis-server sysbench python3-pip python3-venv babeltrace2

deps: ## install what building needs and is missing: apt packages, npm modules, cargo crates
	@tools/deps $(APT)

deps-test: ## the same for tests and checks: compilers, emulators, servers, a browser
	@tools/deps --test $(APT) $(APT_TEST)

deps-site: ## what `make site` needs: mdBook, from its source, into target/tools
	@tools/deps --site

# ---- build --------------------------------------------------------------------------------------------------------
build: c viewer rust ## build everything (release)

c: ## build annotate/ and examples/ into build/
	cmake -S . -B build -DCMAKE_BUILD_TYPE=RelWithDebInfo --log-level=WARNING
	cmake --build build -j $(JOBS)

viewer: ## build the HTML viewer into viewer/dist
	cd viewer && npm run --silent build

rust: viewer ## build the kasuri command
	cargo build --release --locked -p kasuri-cli

# Of the whole workspace, for the same features as its tests: cargo would compile all again for others.
tested: viewer ## the command as tests use it
	cargo build --workspace --locked --bin kasuri

# ---- demo ---------------------------------------------------------------------------------------------------------
# No more is built than the picture needs: neither probes nor libraries, and where there is no release yet, the command as tests use it:
# its recorder is optimised, too, and it takes half the time.
DEMO_KASURI := $(or $(wildcard $(KASURI)),$(TESTED))
demo: deps viewer ## record a real parallel program and leave an HTML report
	cargo build --workspace --locked --bin kasuri $(if $(filter $(KASURI),$(DEMO_KASURI)),--release)
	cmake -S . -B build -DCMAKE_BUILD_TYPE=RelWithDebInfo --log-level=WARNING
	cmake --build build -j $(JOBS) --target quake
	@mkdir -p $(dir $(DEMO))
	$(SUDO) $(DEMO_KASURI) record -o $(DEMO).kasuri -- build/examples/quake
	$(DEMO_KASURI) stat $(DEMO).kasuri
	$(DEMO_KASURI) report $(DEMO).kasuri -o $(DEMO).html
	@printf '\nThe Gantt chart: %s\nOpen it in a browser; press ? there for help.\n' "$(CURDIR)/$(DEMO).html"

# ---- test ---------------------------------------------------------------------------------------------------------
# Each stage runs, also when one before it failed; a table at the end.
STAGES := deps-test c viewer tested test-c test-cross test-rust test-model test-viewer test-asan test-tsan test-locks test-hostile test-packages test-docs test-measure
test: ## pass all tests
	@tests/stages $(STAGES)
	@echo 'all tests passed'

ci: ## what CI runs: checks, all tests, the demo
	@tests/stages deps-test lint $(filter-out deps-test,$(STAGES)) demo

test-cross test-viewer test-locks test-hostile fuzz-hostile test-docs test-guides: export KASURI := $(CURDIR)/$(TESTED)

# A test that fails is run again, twice at most; tests/stages lists those that passed then. What measures runs in test-measure.
CTEST := ctest --output-on-failure --repeat until-pass:3
# Four at a time, also on two CPUs: these wait for a third of their time.
test-c: c ## C, C++ and Fortran tests
	$(CTEST) --test-dir build -LE measure -j 4

# Claims about time, shares of a CPU and ratios: one after the other, nothing beside them. A test that fails where its machine was
# busy says "too noisy to say", which is no failure.
test-measure: c viewer ## tests that measure: alone, one after the other
	[ -d /sys/kernel/tracing/events ] || $(SUDO) mount -t tracefs nodev /sys/kernel/tracing || true
	$(CTEST) --test-dir build -L measure --no-tests=ignore
	cargo nextest run --workspace --locked --no-fail-fast --profile measure

# perf, trace-cmd and the tests that compare with them look for tracefs in its usual place.
test-rust: c viewer ## Rust unit, property and end-to-end tests
	[ -d /sys/kernel/tracing/events ] || $(SUDO) mount -t tracefs nodev /sys/kernel/tracing || true
	cargo nextest run --workspace --locked --no-fail-fast
	cargo test --doc --workspace --locked

KILLS ?= 1000
UNDISTURBED ?= 500
test-kills: c ## not part of test, takes forty minutes: KILLS (1000) kills at random moments, UNDISTURBED (500) runs, nothing lost that is not counted; KASURI_SEED=N repeats one
	KASURI_KILLS=$(KILLS) KASURI_UNDISTURBED=$(UNDISTURBED) cargo test --locked -p kasuri-cli --test record -- kills::kept_and_lost --nocapture --test-threads 1

test-model: ## model checks of the lock-free protocols, with their negative controls
	RUSTFLAGS="--cfg loom" cargo test --release --locked -p kasuri-model-ring --target-dir target/loom
	cargo test --release --locked -p kasuri-model-deque -p kasuri-model-park

test-cross: tested ## libito's tests on aarch64, riscv64 and armv7, under qemu-user; with the portable context; annotations on i686, armv7 and s390x; an i686 program recorded
	threads/tests/cross
	annotate/tests/cross
	$(SUDO) tests/cross/run --self-test $(KASURI)
	$(SUDO) tests/cross/run $(KASURI)

test-viewer: c tested ## viewer unit tests, then a real browser, also with a recording made for it
	@mkdir -p target/test
	$(SUDO) $(KASURI) record -q -o target/test/quake.kasuri -- build/examples/quake -n 100 >target/test/quake.txt
	$(KASURI) report target/test/quake.kasuri -o target/test/quake.html
	$(SUDO) $(KASURI) record -q --locks -o target/test/locks.kasuri -- build/examples/synthetic -n 3000 -h 2000 -r 0.3 >target/test/locks.txt
	$(KASURI) report target/test/locks.kasuri -o target/test/locks.html
	cd viewer && npm run --silent test && KASURI_REPORT=../target/test/quake.html KASURI_LOCKS_REPORT=../target/test/locks.html KASURI_RECORDING=../target/test/quake.kasuri npm run --silent e2e

# AddressSanitizer with UndefinedBehaviorSanitizer, and ThreadSanitizer, with clang: so the C parts are also known to pass with a second compiler.
# Left out: a set-user-id program, which LeakSanitizer may not look into. Left out for their time: examples that compute for
# long (they run in test-c), compilers of other languages, ten thousand recordings for their memory; under ThreadSanitizer
# the probe's test with thousands of locks, which takes a minute there. ThreadSanitizer's second of sleep at the end of
# each process is left out too: our programs join their threads before they end.
comma := ,
SAN_SLOW := ^example\.(ito|quake|mpeg2|art)\.|^example\.graph\.quake_|^annotate\.(compiles_everywhere|guide_examples|set_user_id_programs_do_not_attach|ten_thousand_recordings_leave_nothing)$$
SAN_SLOW_thread := |^probes\.many_locks_and_short_threads$$
SANITIZED = CC=clang CXX=clang++ cmake -S . -B $(1) -DKASURI_SANITIZE=$(2) -DCMAKE_BUILD_TYPE=RelWithDebInfo >/dev/null && cmake --build $(1) -j $(JOBS)
test-sanitizers: test-asan test-tsan ## C tests under ASan, UBSan and TSan

test-asan: ## C tests under AddressSanitizer and UndefinedBehaviorSanitizer
	$(call SANITIZED,build/san-address,address$(comma)undefined)
	$(CTEST) --test-dir build/san-address -E '$(SAN_SLOW)' -LE measure -j 2

test-tsan: export TSAN_OPTIONS := atexit_sleep_ms=0
test-tsan: ## C tests under ThreadSanitizer, some of ito's also with gcc's
	$(call SANITIZED,build/san-thread,thread)
	$(CTEST) --test-dir build/san-thread -E '$(SAN_SLOW)$(SAN_SLOW_thread)' -LE measure -j 2
	CC=gcc CXX=g++ cmake -S threads -B build/san-thread-gcc -DKASURI_SANITIZE=thread -DCMAKE_BUILD_TYPE=RelWithDebInfo >/dev/null
	cmake --build build/san-thread-gcc -j $(JOBS) --target ito_race ito_test_sync ito_test_channels
	$(CTEST) --test-dir build/san-thread-gcc -LE measure -R '^ito\.(race|(sync|channels)\.[a-z_]*\.(2|8)$$)' -E 'ito.sync.(rwlock|sem|barrier|once|group|loop|short|two|reduce|future|sleep)' -j 2

test-account: c rust ## not part of test, wants a quiet machine: the account against programs that measured their own losses; against real ones; a newcomer's trial
	$(SUDO) tests/planted/check --rounds 60
	$(SUDO) tests/real/run --quick
	$(SUDO) tests/trial/run

test-locks: c tested ## real programs full of locks under the lock probe
	$(SUDO) KASURI=$(KASURI) tests/locks/programs

test-hostile: tested ## damaged and hostile files in every reading command, the same ones each time
	tests/hostile/files --self-test
	tests/hostile/files --kasuri $(KASURI)

HOSTILE_SECONDS ?= 3600
fuzz-hostile: c tested ## others than in test-hostile, and new recordings, for HOSTILE_SECONDS (3600)
	$(SUDO) tests/hostile/files --kasuri $(KASURI) --seconds $(HOSTILE_SECONDS) --seed $$(date +%s)

# The wheel is installed into an environment of its own, with DuckDB, and tested there.
VENV := target/venv
python: rust ## the wheel for Python, of the command that is built, into target/wheels
	tools/python wheel

sdist: viewer ## the Python package as source, into target/wheels (needs maturin)
	tools/python sdist

test-python: c python ## not part of test: kasuri sql with DuckDB; the Python package
	[ -d $(VENV) ] || python3 -m venv $(VENV)
	wheel=$$(ls -t target/wheels/kasuri-*.whl | head -1); \
	$(VENV)/bin/pip install -q --force-reinstall --no-deps "$$wheel"; \
	$(VENV)/bin/pip install -q "$$wheel[test]"
	PATH=$(CURDIR)/$(VENV)/bin:$$PATH MPLBACKEND=Agg $(VENV)/bin/python -m pytest -q python/tests

test-fleet: test-python ## not part of test, fetches 450 MB: every query in DuckDB and on a Spark cluster, equal answers
	$(VENV)/bin/pip install -q 'pyspark>=4,<5'
	PATH=$(CURDIR)/$(VENV)/bin:$$PATH $(VENV)/bin/python -m pytest -q python/tests_fleet

check: ## what a change touches, in a few minutes: its crates, the command above them, its C room, the viewer's units, the lints
	@tests/check

test-packages: ## the installer, against a local server
	tests/packages/installer

test-docs: c tested ## links and paths in the documents resolve; the shell blocks that a newcomer reads first run
	tests/docs/check-links
	tests/docs/blocks --list >/dev/null
	$(SUDO) KASURI=$(KASURI) tests/docs/blocks --first

test-guides: c tested ## not part of test, takes two minutes: every shell block of the README and the guides runs
	$(SUDO) KASURI=$(KASURI) tests/docs/blocks

lint: deps-test viewer ## formatting and static checks, as CI runs them
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	git ls-files '*.c' '*.h' '*.cpp' '*.hpp' | xargs clang-format --dry-run --Werror
	cd viewer && npm run --silent typecheck && npm run --silent lint
	tests/lint/session-paths
	tests/lint/raw-prints
	tests/lint/atomic-orders
	annotate/amalgamate --check
	tests/lint/circles
	tests/lint/modules
	tests/lint/crates

audit: ## licences and sources of the crates that are used (deny.toml); their known faults, which needs the network: not part of lint, as a new one fails what did not change
	tools/audit

fmt: ## format everything
	cargo fmt --all
	git ls-files '*.c' '*.h' '*.cpp' '*.hpp' | xargs clang-format -i

collection: rust ## twelve sick programs: what Kasuri says of each, the cure and what it brought, as pages in target/collection; wants a quiet machine
	examples/collection/collect

FUZZ_SECONDS ?= 30
FUZZ_TARGETS := $(patsubst fuzz/fuzz_targets/%.rs,%,$(wildcard fuzz/fuzz_targets/*.rs))
# What libFuzzer wants to know of the code: LLVM's pass by name, which the stable compiler takes.
FUZZ_FLAGS := --cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
	-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
	-Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks
fuzz: ## run every fuzz target (FUZZ_TARGETS) for FUZZ_SECONDS, from where it ended last time
	cd fuzz && CARGO_TARGET_DIR=$(CURDIR)/target/fuzz RUSTFLAGS="$(FUZZ_FLAGS)" \
	  cargo build --locked --release --target $(shell rustc -vV | sed -n 's/^host: //p') $(FUZZ_TARGETS:%=--bin %)
	for t in $(FUZZ_TARGETS); do \
	  found=target/fuzz/corpus/$$t; mkdir -p $$found target/fuzz/findings; \
	  seeds=$$(ls -d tests/corpus/format/$$t tests/corpus/$$t 2>/dev/null || true); \
	  target/fuzz/*/release/$$t $$found $$seeds -artifact_prefix=target/fuzz/findings/$$t- -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=1024 || exit 1; \
	done

# ---- bench --------------------------------------------------------------------------------------------------------
BENCHES := openmp account annotate collector compilers examples hints ito load locks overhead viewer predict
bench: $(BENCHES:%=bench-%) ## run all benchmarks; results in target/bench/*.json

bench-%: build ## run one benchmark: annotate, examples, load or viewer
	bench/$*/run

PREFIX ?= /usr/local
install: build ## install the command, header, libraries, man pages and completions under PREFIX
	tools/install $(DESTDIR)$(PREFIX)

# The sick programs are on it where `make collection` ran before.
site: rust ## guides, a reference made from the command, and the sick programs, with a search: HTML in target/site (needs make deps-site)
	tools/site
	tests/docs/check-links --site target/site

# What `kasuri --version` says of what is installed.
deb static install: export KASURI_COMMIT := $(shell git describe --always --dirty --abbrev=12 2>/dev/null)
# Without the examples and the compilers' plugins, each of which fits one version of a compiler.
deb: rust ## Debian packages for this architecture in target/packages (needs dpkg-dev; lintian checks it where it is installed)
	cmake -S . -B build/package -DCMAKE_BUILD_TYPE=RelWithDebInfo -DKASURI_LIBRARIES_ONLY=ON -DBUILD_TESTING=OFF -DCMAKE_INSTALL_PREFIX=/usr \
	  -DCMAKE_INSTALL_LIBDIR=lib/$$(dpkg-architecture -qDEB_HOST_MULTIARCH) --log-level=WARNING
	cmake --build build/package -j $(JOBS)
	tools/copyright --self-test
	tools/deb
	if command -v lintian >/dev/null; then lintian --allow-root --fail-on error,warning target/packages/*.deb; fi

# musl's headers are not the kernel's, which the annotations need.
STATIC := $(shell uname -m)-unknown-linux-musl
static: viewer ## the command as one file for any Linux of this architecture, in a tarball in target/packages (needs rustup and musl-tools)
	rustup target add $(STATIC)
	CC_$(subst -,_,$(STATIC))=musl-gcc CFLAGS_$(subst -,_,$(STATIC))="-idirafter /usr/include -idirafter /usr/include/$$(uname -m)-linux-gnu" \
	  cargo build --locked --profile dist -p kasuri-cli --target $(STATIC)
	KASURI=target/$(STATIC)/dist/kasuri tools/static

SUITES ?= $(shell . /etc/os-release; echo $$VERSION_CODENAME)
test-deb: deb ## not part of test, needs debootstrap and the network: the packages installed, updated, used and removed on bare systems, SUITES (this machine's release)
	$(SUDO) tests/packages/run target/packages/kasuri_*.deb $(SUITES)

test-static: static ## not part of test, needs debootstrap and the network: the tarball used on bare systems, SUITES, and on one without glibc
	$(SUDO) tests/packages/run target/packages/kasuri-*.tar.gz $(SUITES) busybox

clean: ## remove everything built
	rm -rf build target viewer/dist
