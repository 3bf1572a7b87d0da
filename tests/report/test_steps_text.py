"""Pipelines in words: what is unusual is said, what has its default is not."""

from __future__ import annotations

from ctxbench.pipelines.fits import files_of_fits, may_have_seen
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.report.run_tables import SEEN, about_selector, label_notes, pipeline_text


def described(spec):
    return {"pipeline": Pipeline.of(spec).describe()}


def test_steps_stand_in_order_with_what_is_unusual_of_them():
    spec = {
        "analyse": ["sentences", {"history": {"turns": 2}}],
        "retrieve": {"merge": ["dense", {"bm25": {"k1": 2.0}}]},
        "refine": ["rrf", {"first": {"n": 3}}],
    }
    text = pipeline_text(described(spec))
    assert text == "sentences, history (turns 2), then dense beside bm25 (k1 2), then rrf, first (n 3)"


def test_what_is_no_pipeline_has_no_steps():
    assert pipeline_text({"command": ["node", "x.js"]}) == ""


def test_a_fit_is_found_wherever_its_step_stands():
    def fitted(**given):
        return {"step": "rank:x", **given}

    inside = {"step": "by_domain", "domains": [["tool", [fitted(calibration="b.json")]], ["*", []]]}
    files = [files_of_fits({"pipeline": {"refine": [one]}}) for one in (fitted(calibration="a.json"), inside, fitted())]
    assert files == [{"a.json"}, {"b.json"}, set()]
    assert files_of_fits({"command": "x"}) == set()


def test_the_shipped_fit_has_seen_the_datasets_that_it_names_and_a_fit_of_the_users_may_have_seen_any():
    def fitted(calibration):
        return {"pipeline": {"refine": [{"step": "rank:probability", "version": 1, "calibration": calibration}]}}

    assert not may_have_seen(fitted("shipped"), {"mine"})
    assert may_have_seen(fitted("shipped"), {"mine", "bfcl-simple"})
    assert may_have_seen(fitted("shipped"), {"livemcpbench-unique"})  # made from one of them
    assert may_have_seen(fitted("fits.json"), {"mine"})
    assert not may_have_seen(described({"retrieve": "bm25"}), {"bfcl-simple"})


def test_a_pipeline_of_the_experiment_is_said_by_its_steps_and_a_fit_by_where_it_may_be_judged():
    fitted = {"pipeline": {"refine": [{"step": "rank:probability", "version": 1, "calibration": "fits.json"}]}}
    manifest = {
        "experiment": {"split": ""},
        "selectors": {
            "own": {"about": "", "values": {}, "description": described({"retrieve": "bm25"})},
            "fitted": {"about": "Ours.", "values": {"n": 3}, "description": fitted},
        },
    }
    assert about_selector(manifest, "own") == ("sentences, then bm25", "")
    assert about_selector(manifest, "fitted") == (f"Ours; {SEEN}", "n 3")
    assert label_notes(manifest) == [f"fitted: {SEEN}."]
    manifest["experiment"]["split"] = "test"
    assert about_selector(manifest, "fitted") == ("Ours", "n 3")
    assert label_notes(manifest) == []
