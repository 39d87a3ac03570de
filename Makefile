# make lab        set everything up and open the cockpit on the embedded lab
# make test       set everything up and pass the tests
# make test-all   the full matrices too
# make bench      the benchmarks, each beside its peer

PYTHON := $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null \
	&& { command -v $$p; break; }; done)
BIN := .venv/bin
READY := .venv/ready
# What runs on the hosts, by their own Python.
SCRIPTS = $(shell find cockpit -path '*/scripts/*.py' -o -path '*/remote/*.py')
# Two files of tests at a time: most of them wait, for hosts to boot and limits to pass. The long ones first.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: lab test test-all lint packages warm bench clean

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11, 3.12 or 3.13 with venv is needed (Debian: apt-get install python3-venv)."; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(READY)

packages: $(READY)
	$(BIN)/python -m tests.rig.install

# What takes minutes on a fresh machine, before a test's time limit runs.
warm: packages
	$(BIN)/python -m tests.rig.warm

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --python-version 3.10 $(SCRIPTS)
	$(BIN)/lint-imports

test: lint warm
	$(PYTEST) -m 'not full'

test-all: lint warm
	$(PYTEST)

bench: $(READY)
	for f in tests/bench/bench_*.py; do $(BIN)/python $$f || exit 1; done

# Where nobody sits at a terminal, the lab's bring-up ends in an answered prompt instead.
lab: $(READY)
	@if [ -t 0 ] && [ -t 1 ]; then exec $(BIN)/spark-cockpit lab; \
	else $(BIN)/spark-cockpit lab up && exec $(BIN)/spark-cockpit up "$${SPARK_COCKPIT_LAB:-lab}"; fi

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
