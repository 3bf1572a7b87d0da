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
# # Reading a gate failure
#
# Somebody saves tokens, or edits the description of a tool. Tests are green, and yet for some requests the model no
# longer gets to see what it needs. The gate says so before it is merged: what was lost, why, and what would fix it.
# `ctxbench check` does the same in CI.

# %%
import ctxbench

SETTINGS = {"embedder": "hashing", "counter": "chars/4"}  # no model; as they are by default for your own

# %% [markdown]
# ## Before
#
# What the selector offered before the change. A folder that `ctxbench run` or `ctxbench check --accept` wrote works,
# too.

# %%
ds = ctxbench.load("smoke")
selector = {"words": ctxbench.pipeline("bm25", refine=[{"first": {"n": 5}}])}
before = ctxbench.evaluate(ds, selector, **SETTINGS)
before

# %% [markdown]
# ## A change
#
# The selector now offers two items instead of five.

# %%
shorter = {"words": ctxbench.pipeline("bm25", refine=[{"first": {"n": 2}}])}
now = ctxbench.evaluate(ds, shorter, **SETTINGS)
found = ctxbench.check(now, before)
found.verdict

# %% [markdown]
# ## Why `worse`?
#
# Two things decide. **Facts**: the selector is deterministic, so a required item that
# is no longer offered is lost, whatever statistics say. **Means**: a difference counts as worse only if it is
# significant; thirty requests show only large ones.

# %%
found.to_frame()[["metric", "verdict", "base", "head", "difference", "low", "high", "p", "tolerance", "detectable"]]

# %% [markdown]
# `detectable` is the smallest loss that this many requests would show four times in five. If it
# is large, a verdict of `inconclusive` says something about the dataset, and not about the change.
#
# ## What was lost, and what would fix it

# %%
changes = found.changes()
changes[changes["lost"] & changes["required"]][["query", "item", "detail", "rule", "fix"]]

# %% [markdown]
# Everything at once, as the console shows it:

# %%
found

# %% [markdown]
# ## Something better
#
# The same in the other direction: new items are a gain, and their tokens are judged with it.

# %%
ctxbench.check(before, now).to_frame()[["metric", "verdict", "difference", "low", "high"]]
