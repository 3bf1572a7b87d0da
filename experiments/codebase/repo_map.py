"""aider's repo map as an external selector: what `aider_map.py` ranks, as recorded answers within budgets of tokens."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import ctxbench
from ctxbench.datasets.dataset import Dataset
from ctxbench.io.errors import StorageError
from ctxbench.io.files import cache_dir
from ctxbench.model.arrays import IntArray
from ctxbench.search.tokens import open_counter

_VERSION, _LAST = re.compile(r"@[0-9a-f]{12}(\.\d+)?$"), re.compile(r"::|\.")


class RepoMaps:
    """The maps of one repository's requests, made once for all its datasets."""

    def __init__(self, python: str, repository: Path, folder: Path) -> None:
        """Nothing is asked yet.

        Args:
            python: the interpreter of an environment with `aider-chat`.
            repository: with its history; may be bare.
            folder: that trees are laid out in.
        """
        self._command = [python, str(Path(__file__).with_name("aider_map.py")), str(repository), str(folder)]
        self._rankings: dict[str, dict[str, Any]] = {}

    def answers(self, dataset: Dataset, out: Path, budgets: Sequence[int]) -> dict[str, Any]:
        """Selectors over a dataset made by `data from-git`, by name.

        Args:
            dataset: its queries are named by commits.
            out: the folder for the files of answers.
            budgets: in tokens.

        Returns:
            `aider`: the first ten. `aider 8000`: whole files, or definitions, in the map's order, as many as fit into
            8,000 tokens. `aider names 8000`: all files that a map of 8,000 tokens names, whatever they take.

        Raises:
            StorageError: the interpreter cannot be started, or has no aider.
        """
        rows = [row for row, query in enumerate(dataset.queries) if query.split == "test"]
        self._ask([(dataset.queries[row].id, dataset.queries[row].request.text) for row in rows])
        tokens = open_counter("o200k", cache=cache_dir()).count(
            dataset.catalog.ids, [item.prompt_text for item in dataset.catalog]
        )
        offered: dict[str, dict[str, list[int]]] = defaultdict(dict)
        eligible = dataset.batch().eligible
        for row in rows:
            query = dataset.queries[row].id
            ranking = self._rankings[query]
            order = list(_ranked(dataset, np.flatnonzero(eligible.row(row)), ranking["tags"]))
            offered["aider"][query] = order[:10]
            for budget in budgets:
                offered[f"aider {budget}"][query] = _filled(order, tokens, budget)
                offered[f"aider names {budget}"][query] = list(_of(dataset, order, ranking["named"][str(budget)]))
        return {name: self._recorded(dataset, out / f"{name}.jsonl", answers) for name, answers in offered.items()}

    def _ask(self, requests: Sequence[tuple[str, str]]) -> None:
        """Have the maps made that are not there yet."""
        lines = [json.dumps({"query": query, "text": text}) for query, text in requests if query not in self._rankings]
        if not lines:
            return
        try:
            # files without links stand in the order of a set, which must be the same each time
            done = subprocess.run(  # noqa: S603 - the interpreter that the caller names
                self._command,
                input="\n".join(lines),
                env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": ""},
                capture_output=True,
                check=True,
                text=True,
            )
        except (OSError, subprocess.CalledProcessError) as error:
            said = str(getattr(error, "stderr", error)).strip().rpartition("\n")[2]
            raise StorageError(f"aider makes no maps: {said}; name a Python that has aider-chat installed") from error
        self._rankings |= {one["query"]: one for one in map(json.loads, done.stdout.splitlines())}

    @staticmethod
    def _recorded(dataset: Dataset, path: Path, answers: Mapping[str, Sequence[int]]) -> Any:
        """A file of answers as a selector."""
        lines = [
            json.dumps({"query": query, "items": [{"id": dataset.catalog.ids[place]} for place in places]}) + "\n"
            for query, places in answers.items()
        ]
        path.write_text("".join(lines), "utf-8")
        return ctxbench.answers(path)


def _ranked(dataset: Dataset, seen: IntArray, tags: Sequence[tuple[str, str]]) -> Iterator[int]:
    """The items that tags are, each once: a file as its first tag, with definitions each that has a tag's name."""
    files: dict[str, int] = {}
    parts: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place in seen.tolist():
        item = dataset.catalog[place]
        path = item.title or item.name
        if item.type == "chunk":
            parts[path, _LAST.split(_VERSION.sub("", item.name))[-1]].append(place)
        elif item.type == "file":
            files[path] = place
    taken = set()
    for path, name in tags:
        for place in (files.get(path), *parts.get((path, name), ())):
            if place is not None and place not in taken:
                taken.add(place)
                yield place


def _of(dataset: Dataset, order: Sequence[int], paths: Collection[str]) -> Iterator[int]:
    """The files of an order that are among paths."""
    among = set(paths)
    for place in order:
        item = dataset.catalog[place]
        if item.type == "file" and (item.title or item.name) in among:
            yield place


def _filled(order: Sequence[int], tokens: IntArray, budget: int) -> list[int]:
    """As much of an order as fits, passing over what does not."""
    kept, left = [], budget
    for place in order:
        if tokens[place] <= left:
            kept.append(place)
            left -= int(tokens[place])
    return kept
