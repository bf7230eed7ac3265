# Everything a newcomer or CI calls. Each target makes .venv from the pins first; nothing but Python 3.11 or newer is needed.
PYTHON ?= python3
DIR ?= .lifeboat
ONLY ?=
SECONDS ?= 60
SEED ?=
CLUSTERS ?= 100
BINDINGS ?= 10000
PYTHONS ?= 3.11 3.12 3.13 3.14
PY = .venv/bin/python
SUPERVISE = $(PY) -m apps.development.supervise
RUN_STAMP = .venv/.installed-run
DEV_STAMP = .venv/.installed-dev
PURE_TESTS = tests/core tests/properties tests/conformance tests/config
SEEDS = tests/simulation/test_chaos.py
CHECK_ENV = LIFEBOAT_SECRET_KEY=only-for-checks
# $(call with_own_services,<name>,<options>,<command>): run a command on servers that start empty and are gone afterwards.
define with_own_services
folder=$(DIR)/$(1)-$$$$; environment=$$($(SUPERVISE) services --dir $$folder $(2)) || exit 1; eval "$$environment"; \
  status=0; $(3) || status=$$?; $(SUPERVISE) services --dir $$folder --stop --throwaway; exit $$status
endef

.PHONY: members-compare help run up down clean test check conformance bench chaos fleet demo replay fault lint format types contracts migrations-check services wheels docs docs-only

help:
	@echo "make run          start everything here; Ctrl-C ends it      make up / make down   the same in the background"
	@echo "make fault        MEMBER=member1 FAULT=down|blackhole|slow|unauthorized|notready|none"
	@echo "make demo         two failovers from manifest to timeline    make fleet            CLUSTERS=100 BINDINGS=10000"
	@echo "make check        lint, types, contracts, pure tests         make test             every test"
	@echo "make conformance  golden vectors                             make bench            ONLY=apply|propagate|..."
	@echo "make chaos        SECONDS=480 SEED=7                      make docs             tables that documents copy from the code"
	@echo "make clean        end it and remove $(DIR)"

run: $(RUN_STAMP)
	@exec $(SUPERVISE) run --dir $(DIR)

up: $(RUN_STAMP)
	@$(SUPERVISE) up --dir $(DIR)

down: $(RUN_STAMP)
	@$(SUPERVISE) down --dir $(DIR)

clean: $(RUN_STAMP)
	@$(SUPERVISE) clean --dir $(DIR)

# For a shell of one's own: eval "$$(make -s services)"; ended by `make clean`.
services: $(RUN_STAMP)
	@$(SUPERVISE) services --dir $(DIR)/services --export

fault: $(RUN_STAMP)
	@test -n "$(MEMBER)" && test -n "$(FAULT)" || { echo "say which: make fault MEMBER=member1 FAULT=down" >&2; exit 2; }
	@$(SUPERVISE) fault --dir $(DIR) --member $(MEMBER) --fault $(FAULT)

demo: $(RUN_STAMP)
	@$(PY) -m apps.development.demo

fleet: $(RUN_STAMP)
	@environment=$$($(SUPERVISE) env --dir $(DIR)) && eval "$$environment" && \
	  $(PY) manage.py fleet --clusters $(CLUSTERS) --bindings $(BINDINGS)

replay: $(RUN_STAMP)
	@test -n "$(FILE)" || { echo "say which: make replay FILE=.lifeboat/replay/….pickle" >&2; exit 2; }
	@LIFEBOAT_DEVELOPMENT=true LIFEBOAT_SECRET_KEY=only-to-replay $(PY) manage.py replay "$(FILE)"

bench: $(DEV_STAMP)
	@$(call with_own_services,bench,,LIFEBOAT_SECRET_KEY=only-for-benches $(PY) -m tests.bench $(ONLY))

# Kills -9 of every process at random while clients write and clusters fail; prints its ledger, fails if a write is lost.
chaos: $(DEV_STAMP)
	@$(PY) -m tests.chaos --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) --dir $(DIR)/chaos

# LAB: where the lab's member runs, started with ONLY_APISERVER=1 (a kube-apiserver without controllers) and wiped after.
members-compare: $(DEV_STAMP)
	@test -n "$(LAB)" || { echo "say where the lab is: make members-compare LAB=/tmp/lab" >&2; exit 2; }
	@$(PY) -m tests.simulator.comparison $(LAB)/run/member1.config $(if $(RECORD),--record)

conformance: $(DEV_STAMP)
	@$(PY) -m tests.conformance

check: $(DEV_STAMP) lint types contracts migrations-check
	$(PY) -m pytest -q -n auto -m "not slow" $(PURE_TESTS)

# Asks the registry whether every pin has a wheel on every machine we name; minutes.
wheels: $(DEV_STAMP)
	@$(PY) -m tests.wheels $(PYTHONS)

# All cores at once; what failed in that crowd runs once more alone, and only what fails there as well has failed. The
# seeds of random trouble run first, with nothing beside them: what each takes is printed below them. Eight processes at
# most: each has two of the sixteen databases of Redis, one of its own and one for the product it runs.
define tested
$(PY) -m pytest -q -n auto --maxprocesses=8 --durations=12 --durations-min=10 $(1) || $(PY) -m pytest -q --last-failed --last-failed-no-failures none $(1)
endef
test: $(DEV_STAMP)
	$(call tested,$(SEEDS))
	$(call tested,--ignore=$(SEEDS))

lint: $(DEV_STAMP)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

format: $(DEV_STAMP)
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

# Everything that is generated from the code and kept in the repository: docs/ownership.md, the tables of docs/settings.md
# and tests/apps/batch_counts.json. `make docs-only` leaves out the query counts, which need a database and some minutes.
docs: docs-only
	LIFEBOAT_WRITE_QUERY_COUNTS=1 $(PY) -m pytest -q tests/apps/test_batch_counts.py

docs-only: $(DEV_STAMP)
	@$(CHECK_ENV) $(PY) manage.py ownership > docs/ownership.md.new && mv docs/ownership.md.new docs/ownership.md
	@$(CHECK_ENV) $(PY) manage.py settings_document

types: $(DEV_STAMP)
	$(CHECK_ENV) $(PY) -m mypy

contracts: $(DEV_STAMP)
	.venv/bin/lint-imports

migrations-check: $(DEV_STAMP)
	@$(call with_own_services,check,--throwaway,$(CHECK_ENV) $(PY) manage.py makemigrations --check --dry-run)

# A stamp says that the pins as they stand now are installed.
.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Lifeboat needs Python 3.11 or newer, $(PYTHON) is %d.%d: make PYTHON=python3.12" % sys.version_info[:2])'
	@echo "making .venv with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv .venv

$(RUN_STAMP): .venv/bin/python requirements.txt requirements-embedded.txt
	@echo "installing what the product needs (once)"
	@$(PY) -m pip install --quiet --disable-pip-version-check -r requirements.txt -r requirements-embedded.txt
	@touch $@

$(DEV_STAMP): .venv/bin/python requirements.txt requirements-embedded.txt requirements-dev.txt
	@echo "installing what the tests need (once)"
	@$(PY) -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@ $(RUN_STAMP)
