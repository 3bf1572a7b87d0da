"""A file of another kind is named as what it is, in place of help on each of its keys."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ctxbench.catalogs.agent_file import read_agent
from ctxbench.evaluation.experiment import examine
from ctxbench.gate.settings import examine_gate
from ctxbench.io.documents import refuse_other_kind
from ctxbench.io.errors import InputError
from ctxbench.selectors.definitions import read_definition, read_presets
from ctxbench.tuning.policy import read_policies

FILES = {
    "an agent file": "name: a\nsources: {rules: .}\nselector: bm25\n",
    "a gate file": "datasets: [d]\nselectors: [bm25]\ngate: {repeats: 3}\n",
    "an experiment": "datasets: [d]\nselectors: [bm25]\ncompare_to: bm25\n",
    "a policy file": "selectors: [bm25]\npolicies: {p: {minimise: tokens}}\n",
    "a presets file": "format: 1\ntuned: {dataset: d}\npresets: {small: {selector: bm25}}\n",
    "a selector": "name: s\npipeline: {retrieve: bm25}\n",
}
READERS: dict[str, Callable[[Path], object]] = {
    "an agent file": read_agent,
    "a gate file": examine_gate,
    "an experiment": examine,
    "a policy file": read_policies,
    "a presets file": read_presets,
    "a selector": read_definition,
}
TAKES = {
    "an agent file": "`ctxbench select TEXT --agent x.yaml`",
    "a gate file": "`ctxbench check x.yaml`",
    "an experiment": "`ctxbench run x.yaml`",
    "a policy file": "`ctxbench tune DATASET --policy x.yaml`",
    "a presets file": "`selector: {presets: x.yaml, preset: small}`",
    "a selector": "`ctxbench select TEXT --catalog CATALOG --selector x.yaml`",
}


@pytest.mark.parametrize("wanted", READERS)
@pytest.mark.parametrize("kind", list(FILES))
def test_every_reader_names_a_file_of_every_other_kind(kind, wanted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("x.yaml").write_text(FILES[kind], encoding="utf-8")
    try:
        READERS[wanted](Path("x.yaml"))
        said = ""
    except InputError as error:
        said = str(error)
    if kind == wanted:
        assert f", not {wanted}" not in said
    else:
        assert said.startswith(f"x.yaml is {kind}, not {wanted}: ")
        assert TAKES[kind] in said


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        ({"datasets": [], "selectors": []}, "a gate file"),  # every key of it is a gate file's too
        ({"datasets": [], "selectors": [], "gate": {}, "compare_to": "a"}, "a gate file"),
        ({"datasets": [], "selectors": [], "policies": {}}, "an experiment"),  # of either kind
        ({"selectors": [], "colour": "red"}, "an experiment"),  # of no kind
        ([], "an experiment"),
        (None, "an experiment"),
    ],
)
def test_what_is_of_its_kind_of_none_or_of_two_is_left_to_its_reader(data, wanted):
    refuse_other_kind(data, Path("x.yaml"), expected=wanted, keys_allowed=("name", "datasets", "selectors"))
