# Every target makes .venv and installs what it needs; `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Two OpenMP threads collapse when another process is busy; only tests about threads use more.
TEST_ENV := OMP_NUM_THREADS=1
PYTEST := $(TEST_ENV) $(BIN)/python -m pytest
QUICK := not planted and not faults and not long and not browsers and not cluster

.DEFAULT_GOAL := help
.PHONY: help install demo test test-all long browsers cluster cluster-kills cluster-study planted planted-record wording faults oracle check lint format types layers bench docs clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "%-14s %s\n", $$1, $$2}'

install: $(READY) ## make .venv with everything that developing needs

# torch comes with the rest from the constraints file: a request without it may bring another build.
$(READY): pyproject.toml setup.cfg constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade -c constraints.txt pip setuptools
	$(BIN)/python -m pip install --quiet -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet -c constraints.txt --no-build-isolation -e '.[postgres]' --group dev
	touch $@

demo: $(READY) ## run the main job on an ordinary script (3 minutes); leaves demo-report/
	$(BIN)/advisor tune examples/photo_classifier.py --budget 3m --out demo-report

# First two tests at a time (three are no faster on two cores); those that assert what they measured have the machine to themselves afterwards.
# Tests start hundreds of processes: where nothing may write bytecode, each would compile every module again.
test: $(READY) ## run the tests (8 to 15 minutes on two cores)
	$(BIN)/python -m compileall -q advisor profiles templates tuners
	$(PYTEST) -q -n 2 --dist worksteal -m "not alone and $(QUICK)"
	$(PYTEST) -q -m "alone and $(QUICK)" $$(grep -rl --include='*.py' 'mark\.alone' tests)

test-all: test long browsers planted faults ## everything: the tests, long ones, browsers, planted programs live, injected faults

long: $(READY) ## what compiles, starts many processes, measures for minutes (about 40 minutes)
	$(PYTEST) -q -m long

browsers: $(READY) ## drive reports of every kind in a Chromium: accessibility, tables, paper (about 3 minutes)
	$(PYTEST) -q -m browsers

# Ray listens on every address, so both have a network of their own, of which nothing comes out.
WITH_RAY := $(BIN)/python -m pip install --quiet -c constraints.txt ray
LOOPBACK := ip link set lo up && ip address add 10.77.0.1/24 dev lo && ip address add 10.77.0.2/24 dev lo

cluster: $(READY) ## two nodes of a real Ray and of a real SLURM, and what is killed there (as root, 10 minutes)
	$(WITH_RAY)
	unshare --net sh -c '$(LOOPBACK) && exec env $(PYTEST) -q -m cluster tests/tuners/benches'

ROUNDS ?= 10
cluster-kills: $(READY) ## every kill of `make cluster` in ROUNDS rounds, and how many of them failed (as root, an hour)
	$(WITH_RAY)
	unshare --net sh -c '$(LOOPBACK) && failed=0 && for n in $$(seq $(ROUNDS)); do $(PYTEST) -q -rs -m cluster \
	  -k "killed or loss" tests/tuners/benches || failed=$$((failed + 1)); done; \
	  echo "$$failed of $(ROUNDS) rounds failed"; test $$failed = 0'

STUDY ?= --cells loader/20/0.5
cluster-study: $(READY) ## whole runs on two nodes of a real Ray and of a real SLURM (as root, 10 minutes)
	$(WITH_RAY)
	unshare --net sh -c '$(LOOPBACK) && exec $(BIN)/python -m benchmarks.cluster_study $(STUDY)'

planted: $(READY) ## profile every planted fault and every clean program (45 to 60 minutes)
	$(PYTEST) -q -m "planted or not planted" tests/planted tests/field

planted-record: $(READY) ## record the profiles of planted programs that have none of their present source
	$(TEST_ENV) $(BIN)/python tests/planted/record.py

wording: $(READY) ## record what rules and verdicts say, after a change on purpose
	PYTHONPATH=tests:tests/planted $(BIN)/python tests/report/test_report_wording.py

faults: $(READY) ## inject every fault of the catalogue; writes benchmarks/results/faults.md (about an hour)
	$(TEST_ENV) $(BIN)/python benchmarks/faults.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(READY) ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(READY)
	$(BIN)/mypy --strict -p advisor
	$(BIN)/mypy --strict tests

layers: $(READY)
	$(BIN)/lint-imports

check: lint types layers test ## lint, format, types, layers and tests: what CI runs

bench: $(READY) ## the short benchmarks (about 10 minutes); wants a quiet machine
	$(BIN)/python -m benchmarks.fixed_cost
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/goodput.py

oracle: $(READY) ## measure every cell of the benchmark grids (hours; wants a quiet machine)
	$(BIN)/python benchmarks/oracle.py
	$(BIN)/python benchmarks/search.py

docs: $(READY) ## build the documentation as a site into build/site; stops at any warning
	$(BIN)/mkdocs build --strict

clean: ## remove what make and the tests leave
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache demo-report advisor-report build
