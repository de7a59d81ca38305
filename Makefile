# make demo   install what fits this machine, then adapt and decode the embedded model
# make test   lint, types and tests
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
CPU_WHEELS := https://download.pytorch.org/whl/cpu

.PHONY: demo test lint types format docs

demo: $(VENV)/.demo
	$(BIN)/unmask demo

test: lint types
	$(BIN)/pytest

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.dev
	$(BIN)/typer unmask.cli.main utils docs --name unmask --output docs/cli.md

# Without a GPU the CPU build of torch does, and saves gigabytes.
$(VENV)/.torch:
	$(PYTHON) -m venv $(VENV)
	@if nvidia-smi -L >/dev/null 2>&1; then \
		$(BIN)/pip install "torch>=2.11"; \
	else \
		$(BIN)/pip install torch==2.13.0 --extra-index-url $(CPU_WHEELS) --retries 1; \
	fi
	@touch $@

$(VENV)/.demo: $(VENV)/.torch pyproject.toml
	$(BIN)/pip install --quiet -e ".[demo]"
	@touch $@

$(VENV)/.dev: $(VENV)/.torch pyproject.toml
	$(BIN)/pip install --quiet -e ".[dev]"
	@touch $@
