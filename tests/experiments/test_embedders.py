"""The page on embedders says what `Results.to_frame` and `Results.compare` do; here of two embedders and datasets."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
import yaml

from tests.experiment_files import read_experiment

os.environ.setdefault("MPLBACKEND", "Agg")

ROOT = Path(__file__).parents[2]
STEP = "pipeline: {{analyse: whole, retrieve: {{dense: {{embedder: {0}}}}}, refine: [{{first: {{n: 5}}}}]}}"
METRICS = ("R@5", "nDCG@10", "completeness", "tokens")
MODULES = ("matrix", "page")


@pytest.fixture(scope="module")
def modules():
    """The script and its page, which are in no package."""
    sys.path.insert(0, str(ROOT / "experiments" / "embedders"))
    try:
        import matrix
        import page
    finally:
        sys.path.remove(str(ROOT / "experiments" / "embedders"))
    yield matrix, page
    for name in MODULES:
        del sys.modules[name]


@pytest.fixture(scope="module")
def found(modules, tmp_path_factory):
    pytest.importorskip("tokenizers")
    place = tmp_path_factory.mktemp("embedders")
    selectors = "".join(f"  - {{name: {name}, {STEP.format(name)}}}\n" for name in ("wordllama", "hashing"))
    (place / "e.yaml").write_text(
        f"name: small\ndatasets: [{ROOT}/datasets/smoke, {ROOT}/tests/fixtures/tiny]\nselectors:\n{selectors}"
        f"metrics: [{', '.join(METRICS)}]\ntokens: chars/4\nembedder: hashing\ncompare_to: wordllama\n",
        encoding="utf-8",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CTXBENCH_CACHE", str(place / "cache"))
        patch.setenv("CTXBENCH_OFFLINE", "1")
        yield modules[0].measure(place / "e.yaml", place / "run", rounds=2, seconds=0.0)


def rows(text, heading):
    """The cells of the first table behind a heading, by dataset."""
    lines = [line for line in text.split(heading, 1)[1].split("\n## ")[0].splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    return {re.split(r"[, ]", row[0])[0].strip("`"): row[1:] for row in cells}


def test_the_first_table_has_the_figures_of_the_frame(found, modules):
    frame = found.res.to_frame(intervals=True)
    table = rows(modules[1].page(found), "# Which embedder")
    assert list(table) == ["smoke", "tiny", "mean"]
    for dataset in ("smoke", "tiny"):
        told = found.res.compare("hashing", metrics=["R@5"], by_group=True).set_index("dataset").loc[dataset]
        mark = " ↓" if told["significant"] else ""
        assert told["difference"] <= 0
        for name, cell in zip(found.res.selectors, table[dataset], strict=True):
            value, low, high = (100 * frame.loc[(dataset, name), f"R@5{end}"] for end in ("", " low", " high"))
            expected = f"{value:.1f} ({low:.1f}–{high:.1f})" + (mark if name == "hashing" else "")
            assert cell.replace("*", "") == expected
        best = frame.loc[dataset]["R@5"].max()
        assert [cell.startswith("**") for cell in table[dataset]] == (frame.loc[dataset]["R@5"] == best).tolist()
    means = frame.groupby("selector", sort=False)["R@5"].mean()
    assert [cell.strip("*") for cell in table["mean"]] == [f"{100 * one:.1f}" for one in means]


def test_the_other_figures_are_those_of_the_frame(found, modules):
    frame = found.res.to_frame()
    for dataset, (ndcg, complete, tokens, equal) in rows(modules[1].page(found), "## Other figures").items():
        own = frame.loc[dataset]
        assert ndcg == " / ".join(f"{100 * one:.1f}" for one in own["nDCG@10"])
        assert complete == " / ".join(f"{100 * one:.1f}" for one in own["completeness"])
        assert tokens == " / ".join(f"{one:,.0f}" for one in own["tokens"])
        assert equal.split(" / ")[0] == f"{100 * own['completeness'].iloc[0]:.1f}"  # of the default, its own


def test_each_embedder_has_its_speed_its_length_and_its_weights(found, modules):
    table = rows(modules[1].page(found), "## Speed and size")
    assert [row[2] for row in table.values()] == ["256", "256"]
    assert [row[3] for row in table.values()] == ["16 MB", "none"]
    assert {len(one) for one in found.speed.values()} == {2}
    assert min(min(one) for one in found.speed.values()) > 0


def test_the_figure_shows_every_embedder_and_dataset(found, modules, tmp_path):
    modules[1].figure(found, tmp_path / "e.svg")
    drawn = (tmp_path / "e.svg").read_text("utf-8")
    for word in ("wordllama", "hashing", "smoke", "tiny"):
        assert f"<!-- {word} -->" in drawn


def test_requests_in_other_languages_are_told_by_their_letters(modules):
    share = modules[0]._share_foreign
    assert share("最近的新闻") == 1.0
    assert share("12:00?") == 0.0
    assert share("a café in Paris") < 0.1 < share("Tìm chuyến xe cho tôi")


def test_the_experiment_that_ships_has_selectors_of_the_names_of_their_embedders():
    path = ROOT / "experiments" / "embedders.yaml"
    experiment = read_experiment(path)
    assert experiment.compare_to == "minilm"
    assert len(experiment.datasets) >= 6
    for one in yaml.safe_load(path.read_text("utf-8"))["selectors"]:
        assert one["pipeline"]["retrieve"] == {"dense": {"embedder": one["name"]}}
