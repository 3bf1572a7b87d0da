"""Labelled datasets: the model, its files, and the look-up by name."""

from ctxbench.data.datasets.dataset import Dataset, split_of
from ctxbench.data.datasets.lookup import dataset_folder, import_dataset, list_datasets, open_dataset
from ctxbench.data.datasets.query_labels import DatasetQuery, Label
from ctxbench.data.datasets.reader import read_dataset, validate
from ctxbench.data.datasets.writer import create_dataset, write_dataset

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
