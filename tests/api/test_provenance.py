"""What an appendix says of a run, and how ctxbench is cited."""

from __future__ import annotations

import hashlib
import json
import platform
import re
from datetime import UTC, datetime
from functools import partial

import numpy as np
import pytest
import yaml

import ctxbench
from ctxbench.evaluation.statistics import RESAMPLES
from tests.api.conftest import CHEAP, ROOT, SMOKE


def first_item(request, items):
    return [items[0]["_id"]]


def first_items(request, items, n):
    return [item["_id"] for item in items[:n]]


@pytest.fixture
def res():
    selectors = {"words": {"selector": "bm25", "set": {"n": 2}}, "mine|50%_": first_item}
    return ctxbench.evaluate(SMOKE, selectors, metrics=["completeness", "recall", "nDCG@10", "tokens"], seed=3, **CHEAP)


def test_it_has_what_the_figures_depend_on(res):
    facts, loaded = res.provenance, ctxbench.load(SMOKE).dataset
    assert (facts["versions"]["python"], facts["versions"]["numpy"]) == (platform.python_version(), np.__version__)
    assert facts["versions"]["ctxbench"] == ctxbench.__version__
    run = {"token counter": "chars/4", "seed": 3, "baseline": "words", "split": "all queries"}
    assert facts["run"].items() >= run.items()
    assert abs((datetime.now(UTC).date() - datetime.fromisoformat(facts["run"]["date"]).date()).days) <= 1
    (dataset,) = facts["datasets"].values()
    assert dataset.endswith(f"1, 30 queries, sha256 {loaded.hash}")
    assert (facts["embedder"]["model"], facts["embedder"]["dimensions"]) == ("hashing", 256)
    assert "n 2, k1 1.5, b 0.75" in facts["selectors"]["words"]
    assert facts["machine"]["architecture"] == platform.machine()


def test_the_statistics_are_those_that_were_used(res):
    statistics = res.provenance["statistics"]
    assert statistics["test: exact McNemar"] == "completeness"
    assert set(statistics["test: sign flips"].split(", ")) == {"tokens", "recall"}
    assert "nDCG@10" in statistics["95% interval: Wilson, effective n"].split(", ")
    assert f"{RESAMPLES:,}" in statistics["sign flips"]


def test_it_is_a_table_ready_to_paste(res):
    facts = res.provenance
    lines = str(facts).splitlines()
    assert lines[1] == "| --- | --- | --- |"
    assert len(lines) == 2 + sum(map(len, facts.values()))
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {4}
    text = facts.to_latex()
    assert r"mine$|$50\%\_ &" in text
    assert text.count(r"\\") == len(lines) - 1
    assert max(map(len, re.findall("[0-9a-f]+", text))) <= 16  # a hash may be broken
    assert facts._repr_html_().count("<tr>") == len(lines) - 2
    assert json.loads(json.dumps(facts)) == facts


def test_a_function_is_identified_by_its_file_and_the_values_that_are_bound_to_it(tmp_path):
    bound, items = {}, {}
    for n in (1, 2):
        out = tmp_path / "run"  # is continued: another value is another selector
        mine = {"mine": partial(first_items, n=n)}
        res = ctxbench.evaluate(SMOKE, mine, metrics=["items"], out=out, **CHEAP)
        bound[n], items[n] = res.provenance["selectors"]["mine"], res.to_frame()["items"].item()
    assert bound[1] == bound[2].replace("n 2", "n 1") != bound[2]
    assert re.search(":first_items, sha256 [0-9a-f]{16}", bound[2])
    assert items == {1: 1, 2: 2}


def test_a_run_of_another_program_is_identified_by_the_hash_of_its_file(tmp_path):
    data = ctxbench.load(SMOKE)
    (path := tmp_path / "their.run").write_text(f"{data.queries['query'][0]} Q0 {data.items['id'][0]} 1 2.5 x\n")
    results = ctxbench.evaluate(data, {"theirs": ctxbench.answers(path)}, metrics=["RR"], **CHEAP)
    assert f"sha256 {hashlib.sha256(path.read_bytes()).hexdigest()[:16]})" in results.provenance["selectors"]["theirs"]


def test_a_run_whose_times_are_lost_has_the_rest(res):
    (res.folder / "timings.json").unlink()
    assert res.provenance["machine"] == {}
    assert res.provenance["run"]["date"] == "not known"
    assert res.provenance["run"]["seed"] == 3


def test_the_citation_names_this_version_and_licence():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == ctxbench.__version__
    assert f"version = {{{ctxbench.__version__}}}" in (ROOT / "experiments" / "guide" / "runs.md").read_text("utf-8")
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    assert f'license = "{citation["license"]}"' in project
    assert f"keywords = {json.dumps(citation['keywords'])}" in project


def test_the_example_of_the_page_on_runs_works(capsys):
    page = (ROOT / "experiments" / "guide" / "runs.md").read_text("utf-8")
    (code,) = [block for block in re.findall("```python\n(.*?)```", page, re.DOTALL) if "res.provenance" in block]
    exec(code.replace('["bm25"]', '["bm25"], embedder="hashing"'), {"ctxbench": ctxbench})
    assert "| versions | numpy |" in capsys.readouterr().out
