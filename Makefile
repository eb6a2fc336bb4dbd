# Everything is installed into .venv in this folder. The first call installs, later ones start in seconds.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SERVE ?= 1
ARGS ?=

.PHONY: help install demo test check bench clean

help:            ## what can be made
	@grep -E '^[a-z]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

install: $(READY) ## the package and its tools, into .venv

# Exact versions come from constraints.txt: an unconstrained resolution may pull gigabytes of GPU packages.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "fedqa needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(READY)   ## train the sample alliance, compare, answer (SERVE=0: exit when done)
	$(BIN)/fedqa demo $(if $(filter 0,$(SERVE)),--no-serve,)

test: $(READY)   ## all tests, one process a core
	$(BIN)/python -m pytest --numprocesses=auto --dist=loadfile --no-loadscope-reorder $(ARGS)

check: $(READY)  ## lint, types and documentation
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_docs.py

bench: $(READY)  ## NAME=engine: a measurement or study; ARGS=--quick for its short form
	$(BIN)/fedqa bench $(NAME) $(ARGS)

clean:           ## remove the environment and all runs
	rm -rf $(VENV) runs
