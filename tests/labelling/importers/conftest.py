"""Sources for importers of published files: made up and pinned as they are, or the real ones where they are."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import pytest

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.lookup import FileImporter

SHARED = Path(__file__).parents[3] / ".." / "shared" / "data"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def made_up(tmp_path: Path) -> Any:
    """Write a source (path to text or bytes) and return its importer, to which these very files are the expected."""

    def make(importer: type[FileImporter], files: dict[str, str | bytes]) -> FileImporter:
        folder = tmp_path / "made-up"
        expected = []
        for file in importer.source.files:
            content = files[file.path]
            data = content.encode() if isinstance(content, str) else content
            (folder / file.path).parent.mkdir(parents=True, exist_ok=True)
            (folder / file.path).write_bytes(data)
            digest = hashlib.sha256(data).hexdigest()
            expected.append(dataclasses.replace(file, sha256=digest, size=len(data)))
        return importer(folder, expected=dataclasses.replace(importer.source, files=tuple(expected)))

    return make


@pytest.fixture
def published() -> Any:
    """The importer over the published files; the test is skipped where they are not."""

    def open_source(importer: type[FileImporter]) -> FileImporter:
        found = importer(SHARED / importer.source.name)
        if not found.available():
            pytest.skip(f"the published files of {importer.source.name} are not beside the repository")
        return found

    return open_source


@pytest.fixture
def required() -> Any:
    """What each query of a dataset requires: ids, alternatives joined by `|`, in the order of the catalog."""

    def of(dataset: Dataset) -> dict[str, list[str]]:
        out: dict[str, list[str]] = {}
        for query in dataset.queries:
            groups: dict[str, list[str]] = {}
            for label in dataset.labels_of(query.id):
                groups.setdefault(label.alternatives or label.item.id, []).append(label.item.id)
            out[query.id] = ["|".join(ids) for ids in groups.values()]
        return out

    return of
