# Every target sets up .venv first; `make` alone lists them.
# make setup PYTHON=python3.12     with an interpreter other than the first that will do

PY := .venv/bin/python
# Compiled modules are kept, also where the environment says otherwise: they save minutes.
unexport PYTHONDONTWRITEBYTECODE
# What arrays leave free is kept (by the C library of Linux): asking for it again each time
# takes up to a third of the time, where tables of scores are large.
KEEP := MALLOC_MMAP_THRESHOLD_=33554432 MALLOC_TRIM_THRESHOLD_=1000000000
PYTEST := $(KEEP) $(PY) -m pytest -n auto --dist loadscope --no-loadscope-reorder --junitxml=reports/junit.xml
# Counting takes a fifth of all the time, so only CI and COVER=1 count.
COVER ?= $(if $(DEVICE),,$(CI))
COVERAGE := --cov=attention_lib --cov-branch --cov-fail-under=98 \
  --cov-report=term-missing:skip-covered --cov-report=html:reports/coverage \
  --cov-report=json:reports/coverage.json
UNTESTED := && $(PY) -m tests.untested reports/coverage.json
NBVAL := -p tools.check.compare --nbval
# A GPU is one device: its notebooks run one by one, and have a report of their own.
GPU := $(if $(DEVICE),-p tools.check.devices $(if $(filter pretend,$(DEVICE)),--comparison-report=reports/devices.json,-n0 --comparison-report=reports/gpu.json))

.DEFAULT_GOAL := help
.PHONY: help setup book serve copies workshop notebooks format check translate test test-rest test-variations \
  benchmarks lock

help:
	@awk '/^##@/ { printf "\n%s\n", substr($$0, 5) } \
	  match($$0, /^[a-z-]+:.*## /) { split($$0, it, ":"); sub(/.*## /, ""); printf "  make %-16s %s\n", it[1], $$0 }' Makefile

##@ Read the book
setup: ## make .venv with every pinned version
	@tools/setup.sh

book: setup ## record what is stale, then build the site
	@$(PY) -m tools.site

serve: setup ## show the site, and rebuild and reload it on every change
	@$(PY) -m tools.site.serve

copies: setup ## copies to hand out: KIND=colab, KIND=student, or KIND=pdf
	@$(PY) -m tools.export.$(if $(filter pdf,$(KIND)),pdf,copies --$(or $(KIND),colab)) $(ARGS) \
	  $(if $(filter colab,$(or $(KIND),colab)),&& $(PY) -m tools.translate copies) \
	  $(if $(filter pdf,$(KIND)),&& $(PY) -m tools.translate pdf)

workshop: setup ## a folder in which you write a language model yourself; TO=~/my-model
	@$(PY) -m attention_lib.course.workshop $(or $(TO),_build/my-model)

##@ Change it
format: setup ## fix style
	@$(PY) -m ruff check --fix-only --quiet . && $(PY) -m ruff format .

check: setup ## lint, types and fast library tests, in a minute
	@$(PY) -m pre_commit run --all-files && $(PYTEST) -q -m "not slow and not long" tests/library

notebooks: setup ## execute the chapters whose record is stale; ARGS="--all 03-masks" for one
	@$(PY) -m tools.record $(ARGS) && $(PY) -m tools.check.variations --fill

translate: setup ## bring the Chinese catalogues in step; ARGS=chapters/03-masks begins one
	@$(PY) -m tools.translate update $(ARGS)

# With DEVICE=pretend or cuda, the notebooks on a simulated GPU or on a real one, those with
# the published model, too: to save time, `make test-rest` leaves its cells out.
test: setup ## check all that a change can break; CHANGED=1 for what yours can, ARGS=FILES
	@$(if $(DEVICE),ATTENTION_DEVICE=$(DEVICE)) $(PYTEST) $(if $(COVER),$(COVERAGE)) $(NBVAL) $(GPU) \
	  -m "$(or $(MARK),not slow)" $(if $(CHANGED),--changed=$(CHANGED)) \
	  $(or $(ARGS),$(if $(DEVICE),,tests) notebooks) $(if $(COVER),$(UNTESTED))

##@ Before it is published
test-rest: setup ## what `make test` leaves out: all widths and colours, a simulated GPU
	@$(MAKE) --no-print-directory test COVER= MARK=slow ARGS=tests
	@BOOK_MODEL=none $(MAKE) --no-print-directory test DEVICE=pretend

test-variations: setup ## run every notebook as on other machines; ARGS=oldest for one
	@$(PY) -m tools.check.variations $(ARGS)

benchmarks: setup ## measure speed side by side, fill its page; ARGS="-k growth"
	@$(PY) -m pytest benchmarks -q --benchmark-disable-gc --benchmark-quiet \
	  --benchmark-json=_build/benchmarks.json $(ARGS)
	@$(PY) -m benchmarks.report _build/benchmarks.json

lock: setup ## pin what pyproject.toml asks for; ARGS="--upgrade-package numpy" moves one
	@$(PY) -m uv pip compile --quiet --universal --python-version 3.11 \
	  --group book --group test --custom-compile-command "make lock" \
	  $(ARGS) pyproject.toml --output-file requirements.txt
