"""Columns by name: what there is, and how columns that are asked for come into a table of candidates.

A feature is a column `family.name`. Families are registered strategies of the kind `feature`; a package outside adds
its own by an entry point, and a fit reads them by name like ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

import numpy as np

from ctxbench.core import registry
from ctxbench.core.arrays import FloatArray
from ctxbench.core.candidates import Candidates
from ctxbench.core.errors import UnknownNameError
from ctxbench.core.query import Query
from ctxbench.core.stages import Resources
from ctxbench.features.found import Found
from ctxbench.features.labelled_requests import LABELLED, LabelledRequests

VERSION = 4
"""Of the definitions of all shipped features; a fit of another one is refused."""

TEXT = (
    *("similarity.score", "similarity.margin", "similarity.rank"),
    *("words.bm25", "words.bm25_share"),
    *("words.query_in_name", "words.query_in_description", "words.query_in_body", "words.query_in_item"),
    *("words.name_in_query", "words.description_in_query", "words.body_in_query"),
    *("sentence.margin", "sentence.rank", "sentence.bm25_share", "sentence.bm25_rank", "sentence.fusion"),
)
"""How an item's text matches a request; these carry over to catalogs that a fit has not seen."""


class FeatureFamily(Protocol):
    """Features that are made together.

    Attributes:
        columns: their names, without that of the family.
        uses: the resources whose identity decides them.
    """

    columns: ClassVar[tuple[str, ...]]
    uses: ClassVar[tuple[str, ...]]

    def __call__(self, found: Found) -> FloatArray:
        """The columns of the rows found, shape (n_found, n_columns), finite; the same whatever else is in the batch."""
        ...


def family(name: str) -> FeatureFamily:
    """A family by its name.

    Raises:
        UnknownNameError: there is none.
    """
    made: FeatureFamily = registry.build("feature", name, {})
    return made


def column_names() -> tuple[str, ...]:
    """The names of all columns that there are, those of plugins included."""
    return tuple(f"{name}.{column}" for name in registry.names("feature") for column in family(name).columns)


def families_of(columns: Sequence[str]) -> dict[str, FeatureFamily]:
    """The families of some columns, by name.

    Raises:
        UnknownNameError: a column is unknown; names the closest.
    """
    found: dict[str, FeatureFamily] = {}
    for column in columns:
        name, _, own = column.partition(".")
        if name not in found:
            try:
                found[name] = family(name)
            except UnknownNameError as error:
                raise UnknownNameError("feature", column, column_names()) from error
        if own not in found[name].columns:
            raise UnknownNameError("feature", column, column_names())
    return found


def resources_of(columns: Sequence[str]) -> tuple[str, ...]:
    """The resources whose identity decides some columns."""
    return tuple(dict.fromkeys(use for one in families_of(columns).values() for use in one.uses))


def with_features(
    table: Candidates,
    columns: Sequence[str],
    query: Query,
    resources: Resources,
    *,
    expanded: bool = True,
    labelled: LabelledRequests | None = None,
) -> Candidates:
    """Add the columns that the table lacks, and their values where it lacks those; NaN for rows of the session.

    Columns of what labelled requests needed are always made anew: those of another fit would be of other requests.

    Raises:
        UnknownNameError: a column is unknown.
        ParameterError: a column says what labelled requests needed, and none are given.
    """
    found = Found.of(query, table, resources, expanded=expanded, labelled=labelled)
    there = {one: table.columns[one] for one in columns if one in table.columns and one not in LABELLED}
    lacking = [one for one in columns if one not in there or np.isnan(there[one][found.rows]).any()]
    added: dict[str, FloatArray] = {}
    for name, made in families_of(lacking).items():
        for own, values in zip(made.columns, made(found).T, strict=True):
            if f"{name}.{own}" in lacking:
                column = np.full(len(table), np.nan)
                column[found.rows] = values
                before = there.get(f"{name}.{own}", column)
                added[f"{name}.{own}"] = np.where(np.isnan(before), column, before)
    return table.with_columns(**added) if added else table


def feature_rows(
    table: Candidates,
    columns: Sequence[str],
    query: Query,
    resources: Resources,
    *,
    expanded: bool = True,
    labelled: LabelledRequests | None = None,
) -> tuple[Found, FloatArray]:
    """The rows that features are made of, and the values of some columns there, shape (n_found, n_columns).

    With `expanded` false, what an expansion brought in and no rank step has ordered since is left out. `labelled` are
    the labelled requests of the fit that reads the columns.
    """
    table = with_features(table, columns, query, resources, expanded=expanded, labelled=labelled)
    found = Found.of(query, table, resources, expanded=expanded)
    return found, column_values(table, columns, found)


def column_values(table: Candidates, columns: Sequence[str], found: Found) -> FloatArray:
    """The values of some columns of a table in the rows found, shape (n_found, n_columns)."""
    if not columns:
        return np.zeros((len(found), 0))
    return np.stack([table.columns[column][found.rows] for column in columns], axis=1)
