# `make demo` and `make test` are all that a new clone needs: Python 3.11 or newer, git and make.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check bench install lock clean

demo: install
	$(BIN)/ablate sweep scale=tiny data=synthetic

test: install
	$(BIN)/python -m pytest -n 2 --dist loadfile

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Our training beside its peers, on one CPU thread of a quiet machine, in under ten minutes. ARGS='--data DIR' trains
# on Multi30k's text, ARGS='--only small' measures one part.
bench: .venv/bench
	$(BIN)/python -m benchmarks.training $(ARGS)

install: .venv/installed

.venv/installed: requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

.venv/bench: .venv/installed
	$(BIN)/python -m pip install --quiet --constraint requirements.lock --no-build-isolation --editable '.[bench]'
	touch $@

# After a change of pyproject.toml: resolve it anew. torch stays where it was measured, and a CPU build of it
# (2.13.0+cpu) locks as the release it is, so that each machine installs the build it has.
lock: install
	$(BIN)/python -m pip install --quiet pip-tools
	$(BIN)/pip-compile --quiet --extra dev --strip-extras --no-header --no-annotate \
		--no-emit-index-url --no-emit-find-links --no-emit-trusted-host --upgrade-package torch==2.13.0 --output-file requirements.lock pyproject.toml
	sed -i -E 's/^(torch==[0-9.]+)\+.*/\1/' requirements.lock

clean:
	rm -rf .venv dist .pytest_cache .mypy_cache .ruff_cache
