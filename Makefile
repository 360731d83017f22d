# Each target sets up the virtual environment by itself; all that is needed is Python 3.11+ and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test test-all lint bench pages docs notebooks clean

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "kvbound needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV) (a minute or two)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,cp-sat,gurobi]'
	@touch $(READY)

demo: $(READY)
	@$(BIN)/python -m kvbound demo

test: $(READY)
	$(BIN)/python -m pytest -n auto -m "not slow"

test-all: $(READY)
	$(BIN)/python -m pytest -n auto

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m benchmarks

pages: $(READY)
	$(BIN)/python -m docs.make

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

notebooks: $(READY)
	$(BIN)/jupytext --update --to ipynb notebooks/*.py

clean:
	rm -rf site $(VENV) .pytest_cache .mypy_cache .ruff_cache demo-output
