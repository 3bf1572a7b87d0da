# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
#

# %% [markdown]
# # A strategy of your own
#
# A selector is a pipeline: a request is split into chunks, a retriever finds candidates, and steps rank, cut and expand
# them. Any step can be yours. This notebook writes a cut, compares it with the shipped ones, and looks at what it does.

# %%
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import ctxbench

# %% [markdown]
# ## The idea
#
# Tools of one server are often needed together, and a request seldom needs more than two servers. So: take the two
# servers of the best candidates, and offer their best `n` items. (Rules and references have no server; they count as
# one.)
#
# A strategy is a frozen dataclass whose fields are its parameters. It excludes rows with a rule and
# drops none, so that reports can say why an item is excluded; `rule_words` has the words.


# %%
@dataclass(frozen=True)
class TwoServers(ctxbench.Strategy):
    """Offer the best `n` items of the two servers whose items score best."""

    n: int = 5
    rule_words: ClassVar = {"two_servers": "not of the two best servers, or beyond the first n={n} of them"}

    def __call__(self, query, candidates, resources):
        catalog = query.batch.catalog
        found = candidates.chosen & (candidates.tier > 0)
        out = np.zeros(len(candidates), dtype=bool)
        for request in range(len(query.batch)):
            span = candidates.rows(request)
            best, taken = [], 0
            for row in range(span.start, span.stop):
                if not found[row]:
                    continue
                server = catalog[int(candidates.item[row])].server
                if server not in best and len(best) < 2:
                    best.append(server)
                if server in best and taken < self.n:
                    taken += 1
                else:
                    out[row] = True
        return candidates.exclude(out, ctxbench.Rule.of("two_servers", n=self.n))


# %% [markdown]
# ## Compared with the shipped ones
#
# `ctxbench.step` makes a step of it. All selectors below find the same candidates, so that nothing differs but the cut.

# %%
ds = ctxbench.load("smoke")
res = ctxbench.evaluate(
    ds,
    {
        "first 3": ctxbench.pipeline("bm25", refine=[{"first": {"n": 3}}]),
        "first 5": ctxbench.pipeline("bm25", refine=[{"first": {"n": 5}}]),
        "two servers": ctxbench.pipeline("bm25", refine=[ctxbench.step("cut", TwoServers(n=5))]),
    },
    metrics=["completeness", "recall", "precision", "tokens", "items", "same_server_confusions"],
    embedder="hashing",  # nothing is embedded here
    counter="chars/4",
)
res

# %% [markdown]
# A better cut gives more for the same tokens, or the same for fewer. This idea does not pay: it loses a little, and
# the intervals say that it may be noise. `needed` is how many requests would decide.

# %%
res.compare("two servers", "first 5", metrics=["completeness", "recall", "tokens"])

# %% [markdown]
# ## What it does to one request

# %%
by_query = res.per_query().pivot_table(index="query", columns="selector", values="recall")
query = (by_query["first 5"] - by_query["two servers"]).idxmax()
print(ds.queries.set_index("query").loc[query, "text"])
res.explain(query, "two servers").head(10)[["item", "offered", "score", "grade", "rule"]]

# %% [markdown]
# ## Into a package
#
# An entry point gives it a name, and then every command knows it: `[project.entry-points."ctxbench.cut"]`
# `two_servers = "mine.cuts:TwoServers"`. `ctxbench.testing.check_step("cut", "two_servers", {"n": 5})` holds it to what
# every step must hold: empty input, ties, one request asked alone or among others. See CONTRIBUTING.
