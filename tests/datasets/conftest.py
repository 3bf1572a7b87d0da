"""What the tests of a dataset's folder share."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.datasets.dataset_cases import TINY


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(TINY, tmp_path / "tiny"))
