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
# # Finding label errors
#
# Labels are made by people and models in a hurry, and a wrong one counts against every selector that is right.
# Selectors that work differently seldom make the same mistake: where all of them contradict a label, look at it again.
# This notebook plants errors into a labelled dataset, and finds them.

# %%
import ctxbench

# %% [markdown]
# ## A dataset with errors
#
# An office assistant with 48 tools, and a request for each; some say plainly what they want, and some do not. Of every
# seventh request the label is wrong: somebody clicked another line.

# %%
actions = {"create": "make a new", "delete": "get rid of the", "find": "look up the", "share": "send Ann the"}
actions |= {"print": "put on paper the", "archive": "put away the"}
things = ["invoice", "customer", "contract", "ticket", "report", "meeting", "price list", "parcel"]

tools, requests, labels = [], [], []
for action, words in actions.items():
    for place, thing in enumerate(things):
        plain, short = f"Please {words} {thing} of Miller's", f"{action} {thing}"
        vague, vaguer = f"Miller again, now it's about the {thing}", "And once more for Miller, as last week"
        text = (plain, vague, short, plain, plain, short, vague, vaguer)[place]
        name = f"{action}_{thing.replace(' ', '_')}"
        tools.append({"name": name, "description": f"{action.capitalize()} a {thing}: {words} {thing}."})
        requests.append({"query": f"{action}-{thing.replace(' ', '-')}", "text": text})
        labels.append({"query": requests[-1]["query"], "item": name})

right = [label["item"] for label in labels]
planted = range(3, len(labels), 7)
for place in planted:
    labels[place]["item"] = right[(place + 17) % len(labels)]

office = ctxbench.dataset(tools, requests, labels, name="office")
[(labels[place]["query"], labels[place]["item"]) for place in planted]

# %% [markdown]
# ## What the selectors contradict
#
# `review` lists what every selector ranks far down though it is required, and what every one ranks first though it is
# not, the worst first. One of the two here goes by words, the other by pairs of letters (`hashing`, which needs no
# model; with a real one, `embedder="minilm"`, the two have less in common, and that they agree says more).

# %%
found = ctxbench.review(office, ["bm25", "dense"], embedder="hashing")
found.to_frame().round(2).head(12)

# %% [markdown]
# A planted error shows up twice: the wrong item far down, and the right one first. What is missed are requests so
# vague that a selector finds nothing, or that the two do not agree.

# %%
errors = {labels[place]["query"] for place in planted}
doubted = set(found.to_frame()["query"])
print(f"{len(errors & doubted)} of {len(errors)} errors are doubted, and {len(doubted - errors)} labels that are right")
print("missed:", ", ".join(sorted(errors - doubted)))

# %% [markdown]
# A doubt is a place to look, not a verdict: a person decides. `ctxbench data review` asks about them one by one on a
# terminal.
#
# ## Corrections
#
# What was decided is seen at once in `corrected`, and `save` writes it as a patch, which
# `ctxbench data review FOLDER --apply FILE` applies to a dataset in a folder, whole or not at all.

# %%
ids = office.items.set_index("name")["id"]
for place in planted:
    found.regrade(labels[place]["query"], ids[labels[place]["item"]], 0, why="clicked the wrong line")
    found.regrade(labels[place]["query"], ids[right[place]], 2, why="is what was asked for")

settings = {"embedder": "hashing", "counter": "chars/4", "metrics": ["completeness", "R@5"]}
before = ctxbench.evaluate(office, ["bm25", "dense"], **settings).to_frame()
after = ctxbench.evaluate(found.corrected, ["bm25", "dense"], **settings).to_frame()
figures = ["completeness", "R@5"]
before[figures].add_suffix(" before").join(after[figures].add_suffix(" corrected")).round(2)

# %% [markdown]
# A wrong label of seven hid what the selectors are worth. Errors cost all selectors alike, so a comparison of two may
# survive them; what a figure says by itself, such as whether a target is met, does not.
