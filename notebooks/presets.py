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
# # Presets for your own dataset
#
# How many items should a selector offer for a request? This notebook finds the setting that a policy of yours asks
# for, on one half of your queries, and says on the other half what it is worth: against the shipped default (`learned`,
# at most 5 items), against a fixed number of items that was tuned in the same way, and against offering everything.
# Nothing is sent anywhere, and no model is asked for an answer.
#
# Put the folder of your dataset in the first cell and run all cells. `ctxbench tune` does the same from the command
# line.
#
# *Completeness* is the share of requests for which every item that they need was offered. *Tokens* are those of the
# prompt texts of what was offered. One can always be had for the other, so that they are shown together.

# %%
import os
from pathlib import Path

from IPython.display import SVG, Markdown, display

from ctxbench.bench.preparing import open_experiment
from ctxbench.bench.results import RunFolder
from ctxbench.bench.runner import run
from ctxbench.bench.summary import summarise_run
from ctxbench.data.datasets.store import open_dataset
from ctxbench.reporting.console import print_summary
from ctxbench.reporting.tuning import console_table, figures, tables, write_report
from ctxbench.reporting.tuning.document import Document, Drawing
from ctxbench.reporting.tuning.markdown import markdown
from ctxbench.tune.opening import open_tuning
from ctxbench.tune.policy_file import read_policies
from ctxbench.tune.presets import write_presets_of
from ctxbench.tune.tuner import tune

DATASET = "../datasets/workbench"  # a folder, or a name that `ctxbench data list` knows
FOLDER = Path("runs/presets")  # what is written goes here


def show(block):
    """Show a table or a figure of the report; None where there is nothing to show."""
    if isinstance(block, Drawing):
        display(SVG(block.wide))
    elif block is not None:
        display(Markdown(markdown(Document(title=block.title, about="", blocks=(block,)), figures="")))


# %% [markdown]
# ## 1. The dataset
#
# A dataset has a catalog of items, requests with labels of what they need, and two splits. `tuning` is looked at as
# often as one likes; `test` is read once, when all values are fixed. If yours has no splits yet:
# `ctxbench data split FOLDER`.

# %%
dataset = open_dataset(DATASET)
print(dataset)
for split in dataset.split_names:
    print(f"{split}: {len(dataset.split(split).judged())} labelled requests")

# %% [markdown]
# ## 2. The policies
#
# A policy says what is to be as small or as large as it can be, and what has to hold. Each gives one preset.
#
# * `of: base` is a multiple of what the shipped default has. `lean` asks for about as much completeness with fewer
#   tokens, `full` for more completeness with at most twice the tokens.
# * `of: reachable` counts only requests that the first 20 items of the ranking make complete. No cut can help the
#   others; a better ranking could.
# * The default is kept until the requests show a setting to be better beyond doubt, so that luck alone seldom does.
#   With few requests nothing may be recommended; then the text says about how many more it would take. With fewer
#   than 400 that need something all of them decide, and none is left unread.
# * `search` names the values of a parameter that are tried, and `sample` how many requests a split are looked at: both
#   only make this notebook fast. Leave them out to try every number of items, on up to 1,000 requests.
# * A second selector, `{selector: learned, name: sharpened, fit: own}`, would be fitted to your labels first;
#   `ctxbench tune` takes the same file.

# %%
POLICIES = """
name: my-presets
selectors:
  - {selector: learned, search: {at_least: [1, 3], at_most: [3, 5, 8, 10, 15, 20]}}
policies:
  lean:
    about: as complete as the default, for fewer tokens
    minimise: tokens
    constraints: [{metric: completeness, at_least: 0.98, of: base}]
  full:
    about: the most complete for twice the tokens of the default
    maximise: completeness
    constraints: [{metric: tokens, at_most: 2.0, of: base}]
  safe:
    about: three quarters of what can be reached
    minimise: tokens
    constraints: [{metric: completeness, at_least: 0.75, of: reachable}]
embedder: minilm
tokens: o200k
sample: 150
"""
FOLDER.mkdir(parents=True, exist_ok=True)
policy_file = FOLDER / "policies.yaml"
policy_file.write_text(POLICIES, "utf-8")
ready = open_tuning(read_policies(policy_file), [DATASET])

# %% [markdown]
# All that is wrong with the file, the dataset or the selectors would have been said by now, with its line.
#
# ## 3. Tune
#
# Every setting of the cut is evaluated: each number of items with every margin at which anything changes.
# The figures are those that running the selector with each of them would give. What was chosen is then measured on the
# test split.

# %%
tuning = tune(ready, command=f"ctxbench tune {DATASET} --policy {policy_file}")
print(console_table(tuning))

# %% [markdown]
# ## 4. What it costs and what it gives
#
# The lines are the best that any setting gives for its tokens, and the first 1, 2, 3, ... items; the marks are what is
# compared. A mark on the lower line is no better than a fixed number of items.

# %%
found = tuning.datasets[0]
show(figures.trade_off(found))

# %%
show(tables.contenders(found, figures.tags(found)))

# %% [markdown]
# The figures of the tuning split flatter what was chosen on it. This is by how much:

# %%
show(tables.optimism(tuning))

# %% [markdown]
# How much of the gain is due to the ranking, and how much to the cut? A better ranking saves tokens even where a fixed
# number of items is offered. With one selector in the policy file there is one ranking, and nothing to gain by it.

# %%
show(tables.gains(tuning))

# %% [markdown]
# ## 5. How much each parameter matters
#
# One parameter is turned, all others stay as recommended. Where a line is flat, the value does not matter and need not
# be tuned again; where it is steep, a small change of the data may ask for another value.

# %%
for outcome in found.outcomes:
    show(figures.sensitivity(found, outcome))

# %% [markdown]
# ## 6. Requests made worse
#
# Means hide who pays. These requests of the test split were complete under the default and are not under the preset.

# %%
for outcome in found.outcomes:
    print(f"{outcome.policy.name}: {len(outcome.worse)} made worse")
    if outcome.worse:
        show(tables.made_worse(outcome))

# %% [markdown]
# ## 7. Another policy
#
# Change the text and tune again; no text is embedded twice. Decide by the tuning split: a policy that is changed until
# the test split looks well has been tuned on the test split.

# %%
policy_file.write_text(POLICIES.replace("at_least: 0.75", "at_least: 0.8"), "utf-8")
ready = open_tuning(read_policies(policy_file), [DATASET])
tuning = tune(ready, command=f"ctxbench tune {DATASET} --policy {policy_file}")
show(tables.summary(tuning))

# %% [markdown]
# ## 8. Take the presets with you
#
# The presets file holds the values, the policy, hashes of dataset and selector, and the figures of both splits. If the
# selector's parameters or steps have changed since, reading it is an error that says so. The report holds all of the
# above and more.

# %%
found = tuning.datasets[0]
presets = FOLDER / "presets.yaml"
if not write_presets_of(found, ready, presets):
    print("nothing is recommended, so that there is no presets file")
for path in write_report(tuning, FOLDER)[:2]:
    print(path)

# %% [markdown]
# An experiment names the file and a preset, and sets it beside anything else; `ctxbench run` does the same.
# `ctxbench select TEXT --catalog ... --presets FILE --preset lean` explains the answer to one request.

# %%
place = os.path.relpath(DATASET, FOLDER) if Path(DATASET).is_dir() else DATASET
tuned = [
    f"  - {{presets: presets.yaml, preset: {outcome.policy.name}, name: {outcome.policy.name}}}"
    for outcome in found.outcomes
    if outcome.chosen is not None
]
experiment = f"""
name: my-presets
datasets: [{place}]
split: test
sample: 150
metrics: [completeness, tokens, items]
selectors:
  - {{selector: learned, preset: normal, name: default}}
"""
(FOLDER / "experiment.yaml").write_text(experiment + "\n".join(tuned), "utf-8")
print((FOLDER / "experiment.yaml").read_text("utf-8"))

# %%
run(open_experiment(FOLDER / "experiment.yaml"), FOLDER / "run")
print_summary(summarise_run(RunFolder(FOLDER / "run")), width=120)
