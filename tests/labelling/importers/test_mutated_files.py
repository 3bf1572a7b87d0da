"""Files of every kind are damaged in 300 ways: each import ends, soon, with a dataset or with an error for people."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path

import pytest

from ctxbench.io.errors import UserError
from ctxbench.labelling.conversion import ImportSettings
from ctxbench.labelling.import_files import ImportOptions, import_files
from ctxbench.model.items import Catalog
from tests.labelling.importers.mutations import mutate

FIXTURES = Path(__file__).parents[2] / "fixtures" / "imports"
KINDS = sorted(folder.name for folder in FIXTURES.iterdir() if folder.is_dir())
OPTIONS = {
    "collections": ImportOptions(settings=ImportSettings(grades={1: 1, 2: 2})),
    "handwritten": ImportOptions(names={"query": "question", "expected": "gold_tool"}),
}
FEW, MANY = 15, 300  # mutants of a kind
LONGEST = 20.0  # seconds


def catalog_of(path: Path) -> Catalog:
    """The items in a file or folder."""
    return Catalog(item for part in import_files([path]).parts for item in part.items)


@pytest.fixture(scope="module")
def catalogs() -> dict[str, Catalog | None]:
    """The catalog with which the files of each kind are imported."""
    tools = catalog_of(FIXTURES / "tools.json")
    return dict.fromkeys(KINDS, tools) | {
        "claude-code": catalog_of(FIXTURES / "claude-code" / "catalog"),
        "ragas": catalog_of(FIXTURES / "ragas" / "documents.jsonl"),
        "collections": None,
    }


def import_units(kind: str) -> list[tuple[Path, ...]]:
    """The files of a kind that are imported together."""
    files = sorted(file for file in (FIXTURES / kind).rglob("*") if file.is_file() and file.name != "SOURCE.md")
    if kind == "collections":
        folders = sorted(folder for folder in (FIXTURES / kind).iterdir() if folder.is_dir())
        return [tuple(file for file in files if folder in file.parents) for folder in folders]
    return [(file,) for file in files]


def check_mutants(kind: str, numbers: range, catalog: Catalog | None, folder: Path) -> None:
    """Import mutants of the files of a kind by turns."""
    units = import_units(kind)
    for number in numbers:
        draw = random.Random(f"{kind} {number}")
        unit = units[number % len(units)]
        target = folder / str(number)
        mutated = draw.choice(unit)
        for file in unit:
            copy = target / file.relative_to(FIXTURES / kind)
            copy.parent.mkdir(parents=True, exist_ok=True)
            content = file.read_bytes()
            copy.write_bytes(mutate(content, file.name, draw) if file is mutated else content)
        start = time.perf_counter()
        try:
            import_files([target], catalog, options=OPTIONS.get(kind))
        except UserError:
            pass
        except Exception as error:  # noqa: BLE001 -- whatever is raised is the finding
            pytest.fail(f"mutant {number} of {kind}, {mutated.name}: {error!r}")
        assert time.perf_counter() - start < LONGEST, f"mutant {number} of {kind}, {mutated.name}"
        shutil.rmtree(target)


def test_a_value_that_is_nested_deep_is_of_no_kind(tmp_path, catalogs):
    file = tmp_path / "deep.jsonl"
    file.write_text('{"id": "a", "text": ' + "[" * 700 + "]" * 700 + "}\n")
    with pytest.raises(UserError):
        import_files([file], catalogs["openai"])


def test_parquet_with_a_damaged_text_is_an_error_for_people(tmp_path):
    pytest.importorskip("pyarrow")
    source = FIXTURES / "collections" / "mteb-parquet" / "corpus" / "corpus-00000-of-00001.parquet"
    content = source.read_bytes()
    for damaged in (content.replace(b"title", b"titl\x9a"), content.replace(b"Refunds are", b"Refunds\xc2are")):
        assert damaged != content
        file = tmp_path / "damaged.parquet"
        file.write_bytes(damaged)
        with pytest.raises(UserError):
            import_files([file])


@pytest.mark.parametrize("kind", KINDS)
def test_a_mutated_file_ends_with_a_dataset_or_an_error_for_people(kind, catalogs, tmp_path):
    check_mutants(kind, range(FEW), catalogs[kind], tmp_path)


@pytest.mark.rest
@pytest.mark.parametrize("kind", KINDS)
def test_further_mutated_files_end_with_a_dataset_or_an_error_for_people(kind, catalogs, tmp_path):
    check_mutants(kind, range(FEW, MANY), catalogs[kind], tmp_path)
