# Everything runs in .venv, which is made here. Files of requirements/ pin every package of every
# environment by version and hash. All environments are made anew if one of these files changes; if
# pyproject.toml changes, the package is installed again.
# Only the conformance tests need the tools we compare with, which build/conformance-env holds, and
# only the distributed ones Spark, Dask and Ray, in build/distributed-env.
# Variables: PYTHON (default: the first of python3, python3.15 ... that is at least 3.11),
# ROWS (of the demo), WORKERS (processes that run tests), PYTEST_ARGS, SCALE_ARGS, SPARK_ARGS,
# COVERAGE_ARGS, ALARMS_ARGS, PROFILE_ARGS, TORCH (what pip is told to install for conformance-full:
# a build without CUDA will do).

# Programs that tests start read compiled modules: without them each start takes twice as long.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
QUIET_PIP := -m pip --quiet --disable-pip-version-check
CONFORMANCE := build/conformance-env/bin/python
DISTRIBUTED := build/distributed-env/bin/python
LOWEST := build/wheel-lowest-env/bin/python
PYTHON ?= python3 python3.15 python3.14 python3.13 python3.12 python3.11
ROWS ?= 1000000
TORCH ?= torch
MEASURES := GAUC,AUC,nDCG@10,AP,RR,ERR(max_grade=1)@10,P@10,R@10

# Tests run in WORKERS processes (0: in that of pytest itself). One without tests left takes half of
# those that wait for another.
WORKERS ?= auto
XDIST := -n $(WORKERS) --dist worksteal

# The file of requirements/ for `make test`.
PINS ?= test

# $(call install,PYTHON,FILE): install the pinned packages of a file, each checked by its hash.
# Modules are compiled where they are first imported, many never: half of the time of an installation.
PIP_PINNED := $(QUIET_PIP) install --no-compile --no-deps --require-hashes --no-build-isolation
define install
$(1) $(PIP_PINNED) --requirement requirements/build.txt
$(1) $(PIP_PINNED) --requirement requirements/$(strip $(2)).txt
endef

# $(call install_editable,PYTHON,FILE): the same, then this package from its folder.
define install_editable
$(call install,$(1),$(2))
$(1) $(QUIET_PIP) install --no-deps --no-build-isolation --editable .
endef

# $(call python_of,3.12): a Python of this version, on PATH or of pyenv; nothing if there is none.
PYENV_VERSIONS := $(or $(PYENV_ROOT),$(HOME)/.pyenv)/versions
python_of = $(firstword $(foreach python,python$(1) $(wildcard $(PYENV_VERSIONS)/$(1).*/bin/python), \
	$(shell "$(python)" -c "import sys; print(sys.executable)" 2>/dev/null)))

# What `make interpreters` runs the tests with: from the oldest Python that we support to the newest
# that Numba supports.
INTERPRETERS ?= 3.11 3.12 3.13 3.14 3.15

# The tests that `coverage` runs, and the other quick ones that reach kernels.
IN_PYTHON := kernels and not (slow or compiled)
IN_BOUNDS := not (slow or browser or no_kernels) and not ($(IN_PYTHON))
ALL_TESTS := --doctest-modules fastrank_eval data_gen tests

.PHONY: help demo test test-rest lint docs figures bench bench-scale bench-disk bench-spark bench-coverage bench-alarms bench-nulls profile \
	conformance conformance-full distributed coverage boundscheck pictures wheel wheel-demo \
	wheel-lowest release-check lowest interpreters upgrade pins clean

help:
	@echo "make demo         generate a click log and a month of nights, evaluate them, write the page"
	@echo "make test         run all tests, on all cores"
	@echo "make lint         ruff, mypy and the contracts of imports"
	@echo "make docs         build the documentation into build/docs, which opens without a server"
	@echo "make figures      count files, lines and circles, write bench/FIGURES.md"
	@echo "make bench        measure speed, write bench/RESULTS.md"
	@echo "make bench-scale  a million to a billion rows (SCALE_ARGS), write bench/SCALE.md"
	@echo "make bench-disk   sizes of a month of nights, of kernels and of spilled rows, write bench/DISK.md"
	@echo "make bench-spark  beside Spark's own shuffle and sort (SPARK_ARGS), write bench/SPARK.md"
	@echo "make bench-coverage  how often intervals hold the truth (COVERAGE_ARGS), write bench/COVERAGE.md"
	@echo "make bench-nulls  how often equal models differ in few users (NULLS_ARGS), write bench/NULLS.md"
	@echo "make bench-alarms  false and true alarms in a year of nights (ALARMS_ARGS), write bench/ALARMS.md"
	@echo "make profile      where the time goes (PROFILE_ARGS: --input, --measures, --compile ...)"
	@echo "make conformance  run the tools that profiles stand for beside them: those quick to install"
	@echo "make conformance-full  all of them, and write docs/reference/parity.md"
	@echo "make distributed  run the engine inside Spark, Dask and Ray (needs Java 17 or later)"
	@echo "make coverage     coverage of the kernels, JIT off"
	@echo "make boundscheck  the other quick tests that reach kernels, with array bounds checked"
	@echo "make test-rest    the tests that boundscheck leaves out"
	@echo "make fuzz         random inputs for parsers, files and properties, an hour each (SECONDS, TARGETS)"
	@echo "make mutants      whether tests fail where ties, gates, conditions, comparisons are changed (MUTANTS)"
	@echo "make pictures     write the pictures of the README, docs/*.png (needs chromium)"
	@echo "make wheel        build the package with machine code of the kernels into dist, in 1 to 7 minutes (x86-64 Linux)"
	@echo "make wheel-demo   the demo from such a wheel in a clean environment, nothing compiled"
	@echo "make wheel-lowest the same wheel with the lowest versions of its dependencies"
	@echo "make release-check  build the files of a release twice, run them, check them (AGAINST: a commit)"
	@echo "make lowest       run all tests with the lowest version of every dependency (Python 3.11)"
	@echo "make interpreters run all tests with each Python (INTERPRETERS) that is on this machine"
	@echo "make upgrade      pin the newest versions in requirements/, then run .ci/run and .ci/versions"
	@echo "make clean        remove .venv and everything built"

# $(call run_demo,FOLDER OF PROGRAMS,FOLDER OF DATA)
define run_demo
"$(1)/fastrank-eval" demo "$(2)" --rows $(ROWS) --overwrite && \
"$(1)/fastrank-eval" evaluate "$(2)/impressions.parquet" --group user_id --label click \
	--score score_a,score_b --measures "$(MEASURES)"
endef

# The month is meant to fail: its worst nights exit with 4.
demo: $(VENV)/.report
	$(call run_demo,$(BIN),build/demo)
	$(BIN)/fastrank-eval nightly build/demo/month/nightly.toml --backfill 2026-11-01..2026-11-30 \
		|| test $$? -eq 4
	$(BIN)/fastrank-eval demo build/demo --late
	$(BIN)/fastrank-eval nightly build/demo/month/nightly.toml --date 2026-11-24 || test $$? -eq 3
	@echo "the month's page is build/demo/month/report/index.html"

test: $(VENV)/.test
	$(BIN)/python -m tests.compile_kernels
	$(BIN)/python -m pytest $(XDIST) $(ALL_TESTS) $(PYTEST_ARGS)

# What `boundscheck` leaves out: both together are `test`.
test-rest: PYTEST_ARGS += -m "not ($(IN_BOUNDS))"
test-rest: test

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx --builder html --jobs auto --fail-on-warning --nitpicky --keep-going \
		--quiet docs build/docs
	@$(BIN)/python -m tests.documents --count
	@echo "the documentation is build/docs/index.html"

figures: $(VENV)/.test
	$(BIN)/python -m bench.figures

bench: $(VENV)/.test
	$(BIN)/python -m bench

bench-scale: $(VENV)/.test
	$(BIN)/python -m bench.scale $(SCALE_ARGS)

bench-disk: $(VENV)/.test
	$(BIN)/python -m bench.disk

bench-spark: $(VENV)/.test
	$(BIN)/python -m bench.spark $(SPARK_ARGS)

bench-coverage: $(VENV)/.test
	$(BIN)/python -m bench.coverage $(COVERAGE_ARGS)

bench-nulls: $(VENV)/.test
	$(BIN)/python -m bench.nulls $(NULLS_ARGS)

bench-alarms: $(VENV)/.test
	$(BIN)/python -m bench.alarms $(ALARMS_ARGS)

profile: $(VENV)/.test
	$(BIN)/python -m bench.profile $(PROFILE_ARGS)

# With an environment of its own, so that `make test` never comes to need a peer.
conformance: build/conformance-env/.made
	$(CONFORMANCE) -m pytest tests/conformance tests/integrations/test_*.py --require-peers $(PYTEST_ARGS)

conformance-full: build/conformance-env/.full
	$(CONFORMANCE) -m pytest tests/conformance --require-peers --parity docs/reference/parity.md $(PYTEST_ARGS)

# With an environment of its own too: Spark and Ray take most of a gigabyte.
distributed: build/distributed-env/.made
	$(DISTRIBUTED) -m pytest tests/distributed tests/integrations/spark/test_keys.py --require-engines $(PYTEST_ARGS)

build/conformance-env/.made: pyproject.toml $(VENV)/.made
	$(BIN)/python -m venv --clear build/conformance-env
	$(call install_editable,$(CONFORMANCE),conformance)
	@touch $@

# PyTorch is not pinned: its build depends on the machine.
build/conformance-env/.full: build/conformance-env/.made
	$(CONFORMANCE) $(QUIET_PIP) install $(TORCH)
	$(call install,$(CONFORMANCE),conformance-full)
	@touch $@

build/distributed-env/.made: pyproject.toml $(VENV)/.made
	$(BIN)/python -m venv --clear build/distributed-env
	$(call install_editable,$(DISTRIBUTED),distributed)
	@touch $@

pictures: $(VENV)/.test
	$(BIN)/python -m tests.pictures

# With the JIT off every loop runs in Python, so NumPy checks every index. NumPy's scalars warn where
# compiled integers wrap, as hashes do on purpose.
coverage: $(VENV)/.test
	$(BIN)/python -m coverage erase
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m coverage run -m pytest -q $(XDIST) \
		-m "$(IN_PYTHON)" \
		-W "ignore:overflow encountered:RuntimeWarning" tests $(PYTEST_ARGS)
	$(BIN)/python -m coverage combine -q
	$(BIN)/python -m coverage report

boundscheck: $(VENV)/.test
	NUMBA_BOUNDSCHECK=1 \
		$(BIN)/python -m pytest -q $(XDIST) \
		-m "$(IN_BOUNDS)" $(ALL_TESTS) $(PYTEST_ARGS)

# Fuzzing and mutants, hours long, with an environment of their own. SECONDS (of Atheris and of
# HypoFuzz), TARGETS (all, or some functions of tests/fuzz/targets.py, or properties), MUTANTS (areas,
# the files of tests/mutation/).
FUZZ := build/fuzz-env/bin/python
SECONDS ?= 3600
MUTANTS ?= $(basename $(notdir $(wildcard tests/mutation/*.toml)))

.PHONY: fuzz mutants
fuzz: build/fuzz-env/.made
	$(FUZZ) -m tests.fuzz --seconds $(SECONDS) $(TARGETS)

mutants: build/fuzz-env/.made
	failed=0; for area in $(MUTANTS); do $(FUZZ) -m tests.mutation $$area || failed=1; done; exit $$failed

# Atheris has no wheels for a newer Python.
FUZZ_PYTHON = $(firstword $(foreach version,3.11 3.12 3.13,$(call python_of,$(version))))
build/fuzz-env/.made: pyproject.toml $(wildcard requirements/*.txt)
	@test -n "$(FUZZ_PYTHON)" || { echo "error: make fuzz and make mutants need Python 3.11, 3.12 or 3.13," \
		"for which Atheris has wheels; install one" >&2; exit 1; }
	"$(FUZZ_PYTHON)" -m venv --clear build/fuzz-env
	$(call install_editable,$(FUZZ),fuzz)
	@touch $@

# A plain `python -m build` makes a pure wheel, which compiles kernels at their first use.
wheel: $(VENV)/.dev
	$(call build_wheel,dist)

wheel-demo: build/wheel/.made
	folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && bin="$(CURDIR)/build/wheel-env/bin" && \
	"$$bin/python" tests/first_run.py "$(CURDIR)/build/wheel/newest" && \
	cd "$$folder" && $(call run_demo,$$bin,$$folder)

# Object files of the newest LLVM in the oldest llvmlite that we support. The lowest versions have
# wheels for Python 3.11.
wheel-lowest: wheel-demo
	"$(or $(call python_of,3.11),$(BIN)/python)" -m venv --clear build/wheel-lowest-env
	$(call install,$(LOWEST),wheel-lowest)
	$(LOWEST) $(QUIET_PIP) install --no-deps --no-index build/wheel/*.whl
	$(LOWEST) tests/first_run.py build/wheel/lowest
	cmp build/wheel/newest/x86-64-v2.json build/wheel/lowest/x86-64-v2.json

# Outside of this folder: the last commit is built twice, each wheel runs in an environment of its own.
# AGAINST: the commit or tag whose public names must not break, by default the last tag.
release-check: build/release-env/.made
	build/release-env/bin/python -m pytest -q --noconftest tests/release
	build/release-env/bin/python -m tests.release.check --against "$(AGAINST)"

# Without this package: what builds and checks it must not import it from here.
build/release-env/.made: $(VENV)/.made
	$(BIN)/python -m venv --clear build/release-env
	$(call install,build/release-env/bin/python,release)
	@touch $@

define build_wheel
HATCH_BUILD_HOOK_ENABLE_CUSTOM=true $(BIN)/python -m build --no-isolation --outdir $(1) .
endef

.PHONY: build/wheel/.made
build/wheel/.made: $(VENV)/.dev
	rm -rf build/wheel
	$(call build_wheel,build/wheel)
	$(BIN)/python -m venv --clear build/wheel-env
	$(call install,build/wheel-env/bin/python,wheel)
	build/wheel-env/bin/python $(QUIET_PIP) install --no-deps --no-index build/wheel/*.whl

# Whole suites, apart from .ci/run: .ci/versions runs them. Old libraries call deprecated functions of
# new ones: these warnings are no errors.
lowest:
	@test -n "$(call python_of,3.11)" || { echo "error: make lowest needs Python 3.11" >&2; exit 1; }
	$(MAKE) VENV=build/lowest-env PINS=lowest PYTHON="$(call python_of,3.11)" \
		PYTEST_ARGS="-W ignore::DeprecationWarning $(PYTEST_ARGS)" test

RUN = $(strip $(foreach version,$(INTERPRETERS),$(if $(call python_of,$(version)),$(version))))
interpreters: $(INTERPRETERS:%=interpreter-%)
	@echo "tests run with Python: $(or $(RUN),none); skipped: $(or $(filter-out $(RUN),$(INTERPRETERS)),none)"
	@test -n "$(RUN)" || { echo "error: no Python of '$(INTERPRETERS)' on this machine; install one," \
		"or name others: make interpreters INTERPRETERS=3.11" >&2; exit 1; }

interpreter-%:
	$(if $(call python_of,$*),$(MAKE) VENV=build/python-$* PYTHON="$(call python_of,$*)" test, \
		@echo "skipped: no Python $* on this machine")

upgrade: pins
	.ci/run
	.ci/versions

# $(call pin,FILE,OPTIONS): write a file of pins, from PyPI.
define pin
$(BIN)/uv pip compile --quiet --upgrade --generate-hashes --no-emit-index-url --python-version 3.11 \
	--custom-compile-command "make upgrade" --output-file requirements/$(1).txt $(2)
endef

# .venv has the packages of several files, so these have the same versions as test.txt. The lowest
# versions are for one platform: no version of a package fits every Python.
pins: $(VENV)/.dev
	$(call pin,test,--universal pyproject.toml --extra test)
	$(call pin,dev,--universal pyproject.toml --extra dev --constraint requirements/test.txt)
	$(call pin,docs,--universal pyproject.toml --extra docs --constraint requirements/test.txt \
		--constraint requirements/dev.txt)
	$(call pin,report,--universal pyproject.toml --extra report --constraint requirements/test.txt)
	$(call pin,wheel,--universal pyproject.toml --extra stats --constraint requirements/test.txt)
	$(call pin,build,--universal --group build --constraint requirements/dev.txt)
	$(call pin,fuzz,--universal pyproject.toml --extra fuzz --constraint requirements/test.txt)
	$(call pin,release,--universal pyproject.toml --extra release --constraint requirements/dev.txt)
	$(call pin,distributed,--universal pyproject.toml --extra distributed)
	$(call pin,conformance,--universal pyproject.toml --extra conformance)
	$(call pin,conformance-full,--universal pyproject.toml --extra conformance-full \
		--group conformance-full --no-emit-package torch --constraint requirements/conformance.txt)
	$(call pin,lowest,$(PIN_LOWEST) --extra test --extra conformance --extra dask --extra ir_measures \
		--extra outofcore --extra ray --extra report --extra serve --extra spark --extra stats)
	$(call pin,wheel-lowest,$(PIN_LOWEST) --extra stats)

PIN_LOWEST := --resolution lowest-direct --python-platform x86_64-manylinux_2_28 pyproject.toml

clean:
	rm -rf $(VENV) build dist .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.made: $(wildcard requirements/*.txt)
	@for python in $(PYTHON); do \
		if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
			echo "making $(VENV) with $$python"; \
			"$$python" -m venv --clear $(VENV) && touch $@ && exit 0; \
			rm -rf $(VENV); exit 1; \
		fi; \
	done; \
	echo "error: none of '$(PYTHON)' is Python 3.11 or newer; install one," \
		"or name it: make PYTHON=/path/to/python3.11" >&2; exit 1

$(VENV)/.report: pyproject.toml $(VENV)/.made
	$(call install_editable,$(BIN)/python,report)
	@touch $@

$(VENV)/.test: pyproject.toml $(VENV)/.made
	$(call install_editable,$(BIN)/python,$(PINS))
	@touch $@ $(VENV)/.report

$(VENV)/.docs: $(VENV)/.test
	$(call install,$(BIN)/python,docs)
	@touch $@

$(VENV)/.dev: $(VENV)/.test
	$(call install,$(BIN)/python,dev)
	@touch $@
