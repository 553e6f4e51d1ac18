# `make demo` and `make test` are all that a new clone needs: Python 3.11 or newer, git and make.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-fast outside faults chaos check bench table3 study install lock clean

demo: install
	$(BIN)/allelse sweep scale=tiny data=synthetic --report

# A file's tests run in one process, and tests/conftest.py says how many of these there are.
test: install
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

# The tests to run while working, in under 90 seconds: all of these folders that are not marked as slow.
FAST := $(addprefix tests/,test_imports.py test_readme.py transformer tracking/statistics tracking/table sweeps/config sweeps/planning)

test-fast: install
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder -m "not slow and not ray and not faults" $(FAST)

# An older installation and this one do the same, seen from outside: OLD=PATH is its checkout, or its program. What
# differs is printed; tests/outside/cases.py lists what may.
outside: install
	PYTHONPATH=$(CURDIR)/tests/shared $(BIN)/python tests/outside/two_versions.py $(OLD)

# Processes that are killed, stopped and starved, as root on Linux, for about 20 minutes. What cannot run here fails.
# `make test` has the quickest of them.
faults: install
	CI=true $(BIN)/python -m pytest -m faults -n 2 --dist loadfile --no-loadscope-reorder

# Faults drawn at random on sweeps of small trials, as root on Linux, in about 20 minutes. ARGS='--recovery 5' measures
# how long training takes to go on after the loss of a worker, a node, a link.
SEED ?= 1
chaos: install
	PYTHONPATH=$(CURDIR):$(CURDIR)/tests/shared $(BIN)/python tests/chaos --seed $(SEED) $(ARGS)

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Our training and its peers, on one CPU thread of a quiet machine, in under ten minutes. ARGS='--data DIR' trains
# on Multi30k's text, ARGS='--only small' measures one part.
bench: .venv/bench
	$(BIN)/python -m benchmarks.training $(ARGS)

# Table, report and figures of each published study again, from its files in studies/. Nothing is trained.
table3: install
	for study in studies/*/published.json; do \
		$(BIN)/allelse publish paths.runs=studies sweep.name=$$(basename $$(dirname $$study)) || exit 1; \
	done

# The study of docs/table3.md from nothing: 66 trials, locked before the first one, and published in reproduced/. DIR
# holds Multi30k's files. SCALE=half needs a GPU. Interrupt it at any time: the same command goes on.
SCALE ?= quarter
STUDY = multi30k-$(SCALE)
DATA = data=multi30k data.mirror=$(or $(DIR),$(error DIR is missing: the folder with Multi30k's files))
ROWS := base,big,a_heads_1,a_heads_4,a_heads_16,a_heads_32,b_key_16,b_key_32,c_layers_2,c_layers_4,c_layers_8,$\
	c_width_256,c_width_1024,c_ff_1024,c_ff_4096,d_dropout_0,d_dropout_20,d_smoothing_0,d_smoothing_20,$\
	e_learned_positions
SEEDS := [1,2,3]
BASE_SEEDS := [1,2,3,4,5,6,7,8,9]
KEYS_half := cluster=gpu cluster.cpus_per_worker=1 cluster.gpus_per_worker=0.0625 $\
	train.checkpoint_every=200 decode.average_every=200 train.tokens_per_micro_batch=4000
KEYS_quarter :=
DESIGN = $(DATA) scale=$(SCALE) sweep.name=$(STUDY) paths.runs=$(RUNS) tracking=off 'sweep.rows=[$(ROWS)]' 'sweep.seeds=$(SEEDS)' $\
	'sweep.base_seeds=$(BASE_SEEDS)' decode.train_sample=true $(KEYS_$(SCALE)) $(ARGS)
METRICS := ppl bleu bleu_paper chrf accuracy
SETS := dev test_2016_flickr test_2017_flickr
RUNS := runs
PUBLISHED := reproduced

study: install
	test -e $(RUNS)/$(STUDY)/lock.json || \
		$(BIN)/allelse plan $(DESIGN) --lock $(METRICS:%=--metric %) $(SETS:%=--set %)
	$(BIN)/allelse sweep $(DESIGN)
	$(BIN)/allelse publish sweep.name=$(STUDY) paths.runs=$(RUNS) --to $(PUBLISHED)

install: .venv/installed

.venv/installed: requirements.lock pyproject.toml
	@echo "Installing into .venv: some minutes, mostly for torch"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	$(BIN)/python -m compileall -q allelse sweeps tracking transformer  # for where Python keeps no bytecode
	@touch $@
	@echo "Installed: $(BIN)/allelse, or allelse after source .venv/bin/activate"

.venv/bench: .venv/installed
	$(BIN)/python -m pip install --quiet --constraint requirements.lock --no-build-isolation --editable '.[bench]'
	touch $@

# After a change of pyproject.toml: resolve it again. torch stays where it was measured, and a CPU build of it
# (2.13.0+cpu) locks as the release it is, so that each machine installs the build it has.
lock: install
	$(BIN)/python -m pip install --quiet pip-tools
	$(BIN)/pip-compile --quiet --extra dev --strip-extras --no-header --no-annotate \
		--no-emit-index-url --no-emit-find-links --no-emit-trusted-host --upgrade-package torch==2.13.0 --output-file requirements.lock pyproject.toml
	sed -i -E -e '/^allelse @/d' -e 's/^(torch==[0-9.]+)\+.*/\1/' requirements.lock  # the extras name each other

clean:
	rm -rf .venv dist .pytest_cache .mypy_cache .ruff_cache
