"""Searches of code by history and paths: scores worked by hand, and no word of what came later."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ctxbench.io.errors import ParameterError
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, whole_texts
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.pipelines.strategies.files import CommitVotes, EntryPoints, PathPattern, PlannedFiles, RecentChanges
from ctxbench.search.code_index import commit_history
from ctxbench.selectors.selector import PipelineSelector
from ctxbench.testing import check_selector, mock_resources
from tests.code_history import day, history, paths, request, up_to

TREE = history(
    (
        "Start",
        {"src/app/main.py": "run()", "src/app/colour.py": "red", "src/app/prompt.py": "ask", "docs/index.md": "x"},
    ),
    ("Show colours of errors", {"src/app/colour.py": "red2", "src/app/main.py": "run2()"}),
    ("Ask again when a prompt is empty", {"src/app/prompt.py": "ask2"}),
    ("Drop the prompt of errors", {"src/app/errors.py": "oops", "src/app/prompt.py": "ask3"}),
    ("Colour prompts", {"src/app/prompt.py": "ask4", "src/app/colour.py": None}),
)
STEPS = (
    *(CommitVotes(), CommitVotes(commits=1), CommitVotes(agreement=1.0), RecentChanges(), PathPattern()),
    *(EntryPoints(), PlannedFiles(), PlannedFiles(of="names")),
)


def found(step, text, n=5, catalog=TREE, plan=None, **more):
    """Path and score of what a search finds for a request after the nth commit."""
    batch = Batch.of(catalog, [request(text, n, **more)])
    table = step(replace(whole_texts(batch), plan=(plan,)), mock_resources())
    return list(zip(paths(catalog, table.item), table.score.tolist(), strict=True))


class TestCommitVotes:
    def test_the_files_that_similar_commits_changed_are_found(self):
        assert [path for path, _ in found(CommitVotes(), "show the colour", 3)] == [
            "src/app/colour.py",
            "src/app/main.py",
        ]

    def test_a_vote_is_the_likeness_by_the_files_changed(self):
        batch = Batch.of(TREE, [request("show the colour", 3)])
        past = commit_history(TREE, mock_resources())
        like = past.likeness(["show the colour"], [1.0], past.visible_commits(batch, 0))
        assert (like > 0).tolist() == [False, True, False, False, False]  # that of the second commit, of two files
        for spread in (0.0, 0.5, 2.0):
            scores = [score for _, score in found(CommitVotes(spread=spread), "show the colour", 3)]
            assert scores == [float(like[1]) / 2**spread] * 2

    def test_only_the_most_similar_commits_vote(self):
        assert len(found(CommitVotes(), "errors of a prompt", 4)) == 4
        assert {path for path, _ in found(CommitVotes(commits=1), "errors of a prompt", 4)} == {
            "src/app/errors.py",
            "src/app/prompt.py",
        }

    def test_the_version_that_the_request_sees_is_found_and_none_of_what_is_gone(self):
        batch = Batch.of(TREE, [request("colour", 5)])
        table = CommitVotes()(whole_texts(batch), mock_resources())
        assert {TREE[item].text.partition("\n\n")[2] for item in table.item} == {"run2()", "ask4"}

    def test_a_definition_is_found_by_the_commits_that_changed_it(self):
        one = Item(type="chunk", name="a.py::f@1", title="a.py::f", text="a.py\n\nf", created=day(1))
        other = replace(one, name="a.py::g@1", title="a.py::g")
        whole = Item(type="file", name="a.py@1", title="a.py", text="a.py", created=day(1))
        commit = next(item for item in history(("Fix colours", {"x": "y"})) if item.type == "message")
        catalog = Catalog([whole, one, other, replace(commit, links=(commit.links[0]._replace(item=one.key),))])
        assert [path for path, _ in found(CommitVotes(types=("chunk",)), "colour", 1, catalog)] == ["a.py::f"]
        assert [path for path, _ in found(CommitVotes(), "colour", 1, catalog)] == ["a.py"]

    def test_with_agreement_a_vote_counts_by_the_share_of_the_words_that_its_message_holds(self):
        plain, shared = (dict(found(CommitVotes(agreement=n), "prompt of errors", 4)) for n in (0.0, 1.0))
        # `prompt` is in two of four messages, `error` too, and one has both
        assert {
            path: shared[path] / plain[path] for path in ("src/app/errors.py", "docs/index.md") if path in plain
        } == {"src/app/errors.py": pytest.approx(1.0)}
        assert shared["src/app/colour.py"] / plain["src/app/colour.py"] == pytest.approx(0.5)


class TestRecentChanges:
    def test_a_change_counts_half_after_the_half_life(self):
        # asked a quarter of a day after the fifth commit
        ages = {"src/app/prompt.py": (0.25, 1.25, 2.25, 4.25), "src/app/errors.py": (1.25,)}
        ages |= {"src/app/main.py": (3.25, 4.25), "docs/index.md": (4.25,)}
        wanted = {path: sum(0.5 ** (age / 2) for age in row) for path, row in ages.items()}
        assert dict(found(RecentChanges(half_life_days=2.0), "")) == pytest.approx(wanted, rel=1e-12)

    def test_without_a_time_ages_are_those_at_the_newest_item(self):
        assert dict(found(RecentChanges(half_life_days=1.0), "", time=None))["src/app/errors.py"] == 0.5

    def test_more_than_n_are_not_found(self):
        assert [path for path, _ in found(RecentChanges(n=1), "")] == ["src/app/prompt.py"]
        assert found(RecentChanges(n=0), "") == []


class TestPathPattern:
    def test_a_file_that_is_named_comes_first(self):
        assert found(PathPattern(), "the prompt in errors.py")[0][0] == "src/app/errors.py"
        assert found(PathPattern(), "/home/me/src/app/main.py:3 fails")[0] == ("src/app/main.py", 2.0)

    def test_words_of_the_path_count_by_how_rare_they_are(self):
        (best, score), *rest = found(PathPattern(), "prompts of the app")
        assert (best, score) == ("src/app/prompt.py", 1.0)  # it holds both; `app` stands in three paths of four
        assert {path for path, _ in rest} == {"src/app/main.py", "src/app/errors.py"}
        assert all(0 < score < 0.5 for _, score in rest)

    def test_patterns_of_a_plan_stand_in_for_words(self):
        plan = {"file_patterns": ["*prom*"], "strategy": {"name": "broad", "patterns": ["app/*.py", "*prom*"]}}
        scores = dict(found(PathPattern(), "docs", plan=plan))
        assert scores == {"src/app/prompt.py": 1.0, "src/app/main.py": 0.5, "src/app/errors.py": 0.5}


class TestEntryPoints:
    def test_a_main_file_comes_first_whatever_is_asked(self):
        assert found(EntryPoints(), "") == [("src/app/main.py", 0.5)]  # one folder above it beside `src`

    def test_those_of_a_plan_come_before(self):
        plan = {"strategy": {"name": "entry_point_based", "entry_files": ["src/app/errors.py", "gone.py"]}}
        assert found(EntryPoints(), "", plan=plan) == [("src/app/errors.py", 2.0), ("src/app/main.py", 0.5)]


SHOP = Catalog(
    Item(type="file", name=path, title=path, text=f"{path}\n\n{text}")
    for path, text in {
        "src/main.rs": "fn main() {}",
        "src/auth/mod.rs": "use crate::config::Config;",
        "src/config.rs": "pub struct Config;",
        "src/users/user_service.rs": "use crate::users::user::User;",
        "src/users/user.rs": "pub struct User;",
        "src/routes.rs": "use crate::auth::login;",
        "src/prices.rs": "pub fn euros() {}",
        "tools/app/main.rs": "fn main() {}",
    }.items()
)


class TestPlannedFiles:
    def test_a_request_about_all_begins_with_forms_of_its_words_and_what_imports_link(self):
        pytest.importorskip("tree_sitter_rust")
        assert found(PlannedFiles(linked=0.5, entry=0.25), "Implement authentication", catalog=SHOP, time=None) == [
            ("src/auth/mod.rs", 1.0),
            ("src/config.rs", 0.5),
            ("src/routes.rs", 0.5),
            ("src/main.rs", 0.25),
        ]

    def test_a_name_of_several_parts_begins_with_the_path_that_holds_them_all(self):
        pytest.importorskip("tree_sitter_rust")
        step = PlannedFiles(of="names", linked=0.5)
        assert found(step, "Fix UserService.find", catalog=SHOP, time=None) == [
            ("src/users/user_service.rs", 1.0),
            ("src/users/user.rs", 0.5),
        ]
        assert found(step, "Fix PriceService", catalog=SHOP, time=None) == []

    @pytest.mark.parametrize("text", ["Fix UserService.find", "Round the prices", ""])
    def test_other_requests_find_nothing(self, text):
        assert found(PlannedFiles(), text, catalog=SHOP, time=None) == []

    def test_a_word_of_many_paths_begins_nowhere(self):
        many = Catalog(Item(type="file", name=f"auth/{n}.txt", text="x") for n in range(21))
        assert found(PlannedFiles(), "Implement authentication", catalog=many, time=None) == []

    def test_patterns_of_a_plan_come_before_words(self):
        plan = {"file_patterns": ["price*"], "strategy": {"name": "broad", "patterns": []}}
        step = PlannedFiles(entry=0.0)
        assert found(step, "Implement authentication", catalog=SHOP, plan=plan, time=None) == [("src/prices.rs", 1.0)]


@pytest.mark.parametrize("step", STEPS, ids=repr)
def test_what_came_later_moves_no_score(step):
    for n in range(1, 6):
        whole, cut = (found(step, "colour prompts in errors.py", n, catalog) for catalog in (TREE, up_to(TREE, n)))
        assert whole == cut  # to the bit


@pytest.mark.parametrize("step", STEPS, ids=repr)
def test_a_catalog_without_code_or_commits_gives_nothing(step):
    assert found(step, "Implement authentication", catalog=Catalog([]), plan={"file_patterns": ["a*"]}) == []
    assert found(step, "colour", catalog=Catalog([Item(type="rule", name="main.py", text="colour")])) == []


@pytest.mark.parametrize("name", ["history", "change", "pattern", "planned", "entry_points"])
def test_searches_conform_over_a_history(name):
    requests = [request(text, n) for n, text in enumerate(["colour errors", "prompt main.py", "", "Ask again", "x"], 1)]
    selector = PipelineSelector(name, Pipeline.of({"analyse": "whole", "retrieve": name}), mock_resources())
    check_selector(selector, catalog=TREE, requests=requests)


@pytest.mark.parametrize(
    ("step", "parameters", "said"),
    [
        (CommitVotes, {"commits": 0}, "commits"),
        (CommitVotes, {"spread": -1.0}, "spread"),
        (CommitVotes, {"agreement": 3.0}, "agreement"),
        (PlannedFiles, {"of": "all"}, "of"),
        (PlannedFiles, {"linked": 2.0}, "linked"),
        (RecentChanges, {"half_life_days": 0.0}, "half_life_days must be above 0, got 0.0"),
        (PathPattern, {"types": ()}, "at least one type"),
        (PathPattern, {"types": ("rule",)}, "one of file, chunk"),
        (EntryPoints, {"n": -1}, "n must"),
    ],
)
def test_a_parameter_out_of_range_is_refused(step, parameters, said):
    with pytest.raises(ParameterError, match=said):
        step(**parameters)
