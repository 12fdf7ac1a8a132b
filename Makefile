PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Linters and validators of what is deployed; they would not fit beside ours.
DEPLOY := .venv-deploy
DEPLOY_READY := $(DEPLOY)/.ready

# A real vLLM, for make test-vllm.
VLLM_VENV ?= .venv-vllm

.PHONY: run test test-vllm check format scenarios dashboards rules pages deploy-tools bench clean

# The venv holds exactly what requirements-dev.lock says; the project is installed editable into it.
$(READY): requirements-dev.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

# make run: the demo. make run TARGET=http://host:8000 LOG=/path: the daemon on a real server.
run: $(READY)
ifdef TARGET
	$(BIN)/vllm-sidecar run --target $(TARGET) $(foreach path,$(LOG),--log $(path))
else
	$(BIN)/vllm-sidecar demo
endif

# TESTS: paths or options for pytest; all tests without it.
test: $(READY)
	$(BIN)/python -m pytest -q $(TESTS)

# Beside a real vLLM on CPU, in a venv of its own: 3.5 GB the first time, then twelve minutes. As root on
# a host with cgroup v1 a host OOM is among it.
test-vllm: $(READY)
	$(PYTHON) tools/install_vllm.py $(VLLM_VENV)
	VLLM_VENV=$(VLLM_VENV) $(BIN)/python -m pytest -q -rP -p no:randomly tests/real_vllm

check: $(READY)
	$(BIN)/ruff format --check sidecar tests tools
	$(BIN)/ruff check sidecar tests tools
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(READY)
	$(BIN)/ruff format sidecar tests tools
	$(BIN)/ruff check --fix sidecar tests tools

scenarios: $(READY)
	$(BIN)/python tools/make_scenarios.py

# What is written by a program from tables of ours; the tests say when it is not up to date.
dashboards: $(READY)
	$(BIN)/python -m tools.make_dashboards

rules: $(READY)
	$(BIN)/python -m tools.make_prometheus_rule

pages: $(READY)
	$(BIN)/python -m tools.make_pages

$(DEPLOY_READY): requirements-deploy.lock
	test -x $(DEPLOY)/bin/python || $(PYTHON) -m venv $(DEPLOY)
	$(DEPLOY)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-deploy.lock
	touch $@

deploy-tools: $(DEPLOY_READY)

# Beside mtail, grep and prometheus-node-exporter, which must be installed; the kills need root and
# cgroup v1. BENCH="page start" measures only those. Numbers go to .benchmarks/.
bench: $(READY)
	$(BIN)/python -m tests.benchmarks $(BENCH)

clean:
	rm -rf $(VENV) $(DEPLOY) .mypy_cache .pytest_cache .ruff_cache .hypothesis
