# Targets for development and CI; `make help` lists them.

VENV := .venv
BIN := $(VENV)/bin

# Uses the first candidate that is Python 3.11 to 3.14. `make PYTHON=/path/to/python3.13 …` selects another.
CANDIDATES := python3 python3.14 python3.13 python3.12 python3.11
SUITABLE := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))
PYTHON ?= $(firstword $(foreach p,$(CANDIDATES),$(shell $(p) -c '$(SUITABLE)' 2>/dev/null && echo $(p))))

# Everything runs in CI and in `make test-all`. `make test` leaves out the tests with the mark `extended`, the engine
# minicpmo, which needs torch, WebRTC calls and Chinese speech.
ALL = $(filter true,$(CI))
EXTRAS = server local otel test $(if $(ALL),minicpmo test-minicpmo webrtc zh)
# The other files import torch. A program in tools imports one file of bench.
TYPED = $(if $(ALL),,antiphon tools bench/ten_voices.py --exclude /minicpmo/)

# Most tests wait for real time to pass: four files at a time keep two cores busy. tests/conftest.py puts
# the longest files first. A browser and the engine in a call need the cores for themselves, or sound is lost.
SIDE_BY_SIDE = $(BIN)/pytest --dist=loadfile --no-loadscope-reorder --numprocesses
SELECTED = $(if $(ALL),,-m "not extended")

# These tests compute, and no clock runs in them. They take the time that the browser leaves, at the lowest priority.
NETWORKS = $(addprefix tests/unit/inference_worker/engines/,local minicpmo)

# Linux shares the cores between sessions first, so the priority of a process counts only within its session.
AT_LOWEST_PRIORITY = $(if $(shell command -v setsid),setsid) sh -c \
  '(echo 19 > /proc/self/autogroup) 2> /dev/null; exec nice -n 19 "$$@"' sh

IN_CONTAINERS = $(BIN)/pytest tests/containers -o timeout=900 -o faulthandler_timeout=0

# The tests in containers end before the browsers start: Chromium aborts loads when a network interface appears
# or disappears.
define WITHOUT_BROWSER
mkdir -p build; \
$(if $(ALL),$(IN_CONTAINERS) > build/containers.log 2>&1 & containers=$$!;) \
$(SIDE_BY_SIDE)=4 $(SELECTED) $(NETWORKS:%=--ignore=%) tests/unit tests/redis && \
$(SIDE_BY_SIDE)=$(if $(ALL),3,4) $(SELECTED) tests/system; status=$$?; \
$(if $(ALL),wait $$containers || status=$$?; cat build/containers.log;) exit $$status
endef

define WITH_BROWSER
trap 'kill $$networks' INT TERM; \
$(AT_LOWEST_PRIORITY) $(SIDE_BY_SIDE)=2 $(SELECTED) -o timeout=1800 -o faulthandler_timeout=0 $(NETWORKS) \
  > build/networks.log 2>&1 & networks=$$!; \
$(SIDE_BY_SIDE)=1 $(SELECTED) tests/browser; status=$$?; \
wait $$networks || status=$$?; cat build/networks.log; exit $$status
endef

# Without their bytecode, each of the hundreds of processes of the tests would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo up web docs test test-all chaos containers check lint format types audit bench clean

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .run-time .pages  ## Install, start all services, ask a spoken question and print the answer
	@$(BIN)/antiphon demo

up: .run-time .pages  ## Run the whole pipeline until Ctrl-C
	@exec $(BIN)/antiphon up

web: .run-time  ## Build the browser pages if web/ has changed
	@$(BIN)/python tools/web_pages.py build

docs: .python  ## Build the documentation as a website: build/site/index.html
	@$(PYTHON) tools/docs_site.py

test: .test-time  ## Lint, types and the tests to run before a change is proposed
	@$(MAKE) --no-print-directory --jobs=3 --output-sync=target ALL=$(ALL) .programs check .web $(if $(ALL),.site)
	@$(WITHOUT_BROWSER)
	@$(WITH_BROWSER)

test-all: ALL = true
test-all: test  ## The same and all other tests, as in CI

chaos: .test-time  ## Random faults under 30 clients (CHAOS_SECONDS, by default 300; CHAOS_SEED repeats a run)
	CHAOS_SECONDS=$(or $(CHAOS_SECONDS),300) CHAOS_SEED=$(or $(CHAOS_SEED),$(shell date +%s)) \
	  $(BIN)/pytest tests/system/faults/test_chaos.py -q -s -o faulthandler_timeout=0

containers: .test-time  ## Build, run and test the compose stack (minutes; needs Docker, or root on Debian)
	$(IN_CONTAINERS)

check: lint types  ## Lint, types, and known vulnerabilities if the package indexes report them
	@$(BIN)/python tools/audit.py --optional

lint: .test-time  ## Check with ruff and biome
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@$(BIN)/python tools/web_pages.py lint

format: .test-time  ## Format with ruff and biome
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	@$(BIN)/python tools/web_pages.py format

types: .test-time  ## mypy and tsc, strict
	$(BIN)/mypy $(TYPED)
	@$(BIN)/python tools/web_pages.py types

audit: .test-time  ## Known vulnerabilities of all packages (pip-audit and npm audit; needs both indexes)
	@$(BIN)/python tools/audit.py

bench: .test-time  ## Measure the latency of the local engine in real time, without sockets (seven minutes)
	$(BIN)/python bench/local_latency.py --quiet

clean:  ## Remove the virtual environment, caches and demo data
	rm -rf $(VENV) .venv-docs .uv .audit build/docs build/site web/node_modules edge/pages data/demo .mypy_cache .pytest_cache .ruff_cache .hypothesis *.egg-info

.PHONY: .run-time .test-time .pages .programs .python .web .site

.run-time: .python
	@$(PYTHON) tools/install.py $(VENV) server local

.test-time: .python
	@$(PYTHON) tools/install.py $(VENV) $(EXTRAS)

# Without a network, everything except the pages works. The message says how to build them later.
.pages: .run-time
	@$(BIN)/python tools/web_pages.py build || true

.programs: .test-time
	@PYTHONPATH=tests $(BIN)/python -m support.debian $(if $(ALL),all)

.web: .test-time
	@$(BIN)/python tools/web_pages.py test
	@$(BIN)/python tools/web_pages.py build

.site: .test-time
	@$(PYTHON) tools/docs_site.py --optional

.python:
	@test -n "$(PYTHON)" || { \
	  echo "Python 3.11, 3.12, 3.13 or 3.14 is required. None of these was found: $(CANDIDATES)"; \
	  echo "On Debian 12 and Ubuntu 24.04, run:  apt-get install -y python3"; \
	  echo "On Ubuntu 22.04, run:                apt-get install -y python3.11"; \
	  echo "For another location:                make PYTHON=/path/to/python3.13 …"; \
	  exit 1; } >&2
