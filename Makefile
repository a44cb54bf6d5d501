# Everything runs in .venv, which is made here. Files of requirements/ pin every package of every
# environment by version and hash. All environments are made anew if one of these files changes; if
# pyproject.toml changes, the package is installed again.
# Only the conformance tests need the tools we compare with, which build/conformance-env holds, and
# only the distributed ones Spark, Dask and Ray, in build/distributed-env.
# Variables: PYTHON (default: the first of python3, python3.15 ... that is at least 3.11),
# ROWS (of the demo), WORKERS (processes that run tests), PYTEST_ARGS, TORCH (what pip is told to
# install for PEERS=all: a build without CUDA will do).

# Programs that tests start read compiled modules: without them each start takes twice as long.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
QUIET_PIP := -m pip --quiet --disable-pip-version-check
CONFORMANCE := build/conformance-env/bin/python
DISTRIBUTED := build/distributed-env/bin/python
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

# What `make versions` runs the tests with: the lowest version of every dependency, and the newest
# ones with each Python, from the oldest that we support to the newest that Numba supports.
INTERPRETERS ?= 3.11 3.12 3.13 3.14 3.15
VERSIONS ?= lowest $(filter-out $(TESTED),$(INTERPRETERS))

# The tests of kernels that `make kernels` runs with the JIT off, and the other quick ones that reach
# kernels, which it runs with array bounds checked.
IN_PYTHON := kernels and not (slow or compiled)
IN_BOUNDS := not (slow or browser or no_kernels) and not ($(IN_PYTHON))
ALL_TESTS := --doctest-modules fastrank_eval data_gen tests

.PHONY: help demo test lint docs figures bench smoke kernels conformance distributed versions wheel \
	release-check fuzz mutants pins clean

help:
	@echo "make demo           generate a click log and a month of nights, evaluate them, write the page"
	@echo "make test           run all tests, on all cores"
	@echo "make lint           ruff, mypy and the contracts of imports"
	@echo "make docs           build the documentation into build/docs, which opens without a server"
	@echo "make smoke          a test each of Spark, of a wheel, of kernels with array bounds checked"
	@echo "make figures        count what the code is made of, print it, write bench/FIGURES.md"
	@echo "make bench          measure speed, write bench/RESULTS.md; ARGS=\"scale --help\" names others:"
	@echo "                    alarms, cores, coverage, disk, lock, nulls, profile, scale, spark"
	@echo "make kernels        tests of kernels again: coverage with the JIT off, array bounds checked"
	@echo "make conformance    run the tools that profiles stand for beside them: those quick to install"
	@echo "                    (PEERS=all: all of them, and write docs/reference/parity.md)"
	@echo "make distributed    run the engine inside Spark, Dask and Ray (needs Java 17 or later)"
	@echo "make versions       run all tests with the lowest dependencies and each Python (VERSIONS)"
	@echo "make wheel          build the package with machine code of the kernels into dist (x86-64 Linux)"
	@echo "make release-check  build the files of a release twice, run them, check them (AGAINST: a commit)"
	@echo "make fuzz           random inputs for parsers, files and properties, an hour each (SECONDS, TARGETS)"
	@echo "make mutants        whether tests fail where ties, gates, comparisons ... are changed (MUTANTS)"
	@echo "make pins           pin the newest versions in requirements/; run .ci/run and .ci/full after it"
	@echo "make clean          remove .venv and everything built"

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

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

docs: $(VENV)/.dev
	$(BIN)/python -m sphinx --builder html --jobs auto --fail-on-warning --nitpicky --keep-going \
		--quiet docs build/docs
	@$(BIN)/python -m tests.documents --count
	@echo "the documentation is build/docs/index.html"

figures: $(VENV)/.test
	$(BIN)/python -m bench.figures

bench: $(VENV)/.test
	$(BIN)/python -m bench $(ARGS)

# A little of what .ci/full has whole. Spark is beside the packages of .venv.
smoke: $(VENV)/.dev build/spark-env/.made
	NUMBA_BOUNDSCHECK=1 $(BIN)/python -m pytest -q tests/groups/test_sort.py
	build/spark-env/bin/python -m pytest -q tests/distributed/test_spark_numbers.py -k "any_number and 7" \
		--require-engines=pyspark
	rm -rf build/smoke
	$(BIN)/python -m build --no-isolation --wheel --outdir build/smoke .
	$(BIN)/python $(QUIET_PIP) install --no-deps --no-index --target build/smoke/packages build/smoke/*.whl
	cd build/smoke && PYTHONPATH=packages ../../$(BIN)/python -m fastrank_eval demo demo --rows 10000
	cd build/smoke && PYTHONPATH=packages ../../$(BIN)/python -m fastrank_eval evaluate \
		demo/impressions.parquet --group user_id --label click --score score_a --measures GAUC

# With an environment of its own, so that `make test` never comes to need a peer.
conformance: build/conformance-env/$(if $(filter all,$(PEERS)),.full,.made)
	$(CONFORMANCE) -m pytest tests/conformance --require-peers $(PYTEST_ARGS) \
		$(if $(filter all,$(PEERS)),--parity docs/reference/parity.md,tests/integrations/test_*.py)

# With an environment of its own too: Spark and Ray take most of a gigabyte.
distributed: build/distributed-env/.made
	$(DISTRIBUTED) -m pytest tests/distributed tests/integrations/spark/test_keys.py $(PYTEST_ARGS) --require-engines

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

build/spark-env/.made: $(VENV)/.test
	$(BIN)/python -m venv --clear build/spark-env
	realpath $(VENV)/lib/python*/site-packages >$$(echo build/spark-env/lib/python*/site-packages)/beside.pth
	$(call install,build/spark-env/bin/python,spark)
	@touch $@

# With the JIT off every loop runs in Python, so NumPy checks every index. NumPy's scalars warn where
# compiled integers wrap, as hashes do on purpose.
kernels: $(VENV)/.test
	$(BIN)/python -m coverage erase
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m coverage run -m pytest -q $(XDIST) \
		-m "$(IN_PYTHON)" \
		-W "ignore:overflow encountered:RuntimeWarning" tests $(PYTEST_ARGS)
	$(BIN)/python -m coverage combine -q
	$(BIN)/python -m coverage report
	NUMBA_BOUNDSCHECK=1 $(BIN)/python -m pytest -q $(XDIST) -m "$(IN_BOUNDS)" $(ALL_TESTS) $(PYTEST_ARGS)

# Fuzzing and mutants, hours long, with an environment of their own. SECONDS (of Atheris and of
# HypoFuzz), TARGETS (all, or some functions of tests/fuzz/targets.py, or properties), MUTANTS (areas,
# the files of tests/mutation/).
FUZZ := build/fuzz-env/bin/python
SECONDS ?= 3600
MUTANTS ?= $(basename $(notdir $(wildcard tests/mutation/*.toml)))

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
	HATCH_BUILD_HOOK_ENABLE_CUSTOM=true $(BIN)/python -m build --no-isolation --outdir dist .

# Outside of this folder: the last commit is built twice, each wheel runs in an environment of its own.
# AGAINST: the commit or tag whose public names must not break, by default the last tag. Then object
# files of the newest LLVM run in the newest and in the oldest llvmlite that we support, whose versions
# have wheels for Python 3.11.
release-check: build/release-env/.made
	build/release-env/bin/python -m pytest -q --noconftest tests/release
	build/release-env/bin/python -m tests.release.check --against "$(AGAINST)"
	$(call run_wheel,wheel,$(BIN)/python)
	$(call run_wheel,wheel-lowest,$(or $(call python_of,3.11),$(BIN)/python))
	cmp build/wheel/x86-64-v2.json build/wheel-lowest/x86-64-v2.json

# $(call run_wheel,FILE,PYTHON): install the wheel of dist with the packages of a file, and run it.
define run_wheel
"$(2)" -m venv --clear build/$(1)-env
$(call install,build/$(1)-env/bin/python,$(1))
build/$(1)-env/bin/python $(QUIET_PIP) install --no-deps --no-index dist/*manylinux*.whl
build/$(1)-env/bin/python tests/first_run.py build/$(1)
endef

# Without this package: what builds and checks it must not import it from here.
build/release-env/.made: $(VENV)/.made
	$(BIN)/python -m venv --clear build/release-env
	$(call install,build/release-env/bin/python,release)
	@touch $@

# Old libraries call deprecated functions of new ones: these warnings are no errors.
RUN = $(strip $(foreach version,$(filter-out lowest,$(VERSIONS)),$(if $(call python_of,$(version)),$(version))))
versions: $(VERSIONS:%=version-%)
	@echo "tests run with Python: $(or $(RUN),none); skipped: $(or $(filter-out lowest $(RUN),$(VERSIONS)),none)"
	@test -n "$(RUN)$(filter lowest,$(VERSIONS))" || { echo "error: no Python of '$(VERSIONS)' on this machine; install one," \
		"or name others: make versions VERSIONS=3.11" >&2; exit 1; }

version-lowest:
	@test -n "$(call python_of,3.11)" || { echo "error: the lowest versions need Python 3.11" >&2; exit 1; }
	$(MAKE) VENV=build/lowest-env PINS=lowest PYTHON="$(call python_of,3.11)" \
		PYTEST_ARGS="-W ignore::DeprecationWarning $(PYTEST_ARGS)" test

version-%:
	$(if $(call python_of,$*),$(MAKE) VENV=build/python-$* PYTHON="$(call python_of,$*)" test, \
		@echo "skipped: no Python $* on this machine")

# $(call pin,FILE,OPTIONS): write a file of pins, from PyPI.
define pin
$(BIN)/uv pip compile --quiet --upgrade --generate-hashes --no-emit-index-url --python-version 3.11 \
	--custom-compile-command "make pins" --output-file requirements/$(1).txt $(2)
endef

# .venv has the packages of several files, so these have the same versions as test.txt. The lowest
# versions are for one platform: no version of a package fits every Python.
pins: $(VENV)/.dev
	$(call pin,test,--universal pyproject.toml --extra test)
	$(call pin,dev,--universal pyproject.toml --extra dev --constraint requirements/test.txt)
	$(call pin,report,--universal pyproject.toml --extra report --constraint requirements/test.txt)
	$(call pin,wheel,--universal pyproject.toml --constraint requirements/test.txt)
	$(call pin,build,--universal --group build --constraint requirements/dev.txt)
	$(call pin,fuzz,--universal pyproject.toml --extra fuzz --constraint requirements/test.txt)
	$(call pin,release,--universal pyproject.toml --extra release --constraint requirements/dev.txt)
	$(call pin,distributed,--universal pyproject.toml --extra distributed)
	$(call pin,spark,--universal pyproject.toml --extra spark --constraint requirements/test.txt \
		--constraint requirements/distributed.txt)
	$(call pin,conformance,--universal pyproject.toml --extra conformance)
	$(call pin,conformance-full,--universal pyproject.toml --extra conformance-full \
		--group conformance-full --no-emit-package torch --constraint requirements/conformance.txt)
	$(call pin,lowest,$(PIN_LOWEST) --extra test --extra conformance --extra dask --extra ir_measures \
		--extra outofcore --extra ray --extra report --extra serve --extra spark)
	$(call pin,wheel-lowest,$(PIN_LOWEST))

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

$(VENV)/.dev: $(VENV)/.test
	$(call install,$(BIN)/python,dev)
	@touch $@
