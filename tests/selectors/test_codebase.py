"""The shipped selector for repositories: the worked examples of document 003, and a history that goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctxbench.catalogs.git_history import GitRepository
from ctxbench.catalogs.git_trees import items_of_tree
from ctxbench.labelling.git_history import HistorySettings, history_dataset
from ctxbench.model.items import Catalog
from ctxbench.model.requests import Batch, Request
from ctxbench.model.selection import selections
from ctxbench.search.embedders import HashingEmbedder, Vectors
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import CharsCounter
from ctxbench.selectors.definitions import definition
from tests.checkout import written
from tests.rust_shop import rust_shop

IMPLEMENT = "Implement authentication"
FIX = "Fix the bug in UserService.find_by_email"

# The document's "Final Context" of both examples, in its order.
FOR_IMPLEMENT = (
    "src/auth/mod.rs",
    "src/models/user.rs",
    "src/middleware/auth.rs",
    "src/database/user_repo.rs",
    "src/routes/mod.rs",
    "src/config.rs",
    "src/main.rs",
    "tests/auth_tests.rs",
)
FOR_FIX = ("src/services/user_service.rs", "src/models/user.rs", "tests/user_service_test.rs")
TEXTS = Path(__file__).parents[2] / "experiments/codebase/examples"


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    return GitRepository(rust_shop(tmp_path_factory.mktemp("shop")).root)


def tree(repository, **settings):
    return Catalog(items_of_tree(repository, **settings).items)


def answers(batch, **values):
    """The selections of a batch, and the prompts."""
    codebase = definition("codebase")
    pipeline = codebase.pipeline(codebase.values(overrides=values))
    resources = LocalResources(Vectors(HashingEmbedder(), None), CharsCounter())
    outcome = pipeline.run(batch, resources)
    return selections(outcome.query, outcome.candidates), pipeline.prompts(outcome, resources)


def offered(catalog, text, **values):
    """The names of what a request is offered, in order."""
    ((selection,), _) = answers(Batch.of(catalog, [Request(id="q", text=text)]), **values)
    return [catalog[catalog.position(one.id)].name for one in selection.chosen]


def test_implement_authentication_is_offered_first_what_the_document_lists(shop):
    pytest.importorskip("tree_sitter_rust")
    assert set(offered(tree(shop), IMPLEMENT, max_files=9)[:9]) >= set(FOR_IMPLEMENT)


def neutral(n):
    """A module of a tree about something else: it holds words of code, some of which authentication has, too."""
    noun, verb = ("lexer", "matrix", "socket", "shader", "ledger")[n % 5], ("parse", "scale", "drain", "blend")[n % 4]
    folder = ("net", "math", "gfx", "text")[n % 4]
    note = ("// Each token keeps its place.", "// The user sees no flicker.", "// To implement: errors.")[n % 3]
    text = f"{note}\npub fn {verb}_{noun}_{n}(size: usize) -> usize {{\n    size + {n}\n}}\n"
    return f"crates/{folder}/src/{noun}_{n}.rs", text


@pytest.fixture(scope="module", params=["tokens", "sessions"])
def planted(request, tmp_path_factory):
    """The files of the document's examples in a tree of 240 others."""
    texts = TEXTS / request.param
    files = {path.relative_to(texts).as_posix(): path.read_text("utf-8") for path in texts.rglob("*.rs")}
    commits = [
        ("Begin", dict(map(neutral, range(240)))),
        ("Sell to users", files),
        ("Scale the socket", dict(map(neutral, range(0, 240, 7)))),
    ]
    return tree(GitRepository(written(tmp_path_factory.mktemp("planted"), commits).root))


@pytest.mark.essential
@pytest.mark.parametrize(("request_text", "listed"), [(IMPLEMENT, FOR_IMPLEMENT), (FIX, FOR_FIX)])
def test_the_files_of_the_documents_examples_come_first_in_a_large_tree(planted, request_text, listed):
    pytest.importorskip("tree_sitter_rust")
    names = offered(planted, request_text)
    places = [names.index(name) for name in listed]
    assert max(places) < 8
    assert not any(name.startswith("crates/") for name in names[: max(places)])


def test_what_matches_nothing_is_not_offered(planted):
    names = offered(planted, "Implement authentication", max_files=300)
    texts = dict(map(neutral, range(240)))
    assert all("token" in texts[name] or "user" in texts[name] for name in names if name in texts)
    assert offered(planted, "Round the quux") == []


def test_fix_a_method_is_offered_the_three_files_that_the_document_lists(shop):
    found = offered(tree(shop), FIX, max_files=4)
    assert set(FOR_FIX) <= set(found)
    assert found[0] == FOR_FIX[0]


def test_fix_a_method_is_offered_its_body_and_the_function_that_it_calls(shop):
    pytest.importorskip("tree_sitter_rust")
    found = offered(tree(shop, view="definitions"), FIX)
    service = "src/services/user_service.rs"
    wanted = {f"{service}::{name}" for name in ("UserService", "UserService.find_by_email", "normalised")}
    assert wanted | {service, "tests/user_service_test.rs::finds_a_user_by_email"} <= set(found)
    assert "src/models/user.rs" in found  # the outline, with the type's signature: less than its definition
    assert not any(name.startswith("src/prices.rs") for name in found)


# ------------------------------------------------------------------------------------- a history that goes on


def long_history():
    """Twenty-four commits over twelve modules, with a file that goes and comes back, and one that moves."""
    words = ["parse", "render", "cache", "retry", "route", "login", "order", "price", "queue", "token"]
    yield "Begin", {f"src/m{n}.py": f"def {words[n % 10]}_{n}():\n    return {n}\n" for n in range(12)}
    for n in range(1, 24):
        first, second, word = n % 12, n * 5 % 12, words[n % 10]
        files = {
            f"src/m{at}.py": f"def {words[at % 10]}_{at}():\n    return {n}\n\n\ndef {word}():\n    return {at}\n"
            for at in (first, second)
        }
        if n in (7, 15):
            files["src/notes.py"] = "NOTES = 'token order'\n"  # the same text again
        if n in (11, 19):
            files["src/notes.py"] = None
        if n == 13:
            files |= {"src/moved.py": "def moved():\n    return 'price of the queue'\n"}
        if n == 17:
            files |= {"src/moved.py": None, "lib/moved.py": "def moved():\n    return 'price of the queue'\n"}
        yield f"Let {word} number {n} mind {words[second % 10]}", files


@pytest.fixture(scope="module")
def going_on(tmp_path_factory):
    return GitRepository(written(tmp_path_factory.mktemp("going-on"), long_history()).root)


def kept_of(repository, view, head):
    """By query of the dataset up to a commit: ids and scores of all candidates, bit by bit, and the prompt."""
    settings = HistorySettings(head=head, view=view)
    dataset, _ = history_dataset(repository, settings, notify=lambda *_: None)
    told, prompts = answers(dataset.batch(), max_files=3)
    return {
        one.query: (
            [(row.id, None if row.score is None else row.score.hex()) for row in one.chosen],
            [(row.id, row.score.hex(), str(row.rule)) for row in one.left_out],
            prompt,
        )
        for one, prompt in zip(told, prompts, strict=True)
    }


@pytest.mark.essential
@pytest.mark.parametrize("view", ["files", "definitions"])
def test_cut_after_a_commit_a_dataset_gives_the_same_selections_up_to_it(going_on, view):
    if view == "definitions":
        pytest.importorskip("tree_sitter_python")
    whole = kept_of(going_on, view, "HEAD")
    assert len(whole) == 23
    assert all(len(chosen) == 3 for chosen, _, _ in whole.values())
    for back in (1, 5, 6, 10, 16):
        cut = kept_of(going_on, view, f"HEAD~{back}")
        assert len(cut) == 23 - back
        assert cut == {query: whole[query] for query in cut}
