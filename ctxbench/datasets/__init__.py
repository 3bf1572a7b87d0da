"""Labelled datasets: read, check, write and look up.

A dataset is a folder with `corpus.jsonl`, `queries.jsonl`, `qrels/<split>.tsv` and `dataset.yaml`, or a name. Reading
returns a `Dataset`, or all faults of the folder at once, each with file and line. Writing loses no file that is already
in the folder. `datasets/format.md` describes every field. A published dataset is a recipe in `recipes.yaml` and an
importer in `ctxbench/labelling`.

Start with `Dataset` and its two hashes in `dataset`, then `queries`, then `files`.

Rules: unlabelled is a third state, not irrelevant. Splits are made by a hash of the query's group, so paraphrases are
never in two splits.

Modules:
    dataset: A labelled dataset: catalog, queries, labels, splits and card, under a content hash.
    files: Read a dataset folder with all its faults, and write one without losing other files.
    layout: Files of a dataset folder, labelling files in it, and the sources of its agent's items.
    lookup: Find datasets by name, importing them if needed; the importer base class.
    queries: Queries and labels of a dataset, checks that they agree, and rows grouped by key.
"""
