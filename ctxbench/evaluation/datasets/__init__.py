"""Labelled datasets: what they hold, their files, and where they are found by name."""

from ctxbench.evaluation.datasets.dataset import Dataset, split_of
from ctxbench.evaluation.datasets.labels import DatasetQuery, Label
from ctxbench.evaluation.datasets.reading import read_dataset, validate
from ctxbench.evaluation.datasets.store import dataset_folder, import_dataset, list_datasets, open_dataset
from ctxbench.evaluation.datasets.writing import create_dataset, write_dataset

__all__ = [
    "Dataset",
    "DatasetQuery",
    "Label",
    "create_dataset",
    "dataset_folder",
    "import_dataset",
    "list_datasets",
    "open_dataset",
    "read_dataset",
    "split_of",
    "validate",
    "write_dataset",
]
