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
# # Presets for your own dataset
#
# How many items should a selector offer for a request? This notebook finds the setting that a policy of yours asks
# for, on one half of your queries, and says on the other half what it is worth: against the shipped default (`learned`,
# at most 5 items), against a fixed number of items that was tuned in the same way, and against offering everything.
# Nothing is sent anywhere, and no model is asked for an answer.
#
# Put your dataset in the first cell and run all cells. `ctxbench tune` does the same from the command line.
#
# *Completeness* is the share of requests for which every item that they need was offered. *Tokens* are those of the
# prompt texts of what was offered. Each can be improved at the cost of the other, so they are shown together.

# %%
import ctxbench

DATASET = "workbench"  # a folder, or a name that `ctxbench data list` knows; this one comes with the package
ds = ctxbench.load(DATASET)
ds

# %% [markdown]
# ## 1. The policies
#
# A policy says what is to be as small or as large as it can be, and what has to hold. Each gives one preset.
#
# * `of: base` is a multiple of what the shipped default has. `lean` asks for about as much completeness with fewer
#   tokens, `full` for more completeness with at most twice the tokens.
# * `of: reachable` counts only requests that the first 20 items of the ranking make complete. No cut can help the
#   others; a better ranking could.
# * The default is kept until the requests show a setting to be significantly better.
#   With few requests nothing may be recommended; then the text says about how many more it would take.
# * `search` names the values of a parameter that are tried, and `sample` how many requests a split are looked at: both
#   only make this notebook fast. Leave them out to try every number of items, on all requests.
#
# A single policy is shorter: `ctxbench.tune(ds, "learned", minimise="tokens", completeness="0.98 of base")`.

# %%
selector = {"selector": "learned", "search": {"at_least": [1, 3], "at_most": [3, 5, 8, 10, 15, 20]}}
policies = {
    "lean": {"minimise": "tokens", "constraints": [{"metric": "completeness", "at_least": 0.98, "of": "base"}]},
    "full": {"maximise": "completeness", "constraints": [{"metric": "tokens", "at_most": 2.0, "of": "base"}]},
    "safe": {"minimise": "tokens", "constraints": [{"metric": "completeness", "at_least": 0.75, "of": "reachable"}]},
}

# %% [markdown]
# ## 2. Tune
#
# Every setting of the cut is evaluated: each number of items with every threshold at which anything changes. The
# figures are those that running the selector with each of them would give. What was chosen is then measured on the test
# split, which is read once.

# %%
t = ctxbench.tune(ds, selector, policies=policies, sample=150, labels="split")
print(t)

# %% [markdown]
# ## 3. What it costs and what it gives
#
# The line is the best that any setting gives for its tokens, with its 95% band; the dashed one the first 1, 2, 3, ...
# items; the marks are what was compared. A mark on the dashed line is no better than a fixed number of items.

# %%
t.plot.front()

# %% [markdown]
# The same as a table. The figures of the tuning split flatter what was chosen on it; these are of the test split.

# %%
t.to_frame()[["contender", "role", "completeness", "completeness low", "completeness high", "tokens", "items"]].round(3)

# %% [markdown]
# ## 4. Two parameters at a time
#
# The frame is what is recommended. Where a map is flat, the values do not matter and need not be tuned again; where it
# is steep, a small change of the data may ask for others.

# %%
t.plot.heat("at_most", "threshold", metric="tokens")

# %% [markdown]
# ## 5. Requests made worse
#
# Means hide losses. These requests of the test split were complete under the default and are not under the preset.

# %%
t.worse()

# %% [markdown]
# ## 6. The presets, side by side
#
# A preset is a selector: `evaluate` and `select` take it. Differences are paired on the same requests of the test
# split; `*` marks a significant difference from the default.

# %%
presets = {name: preset for name, preset in t.presets.items() if preset.recommended}
res = ctxbench.evaluate(
    ds,
    {"default": "learned/normal", **presets},
    split="test",
    sample=150,
    metrics=["completeness", "tokens", "items"],
)
res

# %%
res.plot.differences()

# %% [markdown]
# ## 7. The same presets on other datasets
#
# A preset is chosen on your requests, for your catalog. On others it may pay more or less. Here it is compared to the
# three shipped ones: each chart is one dataset, and further up and to the left is better.

# %%
shipped = {name: f"learned/{name}" for name in ("aggressive", "normal", "conservative")}
others = ctxbench.evaluate(
    [ds, "freight", "smoke"],
    {**shipped, **presets},
    baseline="normal",
    sample=60,
    metrics=["completeness", "tokens"],
)
others.plot.trade_off()

# %% [markdown]
# ## 8. Another policy
#
# Change it and tune again; no text is embedded twice. Decide by the tuning split: a policy that is changed until the
# test split looks well has been tuned on the test split.

# %%
another = ctxbench.tune(ds, selector, minimise="tokens", completeness="0.8 of reachable", sample=150, labels="split")
print(another.advice)

# %% [markdown]
# ## 9. Take the presets with you
#
# The presets file holds the values, the policy, hashes of dataset and selector, and the figures of both splits. If the
# selector's parameters or steps have changed since, reading it is an error that says so. The report holds all of the
# above and more. An experiment names the file and a preset (`{presets: presets.yaml, preset: lean}`), and
# `ctxbench select TEXT --catalog ... --presets FILE --preset lean` explains the answer to one request.

# %%
print(t.save("runs/presets/presets.yaml"))
print(t.report("runs/presets"))
