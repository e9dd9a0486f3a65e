# Two commands do everything on a fresh machine with Python 3.11+ and make: `make lab` and `make test`.
# `make quick` is for while one works: all checks, and the tests that start no process.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: lab test quick bench cluster checks-page picture clean
# Exit 3 is a finished course with doubts, which its reports name: no error of make's.
lab: $(VENV)/.ok
	$(BIN)/scalewise course || [ $$? -eq 3 ]

# More workers than cores: for a third of their time tests wait, for ranks that start, stand still or run out of time.
# Types are checked beside the tests: mypy keeps one core busy for a quarter of a minute when its cache is empty.
WORKERS ?= 4
test: $(VENV)/.ok
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy & types=$$!; \
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal; tests=$$?; \
	wait $$types && exit $$tests

quick: $(VENV)/.ok
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy & types=$$!; \
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not processes'; tests=$$?; \
	wait $$types && exit $$tests

bench: $(VENV)/.bench
	$(BIN)/python -m bench

# A Slurm of three hosts on this machine's loopback, for trying things; needs root, slurm-wlm and munge.
CLUSTER ?= /tmp/scalewise-cluster
cluster: $(VENV)/.ok
	$(BIN)/python tests/slurm_cluster.py start $(CLUSTER)
	@echo 'To stop it: $(BIN)/python tests/slurm_cluster.py stop $(CLUSTER)'

# docs/checks.md is made from the doctor's checks; a test says when it is old.
checks-page: $(VENV)/.ok
	$(BIN)/python -m scalewise.doctor.pages > docs/checks.md

# docs/architecture.svg is drawn from the source; a test says when it is old.
picture:
	$(PYTHON) docs/draw_architecture.py

# The stamp is written last, so an installation that was cut off is repaired by the next call.
$(VENV)/.ok: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if (3, 11) <= sys.version_info[:2] <= (3, 13) else f"scalewise needs Python 3.11 to 3.13; $(PYTHON) is {sys.version.split()[0]}. Try: make PYTHON=python3.12 $(MAKECMDGOALS)")'
	$(PYTHON) -m venv $(VENV)
	@echo 'Installing into $(VENV), once; torch is large, so this takes some minutes.'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@

$(VENV)/.bench: $(VENV)/.ok
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
