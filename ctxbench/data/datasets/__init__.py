"""Labelled datasets: the model, its files, and the look-up by name (`lookup`)."""

from ctxbench.data.datasets.dataset import Dataset, split_of
from ctxbench.data.datasets.query_labels import DatasetQuery, Label
from ctxbench.data.datasets.reader import read_dataset, validate
from ctxbench.data.datasets.writer import write_dataset

__all__ = [
    "Dataset",
    "DatasetQuery",
    "Label",
    "read_dataset",
    "split_of",
    "validate",
    "write_dataset",
]
