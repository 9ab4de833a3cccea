# Everything a developer or a new machine needs. Second runs are instant: .venv/.stamp-* remember what is installed.

SHELL := bash
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes
# Three a core: half of the tests wait for programs and terminals.
WORKERS ?= $(shell echo $$(( 3 * $$(nproc 2>/dev/null || echo 2) )))
# Programs under test are compiled once, not at each start, whatever the environment says; and no plugins of pytest but ours.
PYTEST := PYTHONDONTWRITEBYTECODE= PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 $(BIN)/python -m pytest
COMPILED := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m tests.compiled
RULES := tests/test_documents.py tests/test_layers.py tests/test_mirror.py tests/test_names.py tests/test_sizes.py \
	tests/test_wording.py
# What is installed for them; `e2e` is enough for tests/e2e, and takes half the time.
NEEDS ?= dev
# Without names of tests, those that `make check` runs are left to it.
OTHERS = $(if $(findstring tests/,$(ARGS)),,$(RULES:%=--ignore=%))

# What takes gigabytes, each within a time, needs the machine for itself.
ALONE := tests/faults/test_memory.py

# The newest Python of at least 3.11 that can make virtual environments; one that cannot is named in the error.
PYTHON ?= $(shell \
	for python in python3.15 python3.14 python3.13 python3.12 python3.11 python3 python; do \
		$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
		$$python -c 'import ensurepip, venv' 2>/dev/null && echo $$python && exit; \
		bare=$${bare:-$$python}; \
	done; echo "$$bare")

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test nightly check format references lock clean build dist

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(VENV)/.stamp-run ## start tollkeeper (ARGS="..." for a command)
	@$(BIN)/python cli.py $(ARGS)

test: $(VENV)/.stamp-$(NEEDS) ## run the tests, of the slow kinds a sample (ARGS="..." for pytest)
	@$(if $(findstring tests/,$(ARGS)),,$(COMPILED))
	$(PYTEST) -n $(WORKERS) --dist worksteal $(OTHERS) $(ARGS)

nightly: $(VENV)/.stamp-dev ## run the tests at full width and with real client programs, which takes an hour or more
	-.ci/apps
	@$(COMPILED)
	$(if $(findstring tests/,$(ARGS)),,TOLLKEEPER_FULL=1 $(PYTEST) $(ALONE))
	TOLLKEEPER_FULL=1 $(PYTEST) -n $(WORKERS) --dist worksteal $(if $(findstring tests/,$(ARGS)),,$(ALONE:%=--ignore=%)) $(ARGS)

check: $(VENV)/.stamp-dev ## format, lint, types, layers, sizes, names, documents, wording
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy $(if $(wildcard cli.py),,gateway tui tests)
	$(BIN)/lint-imports
	$(PYTEST) -q $(RULES)

# The same commit, Python and libraries of the system make the same bytes: sets are written in one order.
build: $(VENV)/.stamp-dev ## one executable: dist/tollkeeper (TOLLKEEPER_SHAPE=onedir for a folder)
	@PYTHONHASHSEED=0 $(BIN)/pyinstaller --noconfirm --log-level WARN --distpath dist --workpath build build.spec
	@echo "dist/tollkeeper is built"

dist: build ## an archive of it with completions, a service file, licences and checksums
	@.ci/dist

format: $(VENV)/.stamp-dev ## format, and fix what ruff can fix
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

references: $(VENV)/.stamp-dev ## rewrite docs/reference from the code
	@$(BIN)/python -m docs.generate

lock: $(BIN)/python ## pin the requirements of pyproject.toml (UPGRADE=--upgrade for newer ones)
	@tools=$$(mktemp -d) && trap 'rm -rf "$$tools"' EXIT && \
	$(BIN)/python -m venv "$$tools" && "$$tools/bin/pip" install --quiet uv && \
	compile() { "$$tools/bin/uv" pip compile --quiet pyproject.toml --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-emit-find-links --no-annotate --custom-compile-command "make lock" $(UPGRADE) "$$@"; } && \
	compile --output-file requirements.txt && \
	compile --constraint requirements.txt --extra dev --extra build --output-file requirements-dev.txt && \
	compile --constraint requirements-dev.txt --extra e2e --output-file requirements-e2e.txt

clean: ## remove the virtual environment and every cache
	rm -rf $(VENV) .venv-* build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@[ -n "$(PYTHON)" ] || { echo "Tollkeeper needs Python 3.11 or newer; none was found. PYTHON=... names one." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) cannot make virtual environments: its venv package is missing." >&2; \
		echo "On Debian and Ubuntu: sudo apt install python3-venv. Then run make again." >&2; exit 1; }
	@echo "making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv --clear $(VENV)

$(VENV)/.stamp-run: requirements.txt | $(BIN)/python
	@echo "installing what tollkeeper needs"
	@$(PIP_INSTALL) -r requirements.txt
	@touch $@

$(VENV)/.stamp-dev: requirements-dev.txt | $(BIN)/python
	@echo "installing what its development needs"
	@$(PIP_INSTALL) -r requirements-dev.txt
	@touch $@ $(VENV)/.stamp-run

$(VENV)/.stamp-e2e: requirements-e2e.txt | $(BIN)/python
	@echo "installing what the tests of real processes need"
	@$(PIP_INSTALL) -r requirements-e2e.txt
	@touch $@
