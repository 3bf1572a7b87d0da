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
# # Reading the sweep
#
# `tune` does not try some settings of a selector: for every request it computes at which values of a parameter
# anything changes, and so knows what each setting gives, without running it. This notebook reads what comes out: the
# best for each price, how sure that is, which parameters matter, and who pays.

# %%
import ctxbench

t = ctxbench.tune(
    "freight",  # 330 requests to a freight forwarder's desk, over 180 items; it comes with the package
    {"selector": "learned", "search": {"at_least": [1, 3], "at_most": [3, 5, 8, 10, 15, 20]}},
    maximise="completeness",
    tokens="2 of base",  # at most twice the prompt tokens of the default
    labels="split",  # choose on one half of the requests, and measure on the other
    embedder="hashing",  # no model is loaded: the example shall be quick
    counter="chars/4",
)
print(t.advice)

# %% [markdown]
# ## The front
#
# A row is a setting that no other one beats: to be more complete costs more tokens. The threshold is between two
# values at which something changes, so that no threshold is left out.

# %%
front = t.front()
best = front[front["line"] == "learned: front"]
best[["completeness", "tokens", "items", "threshold", "at_least", "at_most"]].iloc[::5].round(3)

# %% [markdown]
# Drawn, with what was compared. The dashed line is the first 1, 2, 3, ... items of the same ranking: where the front
# is above it, choosing how many items by score is better than a fixed number. The band is what these requests
# leave open.

# %%
t.plot.front()

# %% [markdown]
# ## What was chosen, and what it is worth
#
# A setting that is chosen because it looks best looks better than it is. So the choice is made on the tuning split, and
# these figures are of the test split, which is read once.

# %%
t.to_frame()[["contender", "role", "completeness", "completeness low", "completeness high", "tokens", "items"]].round(3)

# %% [markdown]
# ## Which parameters matter
#
# Two parameters at a time, all others as recommended, the frame around what is chosen. Where a map is flat the value
# hardly matters, and need not be tuned again; where it is steep, other data may ask for another value.

# %%
t.plot.heat("at_most", "threshold", metric="completeness")

# %%
t.plot.heat("at_most", "threshold", metric="tokens")

# %% [markdown]
# ## Requests made worse
#
# Means hide losses: these requests were complete under the default and are not under the recommendation. An empty table
# says that there is none.

# %%
t.worse()

# %% [markdown]
# ## When nothing is recommended
#
# With few requests luck chooses. The default is kept until a setting is significantly better, and the advice says about
# how many more labels it would take.

# %%
few = ctxbench.tune(
    "smoke", "bm25", minimise="tokens", completeness="0.9 of base", embedder="hashing", counter="chars/4"
)
print(few.advice)
print(few.presets["normal"].recommended)
