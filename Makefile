# Two commands do everything on a fresh machine: `make demo` and `make test`.
# AFFIANT_INSTALL=no forbids every installation outside .venv.

SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := attestation policy secrets sandbox gateway
# Test files run side by side, each file in one process: one more than two cores, because tests of sessions also wait.
TEST_PROCESSES ?= 3
# In the order of tests/conftest.py.
PYTEST := $(BIN)/python -m pytest -q -n $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder
TESTS := tests

# Where it is set, every run compiles and rewrites all the tests anew, in each of its processes.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup lock gvisor sbom verifier-page test-tools demo test test-all check bench clean format

help: ## Show the commands
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Make .venv with every extra, find or install the sandbox runtime, write the release manifest
	@PYTHON=$(PYTHON) bash scripts/setup.sh

lock: ## Resolve requirements.lock anew, with the newest versions and their hashes; needs uv
	@uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --generate-hashes --upgrade --quiet \
		--no-emit-index-url --custom-compile-command 'make lock' --output-file requirements.lock

gvisor: ## Build a current gVisor with Go and install it in /usr/local/bin; needs root
	@bash scripts/build_gvisor.sh

sbom: ## Print what the wheel and its extras need, as CycloneDX JSON
	@$(PYTHON) scripts/sbom.py

verifier-page: ## Build the second verifier as one offline page; needs Node 20
	@bash scripts/build_verifier_page.sh

demo: setup ## One attested session from start to a checked receipt, told on the terminal
	@$(BIN)/python -m examples.demo

test-tools: ## Find or install what some tests are held against; without it they are skipped
	@bash scripts/install_test_tools.sh

test: setup test-tools ## All tests that end within minutes
	@$(PYTEST) -m "not slow" --hypothesis-profile=quick $(TESTS)

test-all: setup test-tools ## All tests, the long ones included
	@$(PYTEST) $(TESTS)

check: setup ## Lint, types, import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy $(SOURCES)
	@$(BIN)/pyright
	@PYTHONPATH=attestation:policy:secrets:sandbox:gateway $(BIN)/lint-imports

bench: setup ## Measure, as JSON and a table; ratios against a peer in the same run
	@$(BIN)/python -m benchmarks

format: ## Format the code
	@$(BIN)/ruff check --fix-only -q . && $(BIN)/ruff format -q .

clean: ## Remove what the commands above made in this folder
	@rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist build .demo \
		attestation/affiant/release.json attestation/verifier-js/page/affiant-verifier.html benchmarks/results
	@find $(SOURCES) tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
