# Each target sets up the virtual environment by itself, with what it needs; all that is needed is Python 3.11+ and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test entered test-engine test-all verified lint bench pages docs notebooks tag clean

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "kvbound needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV) (a minute)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

# .ready-NAME: the packages of the extra NAME of pyproject.toml are there as well
$(READY)-%: $(READY)
	@echo "adding to $(VENV) what $* needs (a minute or two)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

demo: $(READY)
	@$(BIN)/python -m kvbound demo

# all that takes seconds and needs neither torch nor triton
test: $(READY)-test
	$(BIN)/python -m tests.compiled
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow" --ignore tests/gpu_validation

# the tests of make test, with coverage: which functions none of them enters (twice their time with Python 3.11)
entered: $(READY)-test
	$(BIN)/python -m tests.compiled
	$(BIN)/python -m tests.entered

# the engine, its kernels and the pages that use it: needs torch and triton
test-engine: $(READY)-engine
	$(BIN)/python -m pytest -n auto -m "not slow" tests/gpu_validation

# everything: the slow tests and the engine's too, and all that is drawn (KVBOUND_TESTS=all), of which make test draws a part
test-all: $(READY)-engine
	$(BIN)/python -m tests.compiled
	KVBOUND_TESTS=all $(BIN)/python -m pytest -n auto --dist worksteal --durations 40

# the referee and the checker proved in Coq, with the program that Coq extracts; installs nothing (docs/verified.md)
verified:
	@$(MAKE) --no-print-directory -C verified

lint: $(READY)-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)-test
	$(BIN)/python -m benchmarks

pages: $(READY)-test
	$(BIN)/python -m docs.make

# the site, every notebook run anew: minutes
docs: $(READY)-docs
	RUN_NOTEBOOKS=1 NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# tags the version of pyproject.toml; the tag's message is its section of CHANGELOG.md
tag:
	@v=$$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml); \
	  awk -v v="[$$v]" '/^## \[/ { on = index($$0, v) } on' CHANGELOG.md | git tag -a "v$$v" --cleanup=verbatim -F -

notebooks: $(READY)-notebooks
	$(BIN)/python -m docs.make.notebooks

clean:
	rm -rf site verified/build $(VENV) .pytest_cache .mypy_cache .ruff_cache demo-output
