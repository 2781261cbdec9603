# The project's commands. `make` alone lists them; each makes the virtual environment first when it has to.
#
#   PYTHON=python3.12 make test       another Python (3.11 to 3.13)
#   make run ARGS="--run-name short --max-steps 5"     more arguments for `rlguide train`
#   make tutorial ENGINE=trl ARGS="-p max_steps 2"     another engine, more arguments for `rlguide tutorial`

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed
# The stamp holds the two settings of the installation. They stay until others are given; others install again.
SETTINGS := $(shell cat $(INSTALLED) 2>/dev/null)
CPU := constraints/cpu.txt
ALL := local,notebooks,wandb,dev
CONSTRAINTS ?= $(or $(word 1,$(SETTINGS)),$(CPU))
EXTRAS ?= $(or $(word 2,$(SETTINGS)),$(ALL))
ENGINE ?= auto
ARGS ?=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install tutorial lab test test-fast faults test-core run bench lint format constraints clean

help:  ## list these commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */make \1 — /'

install: $(INSTALLED)  ## make the virtual environment, or bring it up to date
	@echo "next: make lab, or source $(VENV)/bin/activate and then rlguide doctor"

ifneq ($(SETTINGS),$(CONSTRAINTS) $(EXTRAS))
.PHONY: $(INSTALLED)
endif

# The stamp is written last, so that an installation that was cut short is done again.
# The .pth puts the clone on the path: an editable installation is looked for last, and in the folder that holds the
# clone Python takes its folder for a package without code.
$(INSTALLED): pyproject.toml $(CONSTRAINTS)
	@rm -f $@
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(None if (3, 11) <= v <= (3, 13) else f"$(PYTHON) is Python {v[0]}.{v[1]}: rlguide needs 3.11 to 3.13.\nhint: PYTHON=python3.12 make …")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "hint: on Debian and Ubuntu, venv is a package of its own: apt install python3-venv"; rm -rf $(VENV); exit 1; }
	@echo "installing into $(VENV): about 2 GB, more with CUDA libraries; a few minutes"
	$(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) --editable '.[$(EXTRAS)]'
	@for folder in $(VENV)/lib/python3*/site-packages; do test ! -d "$$folder" || echo '$(CURDIR)' > "$$folder/rlguide_clone.pth"; done
	@echo '$(CONSTRAINTS) $(EXTRAS)' > $@

tutorial: $(INSTALLED)  ## execute all notebooks without a browser, and write a report
	$(BIN)/rlguide tutorial --engine $(ENGINE) $(ARGS)

# Jupyter refuses to run as root unless it is told to; in a container and on a rented machine root is the only user.
ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)

# The environment's own kernel comes first, whatever kernels the user has registered.
lab: $(INSTALLED)  ## open the notebooks in JupyterLab
	JUPYTER_PREFER_ENV_PATH=1 $(BIN)/jupyter lab --ServerApp.root_dir=. --LabApp.default_url=/lab/tree/notebooks $(ROOT) $(ARGS)

# Most tests wait for small processes, so there are more workers than cores. Training takes all cores: one at a time.
SIDE_BY_SIDE ?= -n 4
NONE_CHOSEN := 5  # how pytest ends when ARGS leaves no test

test: $(INSTALLED)  ## run all tests
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not training" $(ARGS) || [ $$? = $(NONE_CHOSEN) ]
	$(BIN)/python -m pytest -m training $(ARGS) || [ $$? = $(NONE_CHOSEN) ]

test-fast: $(INSTALLED)  ## run the tests that start neither training nor a server
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not training" $(ARGS)

faults: $(INSTALLED)  ## inject faults into runs; prints a table: fault, expected, seen
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) tests/faults $(ARGS)

test-core:  ## run the tests of the light core on another Python: make test-core PYTHON=python3.13
	$(MAKE) install EXTRAS=dev VENV=$(VENV)-core
	$(VENV)-core/bin/python -m pytest $(SIDE_BY_SIDE) --core $(ARGS)

run: $(INSTALLED)  ## train the tiny policy, measure it before and after
	$(BIN)/rlguide train --evaluate $(ARGS)

bench: $(INSTALLED)  ## measure speed against plain TRL, over seeds; takes long, wants an idle machine
	$(BIN)/python -m benchmarks $(ARGS)

lint: $(INSTALLED)  ## look for mistakes and for what is not formatted
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(INSTALLED)  ## format the code, fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

constraints: $(INSTALLED)  ## write constraints/cpu.txt from the virtual environment as it is
	$(BIN)/python tools/write_constraints.py > $(CONSTRAINTS).new
	mv $(CONSTRAINTS).new $(CONSTRAINTS)

clean:  ## remove virtual environments and caches; runs in outputs/ stay
	rm -rf $(VENV) .venv-* build dist *.egg-info .pytest_cache .ruff_cache
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +
