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
# What the selector offered when all was well. A folder that `ctxbench run` or `ctxbench check --accept` wrote will do,
# too.

# %%
ds = ctxbench.load("smoke")
selector = {"words": ctxbench.pipeline("bm25", refine=[{"first": {"n": 5}}])}
before = ctxbench.evaluate(ds, selector, **SETTINGS)
before

# %% [markdown]
# ## A change
#
# Two items are offered in place of five.

# %%
shorter = {"words": ctxbench.pipeline("bm25", refine=[{"first": {"n": 2}}])}
now = ctxbench.evaluate(ds, shorter, **SETTINGS)
found = ctxbench.check(now, before)
found.verdict

# %% [markdown]
# ## Why `worse`?
#
# Two things are held apart. **Facts**: the selector answers alike whenever it is asked, so that a required item that
# went out is lost, whatever statistics say. **Means**: a difference counts as worse only where noise would hardly make
# it; with thirty requests much cannot be told.

# %%
found.to_frame()[["metric", "verdict", "base", "head", "difference", "low", "high", "p", "tolerance", "detectable"]]

# %% [markdown]
# `detectable` is the smallest change for the worse that so many requests would tell apart four times in five. Where it
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
# The same the other way round: what comes in is a gain, and its price in tokens is judged with it.

# %%
ctxbench.check(before, now).to_frame()[["metric", "verdict", "difference", "low", "high"]]
