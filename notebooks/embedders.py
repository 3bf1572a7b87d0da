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
# # Embedders compared
#
# Which embedder should search your tools? This notebook compares them in one run, on the same requests, so that
# differences are paired. An embedder is a name, or a function from a list of texts to an array of vectors.

# %%
from itertools import pairwise

import numpy as np

import ctxbench

ds = ctxbench.load("smoke")  # yours: ctxbench.dataset(tools, requests, labels)

# %% [markdown]
# ## A function is an embedder
#
# `embed(texts)` returns an array of shape `(n_texts, n_dimensions)`. It may ask a server or any library, for example
# `SentenceTransformer("intfloat/e5-small-v2").encode`. This one counts letters and pairs of letters, which is little
# enough to see a difference.


# %%
def embed(texts):
    vectors = np.full((len(texts), 27 * 27), 1e-6)
    for row, text in enumerate(texts):
        letters = [ord(letter) - 96 if "a" <= letter <= "z" else 0 for letter in f" {text.lower()} "]
        for one, other in pairwise(letters):
            vectors[row, 27 * one + other] += 1
    return vectors


# %% [markdown]
# ## All in one run
#
# `embedder` of the step `dense` is that search's own; the run's is used where none is named. Two searches can also be
# merged: `rrf` fuses both rankings.


# %%
def search(embedder):
    return ctxbench.pipeline({"dense": {"embedder": embedder}}, refine=[{"first": {"n": 5}}])


res = ctxbench.evaluate(
    ds,
    {
        "hashed words": search("hashing"),  # named ones: minilm, st:MODEL, openai:MODEL ...
        "pairs of letters": search(embed),
        "both": ctxbench.pipeline(
            {"merge": {"words": {"dense": {"embedder": "hashing"}}, "letters": {"dense": {"embedder": embed}}}},
            refine=["rrf", {"first": {"n": 5}}],
        ),
    },
    metrics=["completeness", "recall", "Comp@5", "R@5", "nDCG@10", "RR", "tokens"],
    embedder="hashing",
    counter="chars/4",
)
res

# %% [markdown]
# ## Is the difference real?
#
# Paired on the same requests, with 95% intervals; `needed` is how many requests would make it significant.

# %%
res.compare("pairs of letters", metrics=["completeness", "R@5", "nDCG@10"])

# %% [markdown]
# ## Where do they differ?

# %%
recall = res.per_query().pivot_table(index="query", columns="selector", values="R@5")
recall[recall["hashed words"] != recall["pairs of letters"]].head(10)

# %% [markdown]
# One of these requests, as each of them saw it:

# %%
query = recall.index[recall["hashed words"] != recall["pairs of letters"]][0]
print(ds.queries.set_index("query").loc[query, "text"])
res.explain(query, "hashed words").head(6)[["item", "offered", "score", "grade"]]

# %%
res.explain(query, "pairs of letters").head(6)[["item", "offered", "score", "grade"]]
