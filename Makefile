# Every target sets up .venv first if it is missing or older than what defines it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: reproduce test without packages packages-all packages-lowest verify notebooks bench tables lint clean

reproduce: $(READY)
	$(BIN)/saddlescope reproduce

test: $(READY)
	$(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder

# The suite of a copy from which one room is deleted: make without ROOM=linear_icl
without: $(READY)
	$(BIN)/python -m tests.without $(ROOM) -n 3 --dist loadfile --no-loadscope-reorder

# The wheel and the sdist, each installed into an environment of its own and tried: the instrument alone and `lab`.
packages: $(READY)
	$(BIN)/python -m tests.bare

# The same for every extra.
packages-all: $(READY)
	$(BIN)/python -m tests.bare --all

# The same at the oldest versions that pyproject.toml allows: run it before you lower a bound, or use what is new.
packages-lowest: $(READY)
	$(BIN)/python -m tests.bare --all --lowest

verify: $(READY)
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder -m slow

# The notebooks of docs, run from beginning to end, as pages in out/notebooks.
notebooks: $(READY)
	$(BIN)/python docs/notebooks/export.py

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
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,all]'
	touch $(READY)
