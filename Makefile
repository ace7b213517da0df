# Every target sets up .venv first if it is missing or older than what defines it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: reproduce test without verify bench tables lint clean

reproduce: $(READY)
	$(BIN)/saddlescope reproduce

test: $(READY)
	$(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder

# The suite of a copy from which one room is deleted: make without ROOM=linear_icl
without: $(READY)
	$(BIN)/python -m tests.without $(ROOM) -n 3 --dist loadfile --no-loadscope-reorder

verify: $(READY)
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder -m slow

bench: $(READY)
	$(BIN)/python -m benchmarks

tables: $(READY)
	$(BIN)/python -m saddlescope.lab.sources

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

clean:
	rm -rf $(VENV) .cache runs out

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "saddlescope needs Python 3.11 or newer: make PYTHON=/path/to/python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,torch,stages]'
	touch $(READY)
