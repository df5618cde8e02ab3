# Everything from a fresh machine on:
#   make render   sets up .venv and runs the main job on specs/fp16_128x128.toml
#   make test     sets up .venv and runs the tests
#   make docs     sets up .venv and builds the docs into build/site
#
# VENV and JAX choose another environment, for example
#   make test VENV=.venv-oldest JAX=0.11.2

VENV ?= .venv
JAX ?=
# One more than cores: some tests wait for a limit.
JOBS ?= $(shell expr $$(nproc 2>/dev/null || echo 2) + 1)
PYTHON ?= $(firstword $(foreach python,python3 python3.13 python3.12,$(shell \
	$(python) -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null \
	&& echo $(python))))

.PHONY: render test lint format types made docs setup clean

render: setup
	$(VENV)/bin/kgen render specs/fp16_128x128.toml

test: setup
	$(VENV)/bin/python -m pytest -n $(JOBS) --dist worksteal

lint: format types made

format: setup
	$(VENV)/bin/ruff check .
	$(VENV)/bin/black --check .

types: setup
	$(VENV)/bin/mypy

made: setup
	$(VENV)/bin/python -m kgen.docs --check
	$(VENV)/bin/python benchmarks/report.py --check
	$(VENV)/bin/kgen render --check

docs: setup
	$(VENV)/bin/mkdocs build --strict

setup: $(VENV)/installed

$(VENV)/installed: pyproject.toml
	@test -n "$(PYTHON)" && \
	  $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 12))' || { \
	  echo "kgen needs Python 3.12 or newer; $$($(or $(PYTHON),python3) --version 2>&1) is too old." >&2; \
	  exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check \
	  --editable '.[test]' $(if $(JAX),jax==$(JAX) jaxlib==$(JAX))
	touch $@

clean:
	rm -rf build/site $(VENV) .venv-oldest .mypy_cache .pytest_cache .ruff_cache .hypothesis
