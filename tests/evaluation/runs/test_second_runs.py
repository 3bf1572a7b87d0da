"""Second runs: what is reused, and what is made again."""

from __future__ import annotations

import json
import random
import shutil
from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from ctxbench.evaluation import runner
from ctxbench.evaluation.run_folder import RunFolder, summarise_run
from ctxbench.io.errors import ParameterError, UserError
from ctxbench.search.embedders import HashingEmbedder
from tests.draws import draws
from tests.evaluation.runs.run_files import (
    SELECTORS,
    TINY,
    counted,
    experiment,
    interrupted,
    made_again,
    offered,
    run_file,
    snapshot,
)


def test_a_second_run_into_another_folder_embeds_nothing_and_loads_no_model(tmp_path, monkeypatch):
    path = experiment(tmp_path)
    first = run_file(path, tmp_path / "one")
    assert first.embedded > 0
    monkeypatch.setattr(HashingEmbedder, "embed", lambda *_, **__: pytest.fail("the embedder was asked"))
    second = run_file(path, tmp_path / "two")
    assert (second.made, second.embedded) == (5, 0)
    assert snapshot(tmp_path / "one") == snapshot(tmp_path / "two")


def test_the_same_call_reuses_everything(tmp_path, ran):
    path = experiment(tmp_path)
    before = snapshot(ran)
    assert made_again(path, ran) == []
    assert snapshot(ran) == before


def test_fresh_makes_everything_again(tmp_path, ran):
    path = experiment(tmp_path)
    before = snapshot(ran)
    report = run_file(path, ran, fresh=True)
    assert (report.made, report.reused, report.embedded) == (5, 0, 0)
    assert snapshot(ran) == before


def test_a_parameter_makes_only_the_selectors_that_use_it_again(tmp_path, ran):
    path = experiment(tmp_path, SELECTORS.replace("n: 2", "n: 3"))
    assert made_again(path, ran) == ["bm25"]


def test_the_sizes_that_a_selector_takes_belong_to_it(tmp_path, ran):
    path = experiment(
        tmp_path, SELECTORS.replace("preset: conservative", "preset: conservative, set: {contextTopN: 1}")
    )
    assert made_again(path, ran) == ["semantic/conservative", "random"]


def test_other_metrics_make_every_part_again(tmp_path, ran):
    path = experiment(tmp_path, metrics="[completeness, tokens]")
    assert len(made_again(path, ran)) == 5
    assert list(RunFolder(ran).load("tiny", "bm25").metrics) == ["completeness", "tokens", "forbidden_offered"]


def test_another_token_counter_makes_every_part_again(tmp_path, ran):
    counts = tmp_path / "counts.json"
    ids = [json.loads(line)["_id"] for line in (TINY / "corpus.jsonl").read_text("utf-8").splitlines()]
    counts.write_text(json.dumps(dict.fromkeys(ids, 7)), "utf-8")
    assert len(made_again(experiment(tmp_path, tokens=f"file:{counts}"), ran)) == 5
    part = RunFolder(ran).load("tiny", "bm25")
    assert part.metrics["tokens"].max() == 7 * 2  # two by BM25; the rule that is always there was not added
    counts.write_text(json.dumps(dict.fromkeys(ids, 8)), "utf-8")  # the same name, other counts
    assert len(made_again(experiment(tmp_path, tokens=f"file:{counts}"), ran)) == 5


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("corpus.jsonl", "Dates of the next releases", "Dates of the last releases"),
        ("queries.jsonl", "When is release 4.2 frozen?", "When is release 4.3 frozen?"),
        ("qrels/test.tsv", "tool:tracker:search_issues\t1", "tool:tracker:search_issues\t0"),
    ],
)
def test_an_edited_dataset_makes_every_part_again(file, old, new, tmp_path, data):
    path = experiment(tmp_path, data=data)
    run_file(path, tmp_path / "run")
    text = (data / file).read_text("utf-8")
    assert text.count(old) == 1
    (data / file).write_text(text.replace(old, new), "utf-8")
    if file.startswith("qrels"):
        card = (data / "dataset.yaml").read_text("utf-8")
        card = card.replace("helpful: 2", "helpful: 1").replace("irrelevant: 3", "irrelevant: 4")
        (data / "dataset.yaml").write_text(card, "utf-8")
    assert len(made_again(path, tmp_path / "run")) == 5


def test_queries_in_another_order_make_every_part_again_since_answers_are_in_their_order(tmp_path, data):
    path = experiment(tmp_path, data=data)
    run_file(path, tmp_path / "run")
    before = offered(tmp_path / "run", "bm25")
    lines = (data / "queries.jsonl").read_text("utf-8").splitlines()
    (data / "queries.jsonl").write_text("\n".join(reversed(lines)) + "\n", "utf-8")
    assert len(made_again(path, tmp_path / "run")) == 5
    after = offered(tmp_path / "run", "bm25")
    assert list(after) == list(reversed(before))
    assert after == before


@pytest.mark.parametrize("file", ["part.json", "answers.zip", "metrics.jsonl", "selections.jsonl"])
@pytest.mark.parametrize("how", ["cut", "other", "gone"])
def test_a_damaged_part_is_made_again(file, how, tmp_path, ran):
    path = experiment(tmp_path)
    before = snapshot(ran)
    damaged = ran / "tiny" / "bm25" / file
    if how == "gone":
        damaged.unlink()
    else:
        damaged.write_bytes(damaged.read_bytes()[:-20] if how == "cut" else random.Random(1).randbytes(500))
    assert made_again(path, ran) == ["bm25"]
    assert snapshot(ran) == before


def flipped(place, dice, number):
    """One bit of one file of a folder, each file in its turn."""
    files = sorted(path for path in place.rglob("*") if path.is_file() and path.stat().st_size)
    path = files[number % len(files)]
    data = bytearray(path.read_bytes())
    at, bit = dice.randrange(len(data)), dice.randrange(8)
    data[at] ^= 1 << bit
    path.write_bytes(data)
    return str(path.relative_to(place)), at, bit


def test_no_flipped_bit_changes_a_run_or_stays_in_it(tmp_path, monkeypatch, ran):
    path, kept = experiment(tmp_path), ran
    before, shown = snapshot(kept), summarise_run(RunFolder(kept)).as_dict()
    answered = counted(runner.answered, 11, KeyboardInterrupt())
    half = tmp_path / "half"
    assert interrupted(path, half, monkeypatch.context(), runner, "answered", answered)
    dice = random.Random(5)
    for trial in range(draws(100, 44)):  # each file at least once
        folder = Path(shutil.copytree(kept if trial % 2 else half, tmp_path / "trial"))
        where = flipped(folder, dice, trial // 2)
        if trial % 2:
            with suppress(UserError):  # it is said
                assert summarise_run(RunFolder(folder)).as_dict() == shown, where
        run_file(path, folder)
        assert snapshot(folder) == before, where
        assert summarise_run(RunFolder(folder)).as_dict() == shown, where
        RunFolder(folder).read("timings.json")
        shutil.rmtree(folder)


def test_a_run_of_another_experiment_is_not_overwritten_even_if_an_older_version_made_it(tmp_path):
    run_file(experiment(tmp_path, name="one"), tmp_path / "run")
    path = tmp_path / "run" / "manifest.json"
    old = {**json.loads(path.read_text()), "format": 1}
    del old["checksum"]
    path.write_text(json.dumps(old))
    with pytest.raises(ParameterError, match="holds a run of experiment 'one', not of 'two'"):
        run_file(experiment(tmp_path, name="two"), tmp_path / "run")


def test_damaged_times_of_earlier_calls_are_forgotten(tmp_path, ran):
    path = experiment(tmp_path)
    for text in ("", "[1]", "{}", '{"parts":'):
        (ran / "timings.json").write_text(text)
        run_file(path, ran, fresh=True)
        parts = RunFolder(ran).read("timings.json")["parts"]
        assert parts["tiny"]["bm25"]["queries"] == 10


def test_the_day_of_a_run_is_that_on_which_its_last_part_was_made(tmp_path, ran):
    folder, path = RunFolder(ran), experiment(tmp_path)
    today = datetime.now(UTC).date()
    assert date.fromisoformat(folder.date()) <= today
    folder.write("timings.json", {**folder.read("timings.json"), "date": "2020-02-02"})
    run_file(path, ran)
    assert folder.date() == "2020-02-02", "nothing was made again"
    run_file(path, ran, fresh=True)
    assert today <= date.fromisoformat(folder.date()) <= datetime.now(UTC).date()
    folder.discard("timings.json")
    assert folder.date() == ""
