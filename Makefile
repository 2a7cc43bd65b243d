# Two commands do all set-up on a machine with Python >= 3.10, git and a package index:
#   make audit    create .venv, install, fetch one SGLang release wheel, print its sm_120 audit
#   make test     create .venv, install with the development extra, run the tests

PYTHON = python3
VENV = .venv
RELEASE = 0.5.23
TARGET = sm_120
PYTEST_ARGS = -q -n auto --dist worksteal

BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip --disable-pip-version-check --quiet
SMOKE = build/smoke

.PHONY: help audit wheels sarif test fuzz lint types contract smoke check coverage kernels reports reports-check docs docs-check bench format clean

help:
	@sed -n '1,4p' Makefile
	@echo "#   make check    what CI runs: test lint types contract reports-check docs-check smoke"
	@echo "#   also: kernels (compile what patchsets/sm120 declares), reports (the committed audits), docs, bench, fuzz, format, clean; PYTHON=python3.12 picks the interpreter"

$(VENV)/.made:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python >= 3.10 is needed: make PYTHON=...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	touch $@

# A stamp per extra: the second call costs nothing until pyproject.toml changes.
$(VENV)/.core: $(VENV)/.made pyproject.toml
	$(PIP) install --prefer-binary -e .
	touch $@

$(VENV)/.dev: $(VENV)/.made pyproject.toml
	$(PIP) install --prefer-binary -e '.[dev,kernels]'
	touch $@ $(VENV)/.core

audit: $(VENV)/.core
	$(BIN)/audit sglang --release $(RELEASE) --target $(TARGET)

# Release wheels for the tests on real trees, about 120 MB; without them those tests are skipped by name.
RELEASES = 0.5.12 0.5.13 0.5.14 0.5.16 0.5.18 0.5.20 0.5.23
WHEELS = .cache/wheels
WHEEL_FOR = --no-deps --only-binary :all: --implementation cp --python-version 3.11 --abi cp311 --platform manylinux_2_34_x86_64
wheels: $(VENV)/.made
	mkdir -p $(WHEELS)
	for release in $(RELEASES); do \
	  ls $(WHEELS)/sglang-$$release-*.whl > /dev/null 2>&1 || \
	  $(PIP) download $(WHEEL_FOR) --dest $(WHEELS) sglang==$$release || exit 1; \
	done

# The validator of SARIF, about 45 MB from npm; without it its test is skipped by name.
SARIF = .cache/sarif
MULTITOOL = @microsoft/sarif-multitool-linux@5.7.0
sarif:
	mkdir -p $(SARIF)
	test -x $(SARIF)/package/Sarif.Multitool || { cd $(SARIF) && npm pack --silent $(MULTITOOL) \
	  && tar xzf *.tgz && rm *.tgz && chmod +x package/Sarif.Multitool; }

test: $(VENV)/.dev
	SGLANG_AUDITOR_WHEELS=$${SGLANG_AUDITOR_WHEELS:-$(CURDIR)/$(WHEELS)} \
	SGLANG_AUDITOR_SARIF=$${SGLANG_AUDITOR_SARIF:-$(CURDIR)/$(SARIF)/package} $(BIN)/python -m pytest $(PYTEST_ARGS)

# Every reader of foreign bytes for so many CPU seconds each; PARSER picks one of tests/fuzz/parsers. With atheris
# where it has a wheel for this Python. What it finds lies in tests/fuzz/crashes, and is a test from then on.
FUZZ_SECONDS = 60
PARSER =
fuzz: $(VENV)/.dev
	$(PIP) install --only-binary :all: atheris || echo "no atheris for this Python: random changes of the seeds"
	$(BIN)/python -m tests.fuzz.drive $(PARSER) --seconds $(FUZZ_SECONDS)

# Style; names that nothing mentions; lines that stand twice.
lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/vulture
	$(BIN)/pylint auditor

types: $(VENV)/.dev
	$(BIN)/mypy

contract: $(VENV)/.dev
	$(BIN)/lint-imports

# The wheel as a stranger gets it: built from the source archive, in an environment of its own, used from
# an empty folder, so that nothing of the checkout can help.
smoke: $(VENV)/.dev
	rm -rf $(SMOKE)
	mkdir -p $(SMOKE)/empty
	$(BIN)/python -m build --outdir $(SMOKE)/dist . > $(SMOKE)/build.log 2>&1 || { cat $(SMOKE)/build.log; exit 1; }
	$(BIN)/python -m venv $(SMOKE)/venv
	$(SMOKE)/venv/bin/python -m pip --disable-pip-version-check --quiet install --only-binary :all: $(SMOKE)/dist/*.whl
	cd $(SMOKE)/empty && ../venv/bin/audit --version
	cd $(SMOKE)/empty && ../venv/bin/audit --help > ../help.txt
	cd $(SMOKE)/empty && ../venv/bin/audit targets
	cd $(SMOKE)/empty && ../venv/bin/audit query list > ../queries.txt
	cd $(SMOKE)/empty && ../venv/bin/sglang-auditor patches --version
	@echo "smoke: ok"

check: test lint types contract reports-check docs-check smoke

# Branches taken by the tests, in the rooms where a branch not taken is a wrong answer.
COVERED = auditor/program auditor/gates auditor/patching
coverage: $(VENV)/.dev
	SGLANG_AUDITOR_WHEELS=$${SGLANG_AUDITOR_WHEELS:-$(CURDIR)/$(WHEELS)} $(BIN)/python -m pytest -q -n auto --cov-branch \
	  --cov-report=term:skip-covered $(addprefix --cov=,$(COVERED))

# Every configuration of the kernels of a patchset, compiled for its targets; no GPU. `make test` does it too.
SET = sm120
kernels: $(VENV)/.dev
	$(BIN)/patches verify $(SET) --kernels

# The site, strictly: a dead link or a page that nothing leads to fails. Tests check the same without it.
docs: $(VENV)/.docs
	$(BIN)/python scripts/pages.py
	$(BIN)/python scripts/pictures.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

docs-check: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --site-dir build/site

$(VENV)/.docs: $(VENV)/.dev
	$(PIP) install --prefer-binary -e '.[docs]'
	touch $@

# The committed audits in reports/, from the wheels of every release, about 240 MB (and the commit, where SGLANG_CLONE names a clone).
reports: RELEASES = 0.5.12 0.5.13 0.5.14 0.5.15 0.5.16 0.5.17 0.5.18 0.5.19 0.5.20 0.5.21 0.5.22 0.5.23
reports: wheels $(VENV)/.dev
	$(BIN)/python scripts/reports.py --wheels $(WHEELS) $(if $(SGLANG_CLONE),--repo $(SGLANG_CLONE))

# One of them held against its wheel, about 15 CPU seconds; without the wheel only that it is whole.
reports-check: $(VENV)/.dev
	$(BIN)/python scripts/reports.py --wheels $(WHEELS) --check 0.5.12

# The figures of docs/benchmarks.md; BENCH_ARGS="--list" tells the sections, "--only NAMES" picks some.
bench: $(VENV)/.dev
	BENCH_WHEELS=$${BENCH_WHEELS:-$(CURDIR)/$(WHEELS)} $(BIN)/python scripts/bench.py $(BENCH_ARGS)

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
