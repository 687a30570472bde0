# `make help` lists the targets.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo test check matrix hunt mutants bench docs release-check clean

# The interpreter that makes the virtual environments; the first that is new enough is taken.
PYTHON ?=
# What `make test` runs, and further arguments for pytest: make test BACKENDS=jax ARGS="-k clone"
BACKENDS ?= jax tensorflow torch
ARGS ?=
# How many processes share the tests of one backend; `auto` is one for each core.
WORKERS ?= auto
# What `make test` runs again without the part in C, if there are no further arguments.
OF_COPIER := tests/copying tests/backends tests/test_clone.py tests/test_clone_exact.py tests/test_clone_hunted.py tests/test_hunted.py
# Anything here makes `make bench` a short one.
QUICK ?=

# JAX compiles in half the time without its newer way to fuse operations; another jaxlib may not know the flag.
QUICK_XLA ?= --xla_cpu_use_fusion_emitters=false

VENV := .venv
# One thread in each of the processes that share the cores.
PYTEST = OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest -n $(WORKERS) --dist worksteal
DEMO_VENV := .venv-demo
LOGS := build/test
# What an environment is made from.
MADE_FROM := pyproject.toml constraints.txt src/ramet/copying/_core.c src/ramet/copying/_memo.h

export TF_CPP_MIN_LOG_LEVEL ?= 3
export PIP_DISABLE_PIP_VERSION_CHECK := 1

comma := ,
space := $() $()

# $(call make_venv,FOLDER): a new, empty virtual environment from a Python that is new enough.
define make_venv
	@python=""; \
	for candidate in $(or $(PYTHON),python3.11 python3 python); do \
	    if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	    then python="$$candidate"; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	    echo "ramet needs Python 3.11 or newer; none among: $(or $(PYTHON),python3.11 python3 python)." >&2; \
	    echo "Name one with: make PYTHON=python3.12" >&2; \
	    exit 1; \
	fi; \
	echo "making $(1) with $$("$$python" --version)"; \
	rm -rf $(1); \
	"$$python" -m venv $(1)
endef

# $(call install,FOLDER,EXTRAS): install ramet with extras, one line for each package; the rest is in a log.
# The commas between extras are written as spaces, since make splits arguments at commas.
define install
	@$(1)/bin/python -m pip install --progress-bar off -c constraints.txt -e '.[$(subst $(space),$(comma),$(2))]' $(3) 2>&1 | tee $(1)/install.log | awk '\
	    /^ *(Downloading|Using cached)/ && !/metadata/ { sub(/^ *(Downloading|Using cached) (.*\/)?/, ""); say($$0) } \
	    /^ *(Building|Installing)/ { say(substr($$0, 1, 70) " ...") } \
	    function say(text) { print "  " text; fflush() }' \
	    || { grep -v ^WARNING $(1)/install.log | tail -n 20 >&2; exit 1; }
endef

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(DEMO_VENV)/.stamp ## clone a model and prove it, with JAX on the CPU
	@KERAS_BACKEND=jax $(DEMO_VENV)/bin/python examples/demo.py

check: $(VENV)/.stamp ## lint, format, types, direction of imports
	$(VENV)/bin/python -m ruff check
	$(VENV)/bin/python -m ruff format --check
	$(VENV)/bin/python -m pyright
	$(VENV)/bin/lint-imports

# One process per backend: Keras chooses its backend once, when it is imported.
# Tests that need no backend run with the first one only, those for which one will do with the last,
# and sampled ones whole on PyTorch and in part on the others.
test: $(VENV)/.stamp ## run the tests on every backend
	@mkdir -p $(LOGS); rm -f $(LOGS)/*; failed=""; first=$(firstword $(BACKENDS)); last=$(lastword $(BACKENDS)); \
	for backend in $(BACKENDS); do \
	    echo; echo "== $$backend"; \
	    case $$backend in \
	        $$last) select="not backend_free or one_backend" ;; \
	        $$first) select="not one_backend" ;; \
	        *) select="not backend_free and not one_backend" ;; \
	    esac; \
	    sampled=$(filter torch,$(BACKENDS)); if [ $$first = $$last ]; then select=""; sampled=""; fi; \
	    flags="$${XLA_FLAGS:-}"; if [ $$backend = jax ]; then flags="$$flags $(QUICK_XLA)"; fi; \
	    KERAS_BACKEND=$$backend XLA_FLAGS="$$flags" RAMET_TEST_RECORD=$(LOGS)/$$backend RAMET_TEST_SAMPLED=$$sampled \
	        $(PYTEST) -m "$$select" $(ARGS) \
	        2>&1 | tee $(LOGS)/$$backend.log || failed="$$failed $$backend"; \
	done; \
	if $(if $(ARGS),false,true); then \
	    echo; echo "== the copier in Python"; \
	    RAMET_PURE_PYTHON=1 KERAS_BACKEND=$(lastword $(BACKENDS)) $(PYTEST) $(OF_COPIER) \
	        2>&1 | tee $(LOGS)/python.log || failed="$$failed python"; \
	fi; \
	echo; echo "== summary"; \
	for backend in $(BACKENDS) $(if $(ARGS),,python); do \
	    printf '%-12s%s\n' "$$backend" "$$(tail -n 1 $(LOGS)/$$backend.log | sed -E 's/^=+ | =+$$//g')"; \
	done; \
	if $(if $(ARGS)$(filter-out 3,$(words $(BACKENDS))),false,true); then \
	    $(VENV)/bin/python tests/nowhere.py $(LOGS) || failed="$$failed nowhere"; \
	fi; \
	if [ -n "$$failed" ]; then echo "failed:$$failed" >&2; exit 1; fi

# Its environments lie below build/matrix. The script needs nothing but Python.
matrix: ## run every verb with each version of Keras and Python
	@$(or $(PYTHON),python3) tests/matrix.py --backends $(BACKENDS) --workers $(WORKERS) $(ARGS)

# PyTorch is the fastest here: nothing has to be compiled. A fault is printed with its seed and, shrunk, as a script.
# The core in C comes first, with sanitizers.
hunt: $(VENV)/.stamp ## play many random edits, copy odd objects and read hostile files, to find faults
	@$(VENV)/bin/python tests/copying/sanitized.py
	@KERAS_BACKEND=$(lastword $(BACKENDS)) RAMET_HUNT_PROGRAMS=$${RAMET_HUNT_PROGRAMS:-50000} \
	    RAMET_HUNT_FILES=$${RAMET_HUNT_FILES:-10000} $(VENV)/bin/python -m pytest \
	    tests/test_edit_programs.py tests/test_diff_properties.py tests/test_diff_everyday.py \
	    tests/test_agreement.py tests/files/test_hostile.py tests/test_fold_hunted.py \
	    tests/compress/test_prune_hunted.py -k test_hunt -s $(ARGS)

# ARGS="--sample 300 --seed 1" draws others.
mutants: $(VENV)/.stamp ## measure how many small faults in the code the tests notice
	@KERAS_BACKEND=torch OMP_NUM_THREADS=1 $(VENV)/bin/python tests/mutants.py $(ARGS)

bench: $(VENV)/.stamp ## compare the times of copying models on every backend
	$(VENV)/bin/python -m benchmarks --backends $(BACKENDS) $(if $(QUICK),--quick) $(ARGS)

# The theme announces its successor at length. Not --quiet: with it, --strict does not see any warning.
docs: $(VENV)/.stamp ## build the documentation into build/docs; broken links and missing docstrings fail
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/python -m mkdocs build --strict 2>&1 | sed '/^INFO /d'
	@echo "open build/docs/index.html; to search too: python3 -m http.server -d build/docs"

release-check: $(VENV)/.stamp ## build and check what a release uploads, without uploading it
	$(VENV)/bin/python tests/release.py $(ARGS)

clean: ## remove environments, caches and build products
	rm -f src/ramet/copying/_core.*.so
	rm -rf $(VENV) $(DEMO_VENV) build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps make an environment again when what it is made from has changed.
$(VENV)/.stamp: $(MADE_FROM)
	$(call make_venv,$(VENV))
	$(call install,$(VENV),dev show jax torch,tensorflow-cpu)
	@touch $@

$(DEMO_VENV)/.stamp: $(MADE_FROM)
	$(call make_venv,$(DEMO_VENV))
	$(call install,$(DEMO_VENV),jax)
	@touch $@
