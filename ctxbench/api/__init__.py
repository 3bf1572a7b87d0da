"""The functions and classes that `import ctxbench` offers.

For notebooks and programs: `load`, `dataset`, `catalog`, `select`, `evaluate`, `run`, `tune`, `check`, `answers`,
`pipeline`, `steps`, `rerank`, `retrieve`, `cut`, `conversation`, `from_file`, `label`, `review`. They take names,
frames, lists of dicts and functions; no files are needed. They return result objects with `to_frame`, `per_query`,
`compare`, `explain` and `plot`. Runs, tunings and checks are those of the commands. `experiments/guide/python.md` shows
an example.

Start with `evaluation`, then `inputs`. pandas and matplotlib are imported when a frame or a plot is asked for.

Modules:
    evaluation: The functions `evaluate`, `run` and `tune`: measure selectors on labels, run experiments, find presets.
    inputs: Datasets and catalogs from files, frames or Python.
    labelling: The functions `from_file`, `label`, `review` and `conversation`: labels and stored conversations.
    plots: Plots of results, and the items that selectors confuse.
    results: Results as frames, and `check` against a baseline.
    selectors: Selectors from Python, presets, and `select` for one request.
"""
