"""`ctxbench calibrate`: what is written, what is printed, and what is refused before anything is written."""

from __future__ import annotations

import json
import shutil

import pytest
import yaml

from ctxbench.cli.tune import NO_GAIN, NO_SURE_GAIN, FitRequest, calibrate
from ctxbench.io.errors import ParameterError, UnknownNameError
from ctxbench.pipelines.fits import read_calibrations


@pytest.fixture
def run(tiny, tmp_path, capsys):
    def ran(what="probability", *, datasets=None, as_json=False, out="fits.json", **given):
        asked = {"selector": "semantic", "split": "all", "folds": 0, "embedder": "hashing", **given}
        path = tmp_path / out
        calibrate(FitRequest(what, datasets or [str(tiny)], **asked), out=path, as_json=as_json)
        return path, capsys.readouterr().out

    return ran


def test_what_was_fitted_is_said_and_written(run):
    path, out = run()
    assert out == f"tiny: probability fitted on 10 queries of every split\nwritten to {path}\n"
    (fit,) = read_calibrations(path).fits
    assert (fit.kind, fit.dataset, fit.split, fit.queries) == ("probability", "tiny", "all", 10)
    assert fit.behind["retrieve"]["step"] == "retrieve:dense"


@pytest.mark.parametrize("as_json", [False, True])
def test_a_fit_of_few_queries_is_warned_of(run, capsys, monkeypatch, as_json):
    monkeypatch.setattr("ctxbench.cli.tune.say", lambda *lines, err=False: said.extend(lines if err else ()))
    said = []
    run(split="tuning", as_json=as_json)
    what = "tiny: probability is fitted on 5 labelled queries only, which says little about others"
    assert said == [f"warning: {what}; label about 30 or more (`ctxbench data label`)"]
    monkeypatch.setattr("ctxbench.cli.tune.FEW", 10)
    said.clear()
    run()
    assert said == []


@pytest.fixture
def repeating(tiny, tmp_path):
    """The tiny dataset with every query twice, under another id and in no group."""
    folder = tmp_path / "repeating"
    shutil.copytree(tiny, folder)
    rows = [json.loads(line) for line in (folder / "queries.jsonl").read_text().splitlines()]
    rows = [{key: value for key, value in row.items() if key != "group"} for row in rows]
    again = [{**row, "_id": f"again-{row['_id']}"} for row in rows]
    (folder / "queries.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in [*rows, *again]))
    for path in (folder / "qrels").glob("*.tsv"):
        head, *labels = path.read_text().splitlines()
        path.write_text("\n".join([head, *labels, *(f"again-{label}" for label in labels)]) + "\n")
    card = yaml.safe_load((folder / "dataset.yaml").read_text())
    (folder / "dataset.yaml").write_text(yaml.safe_dump({key: card[key] for key in card if key != "counts"}))
    return folder


def test_labelled_requests_that_are_kept_are_said_and_left_out_on_demand(run, repeating):
    path, out = run(datasets=[str(repeating)])
    assert "; the file holds the texts of 20 labelled requests and what they need\n" in out
    assert len(read_calibrations(path).fits[0].values["requests"]) == 20
    path, out = run(datasets=[str(repeating)], texts=False)
    assert "the texts of" not in out
    assert "requests" not in read_calibrations(path).fits[0].values


def test_kinds_are_added_to_one_file(run):
    run()
    path, _ = run("abstention")
    assert read_calibrations(path).kinds() == ("probability", "abstention")


def test_figures_out_of_fold_are_a_table(run):
    _, out = run(folds=2)
    area, titles, *points = out.splitlines()[1:-1]
    said = "how often a required item scores above one that is not (1 = always): 0."
    assert area.startswith(f"  Measured on requests it was not fitted on (2 folds of 10 queries in 9 groups): {said}")
    assert titles.split("  ")[-1] == "recall"
    assert len(points) == 5
    assert all(line.count("[") == 2 for line in points)


def test_as_json(run):
    _, out = run(folds=2, as_json=True)
    found = json.loads(out)["fits"]["tiny"]
    assert found["out_of_fold"]["folds"] == 2
    assert set(found["out_of_fold"]["points"][0]) == {"threshold", "items", "recall"}
    _, out = run("abstention", as_json=True)
    assert set(json.loads(out)["fits"]["tiny"]["values"]) >= {"features", "intercept", "columns"}


def test_the_split_is_said(run):
    _, out = run(split="tuning")
    assert "fitted on 5 queries of split tuning" in out


LINEAR = """
name: summed
about: Dense search, ranked by a sum.
parameters: {}
pipeline:
  retrieve: dense
  refine:
    - linear: {weights: {similarity.score: 0, words.bm25_share: -1}}
presets: {}
"""


def test_the_weights_of_a_step_linear_are_fitted(run, tmp_path):
    (tmp_path / "summed.yaml").write_text(LINEAR, encoding="utf-8")
    asked = {"selector": str(tmp_path / "summed.yaml"), "metric": "RR", "folds": 2}
    path, out = run("weights", **asked)
    fitted, held_out, written = out.splitlines()
    assert fitted.startswith("tiny: weights of columns fitted on 10 queries of every split: similarity.score ")
    assert " there, 0." in fitted
    assert fitted.endswith(" with those it had")
    assert NO_GAIN not in out
    assert held_out.startswith("  Measured on requests it was not fitted on (2 folds of ")
    assert " with the weights it had: +0." in held_out
    assert written == f"written to {path}"
    _, out = run("weights", as_json=True, **asked)
    found = json.loads(out)["fits"]["tiny"]
    assert found["out_of_fold"]["metric"] == "RR"
    assert found["out_of_fold"]["after"] > found["out_of_fold"]["before"]
    weights = read_calibrations(path).fits[0].values["weights"]
    assert set(weights) == {"similarity.score", "words.bm25_share"}
    best = yaml.safe_load(LINEAR)
    best["pipeline"]["refine"] = [{"linear": {"weights": dict(weights)}}]
    (tmp_path / "summed.yaml").write_text(yaml.safe_dump(best), encoding="utf-8")
    fitted, held_out, _ = run("weights", **asked)[1].splitlines()
    assert fitted.endswith(NO_GAIN)
    assert held_out.endswith((NO_GAIN, NO_SURE_GAIN))


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"what": "luck"}, ParameterError, "must be one of probability, abstention, weights, got 'luck'"),
        ({"what": "linear"}, ParameterError, "must be one of probability, abstention, weights, got 'linear'"),
        ({"what": "weights", "folds": 5}, ParameterError, "folds are for probability, abstention and the weights of a"),
        ({"what": "weights", "metric": "R@5"}, ParameterError, "a metric is for the weights of a selector with a step"),
        ({"what": "weights"}, ParameterError, "merge"),
        ({"split": "dev"}, UnknownNameError, "unknown split 'dev' of dataset tiny"),
        ({"selector": "semantics"}, UnknownNameError, "semantic"),
        (
            {"what": "abstention", "folds": 5},
            ParameterError,
            "a fit would see 8 rows that are all of requests that need",
        ),
        ({"folds": 30}, ParameterError, "folds must be 2 to the number of groups, which is 9, got 30"),
    ],
)
def test_what_cannot_be_done_writes_nothing(run, tmp_path, change, kind, message):
    with pytest.raises(kind, match=message):
        run(**change)
    assert not (tmp_path / "fits.json").exists()


def test_a_file_of_something_else_stays(run, tmp_path):
    (tmp_path / "fits.json").write_text("[1]", encoding="utf-8")
    with pytest.raises(ParameterError, match="no file of fits that can be read; name another --out"):
        run()
    assert (tmp_path / "fits.json").read_text("utf-8") == "[1]"


def test_a_file_of_something_else_is_refused_before_anything_is_opened(run, tmp_path):
    (tmp_path / "fits.json").write_text("[1]", encoding="utf-8")
    with pytest.raises(ParameterError, match="no file of fits that can be read; name another --out"):
        run(datasets=["no dataset of this name"])


def test_two_datasets_of_one_name_are_refused(run, tiny, tmp_path):
    with pytest.raises(ParameterError, match="two datasets are called tiny; name each once"):
        run(datasets=[str(tiny), str(tiny)])
    assert not (tmp_path / "fits.json").exists()


def test_two_datasets_over_one_catalog_go_to_two_files(run, tiny, tmp_path):
    copy = shutil.copytree(tiny, tmp_path / "copy")
    card = (copy / "dataset.yaml").read_text("utf-8")
    (copy / "dataset.yaml").write_text(card.replace("name: tiny", "name: other"), encoding="utf-8")
    with pytest.raises(ParameterError, match="tiny and other have the same catalog"):
        run(datasets=[str(tiny), str(copy)])
