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
# # From logs to labels
#
# An agent's log says what its model called. That is not what its requests needed: what was never offered could not be
# called. This notebook makes a dataset of a log, shows why labels that are taken from the log alone prefer the selector
# that wrote it, and asks a person about the requests that matter most.

# %%
import json
import tempfile
from pathlib import Path

import ctxbench

folder = Path(tempfile.mkdtemp())
settings = {"embedder": "hashing", "counter": "chars/4"}  # no model is loaded: the example shall be quick

# %% [markdown]
# ## A log
#
# One line per turn: the question, what was offered, and what was called. `datasets/README.md` lists what else is read:
# sessions of coding agents, exports of Langfuse and others, evals. Here the log is made up out of the dataset `smoke`,
# which comes with the package: an agent whose BM25 search offers three items a request, and a model that calls what it
# needs of them.

# %%
smoke = ctxbench.load("smoke")
by_hand = smoke.items.loc[smoke.items["include"] == "manual", "id"]  # what only a user can add is nothing to search for
required = smoke.labels[(smoke.labels["grade"] == 2) & ~smoke.labels["item"].isin(by_hand)]
needed = required.groupby("query")["item"].apply(list)

turns = []
for query in smoke.dataset.queries:
    offered = ctxbench.select(query.request.text, smoke, selector="bm25", n=3, **settings).ids
    called = [item for item in needed.get(query.id, []) if item in offered]
    turns.append({"conversation": query.id, "text": query.request.text, "offered": offered, "called": called})

(folder / "log.jsonl").write_text("\n".join(map(json.dumps, turns)))
turns[0]

# %% [markdown]
# ## The dataset
#
# Names, addresses and keys in texts are replaced by placeholders. Where not everything was offered, a request is
# *labelled in part*: it needs what was called, and perhaps more. Figures leave such requests out until somebody looked.

# %%
mine = ctxbench.from_file(folder / "log.jsonl", smoke, out=folder / "mine")
print(f"{len(mine.queries)} requests, {len(mine.labels)} labels; {len(mine.dataset.unlabelled)} not labelled in full")

# %% [markdown]
# ## Why somebody must look
#
# Take what was called for all that was needed, and the selector that wrote the log looks perfect: what it failed to
# offer is in no label.

# %%
selectors = {"bm25, first 3": ctxbench.pipeline("bm25", refine=[{"first": {"n": 3}}]), "everything": "everything"}
rows = mine.labels[mine.labels["grade"] == 2]
asked = mine.queries[mine.queries["query"].isin(rows["query"])]
believed = ctxbench.dataset(smoke.items, asked[["query", "text"]], rows[["query", "item"]], name="believed")
print(ctxbench.evaluate(believed, selectors, **settings).to_frame()["completeness"].round(2).to_string())

# %% [markdown]
# ## Questions
#
# `label` asks about the requests that narrow the figures most: those on which the selectors differ. Each answer is
# on disk at once, and the next session goes on, here or on a terminal (`ctxbench data label`).

# %%
session = ctxbench.label(folder / "mine", selectors, embedder="hashing")
session.next()

# %% [markdown]
# An answer is the list of what the request needs besides what is known; an empty list is "nothing more". Some questions
# are whether an item would do as well as another, and are answered with `True` or `False`. A person would look at each;
# this notebook knows the answers, as it made the log of a dataset that is labelled.

# %%
truth = {query.request.text: needed.get(query.id, []) for query in smoke.dataset.queries}


def answer(question):
    if question.kind == "alternative":
        return False
    return [item for item in truth[question.text] if item not in question.known]


for _ in range(25):
    question = session.next()
    if question is None:
        break
    session.answer(answer(question))

session.report().round(2)

# %% [markdown]
# Twenty-five answers say what each selector is worth, with an interval, and how many more answers would halve it. The
# sample is drawn so that the figures are fair; plain means over what happens to be labelled are not.
#
# With all questions answered the log is a dataset like any other.

# %%
while (question := session.next()) is not None:
    session.answer(answer(question))
session.close()

labelled = ctxbench.load(folder / "mine")
res = ctxbench.evaluate(labelled, selectors, baseline="everything", **settings)
res

# %% [markdown]
# What the log hid: requests that needed something which BM25 did not offer.

# %%
missed = res.per_query().query("selector == 'bm25, first 3' and completeness == 0")
asked = labelled.queries.set_index("query")["text"]
for query in missed["query"].head(5):
    print(f"{query}: {asked[query]}")
