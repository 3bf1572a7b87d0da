"""What the last line of an import proposes, and the gain of a fit that it names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ctxbench.cli.app import main
from ctxbench.cli.tune import next_step_line
from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.files import write_dataset
from ctxbench.datasets.queries import DatasetQuery, Label
from ctxbench.model.items import Catalog, Item, ItemKey
from ctxbench.model.requests import Request
from ctxbench.search.embedders import ModelError
from ctxbench.tuning import held_out
from ctxbench.tuning.held_out import next_step

TOPICS = ["invoice", "garden", "planet", "violin", "harbour", "kettle"]


def dataset(n, *, unlabelled=0, split="tuning", learnable=True):
    """Queries on six topics, each of which needs one tool that has no word in common with it.

    With `learnable` it is the same tool for all queries of a topic, so that what similar requests needed tells it.
    """
    tools = [ItemKey("tool", "s", f"zz{number}") for number in range(40)]
    catalog = Catalog(
        Item(**key._asdict(), description=f"Quux{number} frob{number}.") for number, key in enumerate(tools)
    )
    queries = [
        DatasetQuery(request=Request(id=f"q{number}", text=f"{TOPICS[number % 6]} please, case {number}"), split=split)
        for number in range(n + unlabelled)
    ]
    needed = [number % 6 + 20 if learnable else number * 7 % 40 for number in range(n)]
    labels = tuple(Label(f"q{number}", tools[index], 2) for number, index in enumerate(needed))
    about = {"licence": "Apache-2.0", "source": "x", "labelling": "x"}
    return Dataset(name="d", version="1", catalog=catalog, queries=tuple(queries), labels=labels, about=about)


@pytest.mark.parametrize(("unlabelled", "action"), [(0, "run"), (3, "label")])
def test_few_labels_ask_for_more_or_are_measured(unlabelled, action):
    step = next_step(dataset(49, unlabelled=unlabelled), embedder="hashing")
    assert (step.action, step.labelled, step.unlabelled, step.gain) == (action, 49, unlabelled, None)


def test_a_fit_is_proposed_with_its_gain_on_requests_that_it_was_not_made_on():
    step = next_step(dataset(60), embedder="hashing")
    assert (step.action, step.split, step.why) == ("calibrate", "tuning", "")
    assert step.gain.n == 60
    assert step.gain.significant
    assert step.gain.difference > 0.5
    assert step.tokens.n == 60


@pytest.mark.parametrize(("unlabelled", "action"), [(0, "run"), (3, "label")])
def test_a_fit_without_a_significant_gain_is_not_proposed(unlabelled, action):
    step = next_step(dataset(60, unlabelled=unlabelled, learnable=False), embedder="hashing")
    assert step.action == action
    assert not (step.gain.significant and step.gain.difference > 0)


def test_the_queries_of_every_split_are_used_where_the_tuning_split_has_few():
    assert next_step(dataset(60, split="test"), embedder="hashing").split == "all"


def test_a_gain_that_cannot_be_measured_has_a_reason(monkeypatch):
    one_group = dataset(60)
    queries = tuple(replace(query, group="g") for query in one_group.queries)
    step = next_step(replace(one_group, queries=queries), embedder="hashing")
    assert (step.action, step.gain, step.why.code) == ("run", None, "CTX5816")
    few = [
        replace(query, split="tuning" if n < 55 else "test", group="g" if n < 55 else None)
        for n, query in enumerate(queries)
    ]
    step = next_step(replace(one_group, queries=tuple(few)), embedder="hashing")
    assert (step.split, step.why, step.gain.n) == ("all", "", 60)  # the tuning split is one group
    monkeypatch.setattr(held_out, "MOST_CHARACTERS", 10)
    step = next_step(one_group, embedder="hashing")
    assert (step.action, step.gain, step.why.code) == ("calibrate", None, "CTX5815")


def test_without_a_model_the_reason_is_one_sentence(monkeypatch):
    def refuse(name):
        raise ModelError("MaxRetryError: ... (Caused by NameResolutionError)")

    monkeypatch.setattr(held_out, "open_embedder", refuse)
    assert next_step(dataset(60)).why == "there is no embedding model; `ctxbench setup` fetches it"


def test_the_command_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    made = dataset(60, split="test")
    write_dataset(made, Path("mine"))
    line = next_step_line(next_step(made, embedder="hashing"), "mine")
    command = "ctxbench calibrate probability mine --split all --out mine-fits.json"
    assert line.startswith(f"next: `{command}` (completeness +")
    assert "on 60 held-out requests" in line
    with pytest.raises(SystemExit) as caught:
        main([*command.split()[1:], "--embedder", "hashing"])
    assert (caught.value.code, capsys.readouterr().err) == (0, "")
    assert Path("mine-fits.yaml").is_file()


@pytest.mark.parametrize("unlabelled", [0, 3])
def test_the_experiment_that_is_there_is_named(tmp_path, monkeypatch, unlabelled):
    monkeypatch.chdir(tmp_path)
    step = next_step(dataset(10, unlabelled=unlabelled), embedder="hashing")
    assert "`ctxbench run EXPERIMENT.yaml`" in next_step_line(step, "mine")
    Path("experiment.yaml").touch()
    assert "`ctxbench run experiment.yaml`, with `datasets: [mine]`" in next_step_line(step, "mine")


@pytest.mark.parametrize("unlabelled", [0, 3])
def test_every_other_step_names_a_command(unlabelled):
    few = next_step_line(next_step(dataset(10, unlabelled=unlabelled), embedder="hashing"), "mine")
    vain = next_step_line(next_step(dataset(60, unlabelled=unlabelled, learnable=False), embedder="hashing"), "mine")
    for line in (few, vain):
        assert line.startswith(
            "next: `ctxbench data label mine --minutes 20`" if unlabelled else "next: `ctxbench run "
        )
    assert "calibrate" not in vain
    assert "held-out" not in vain
