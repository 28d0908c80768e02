# The two commands that matter: `make serve` runs a hall, `make test` runs the whole suite.
# Everything lives in .venv; versions come from the locks in requirements/.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help install serve image test collected build-wheel test-wheel wheel lint format docs web screenshots bench clean lock

help:
	@echo "make serve    run a hall on 127.0.0.1:6667   (make serve ARGS='--port 7000')"
	@echo "make test     lint, type-check and run the whole suite"
	@echo "make install  create .venv/bin/moothall"
	@echo "make lint     ruff and mypy only"
	@echo "make format   let ruff rewrite the sources"
	@echo "make docs     renew what is generated in docs/"
	@echo "make web      check the files of the page, its size and its libraries"
	@echo "make wheel    build a wheel with a compiled hot path in dist/, and test it (needs a C compiler)"
	@echo "make image    make the image for agents in containers (needs mmdebstrap and podman)"
	@echo "make screenshots   take the pictures in docs/images anew (needs chromium)"
	@echo "make bench    measure against the relay, nats-server and Redis"
	@echo "make lock     renew the dependency locks"
	@echo "make clean    remove .venv, build/, dist/ and caches"

$(VENV)/python: Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "moothall needs Python 3.11 or newer; set PYTHON=... to choose one" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/installed: $(VENV)/python requirements/runtime.lock pyproject.toml
	$(PIP) install --require-hashes -r requirements/runtime.lock
	$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

# What `moothall mcp` and `moothall mesh node` need besides; containers that only run a hall go without.
$(VENV)/tools: $(VENV)/installed requirements/mcp.lock
	$(PIP) install --require-hashes -r requirements/mcp.lock
	@touch $@

$(VENV)/tested: $(VENV)/installed requirements/test.lock
	$(PIP) install --require-hashes -r requirements/test.lock
	@touch $@

install: $(VENV)/installed $(VENV)/tools

serve: $(VENV)/installed
	@exec $(BIN)/moothall serve $(ARGS)

lint: $(VENV)/tested
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/tested
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/tested
	$(BIN)/python -m tools.wire_reference
	$(BIN)/python -m tools.api_reference
	$(BIN)/python -m tools.http_reference

web: $(VENV)/tested
	$(BIN)/python -m tools.web_check

image: $(VENV)/installed
	$(BIN)/python -m tools.worker_image $(ARGS)

screenshots: $(VENV)/tested
	$(BIN)/python -m tools.screenshots
	$(BIN)/python -m tools.page_screenshots

test: $(VENV)/tested
	@$(MAKE) --no-print-directory --jobs=2 lint collected
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder $(ARGS)

# Each worker of pytest would rewrite and compile all tests. Here that is done once, while mypy needs one processor.
# An error is reported by the run itself.
collected: $(VENV)/tested
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --collect-only --quiet $(ARGS) >/dev/null 2>&1 || true

# A wheel whose hot path is compiled with mypyc. It is built in one environment and installed in another one, and
# neither has anything of .venv or of this folder.
BUILDER := build/wheel-builder
INSTALLED := build/wheel
CLEAN_PIP = $(1)/bin/python -m pip --disable-pip-version-check --quiet install

wheel: build-wheel
	@$(MAKE) --no-print-directory test-wheel

build-wheel:
	rm -rf $(BUILDER) $(INSTALLED) build/mypyc dist/*.whl
	$(PYTHON) -m venv $(BUILDER)
	$(call CLEAN_PIP,$(BUILDER)) --require-hashes -r requirements/wheel.lock
	HATCH_BUILD_HOOK_ENABLE_CUSTOM=true $(BUILDER)/bin/python -m hatchling build -t wheel
	$(PYTHON) -m venv $(INSTALLED)
	$(call CLEAN_PIP,$(INSTALLED)) --require-hashes -r requirements/runtime.lock
	$(call CLEAN_PIP,$(INSTALLED)) --no-deps dist/*.whl

# The wheel of the last `make build-wheel`.
test-wheel:
	$(call CLEAN_PIP,$(INSTALLED)) --require-hashes -r requirements/test.lock
	$(INSTALLED)/bin/python -m pytest --build compiled --numprocesses auto --dist loadfile --no-loadscope-reorder $(ARGS)

bench: $(VENV)/tested
	$(PIP) install --require-hashes -r requirements/bench.lock
	$(BIN)/python -m benchmarks $(ARGS)

COMPILE = $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
  --no-emit-index-url --no-annotate --no-header

lock: $(VENV)/python
	$(PIP) install uv
	$(COMPILE) pyproject.toml requirements/build.in -o requirements/runtime.lock
	$(COMPILE) pyproject.toml requirements/build.in --extra mcp --extra node -c requirements/runtime.lock -o requirements/mcp.lock
	$(COMPILE) pyproject.toml requirements/build.in --extra cluster -c requirements/runtime.lock -o requirements/cluster.lock
	$(COMPILE) pyproject.toml --extra mcp --extra anthropic --extra openai -c requirements/runtime.lock -c requirements/mcp.lock -o requirements/worker.lock
	$(COMPILE) pyproject.toml requirements/build.in --extra test -c requirements/runtime.lock -o requirements/test.lock
	$(COMPILE) pyproject.toml requirements/build.in requirements/wheel.in -c requirements/runtime.lock -c requirements/test.lock -o requirements/wheel.lock
	$(COMPILE) requirements/bench.in -o requirements/bench.lock

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis benchmarks/build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
