"""The dataset itself: arrays, splits, hashes, and what must hold between its parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ctxbench.datasets.dataset import Dataset, name_of_path, split_of
from ctxbench.datasets.files import read_dataset
from ctxbench.datasets.queries import DatasetQuery, Label
from ctxbench.io.errors import InputError, UnknownNameError
from ctxbench.model.items import Catalog, Item, ItemKey
from ctxbench.model.requests import Request, SessionItem

TINY = Path(__file__).parents[1] / "fixtures" / "tiny"


def key(name: str) -> ItemKey:
    return ItemKey("tool", None, name)


def query(query_id: str, *, split: str = "tuning", **fields: Any) -> DatasetQuery:
    own = {k: fields.pop(k) for k in ("group", "tags", "scope", "needs_nothing", "partly_labelled") if k in fields}
    return DatasetQuery(request=Request(id=query_id, text="x", **fields), split=split, **own)


def small(**fields: Any) -> Dataset:
    given: dict[str, Any] = {
        "name": "small",
        "version": "1",
        "catalog": Catalog(Item(type="tool", name=name, enabled=name != "off") for name in ("a", "b", "c", "off")),
        "queries": (query("q1"), query("q2", needs_nothing=True)),
        "labels": (Label("q1", key("a"), 2),),
    }
    return Dataset(**given | fields)


def faults_of(**fields: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        small(**fields)
    return [str(fault) for fault in caught.value.faults]


def test_labels_become_arrays_by_query_and_catalog_position() -> None:
    # "(c or a) and b"; helpful and irrelevant items have no group
    dataset = small(
        queries=(query("q2", needs_nothing=True), query("q1")),
        labels=(
            Label("q1", key("c"), 2, alternatives="either"),
            Label("q1", key("b"), 2, via="dependency"),
            Label("q1", key("a"), 2, alternatives="either"),
            Label("q1", key("off"), 1),
            Label("q2", key("b"), 0),
        ),
    )
    judgments = dataset.judgments
    assert judgments.start.tolist() == [0, 1, 5]
    assert judgments.item.tolist() == [1, 0, 1, 2, 3]
    assert judgments.grade.tolist() == [0, 2, 2, 2, 1]
    assert judgments.group[0] == judgments.group[4] == -1
    assert judgments.group[1] == judgments.group[3] != judgments.group[2] >= 0
    assert judgments.via is not None
    assert judgments.via.tolist() == [0, 0, 1, 0, 0]


def test_required_items_without_alternatives_are_each_a_group() -> None:
    dataset = small(labels=tuple(Label("q1", key(name), 2) for name in "abc"))
    assert len(set(dataset.judgments.group.tolist())) == 3


def test_what_is_required_is_told_by_group() -> None:
    labels = [Label("q1", key(name), 2, alternatives=group) for name, group in (("a", ""), ("b", "x"), ("c", "x"))]
    dataset = small(labels=tuple(labels), queries=(query("q1"), query("q2", needs_nothing=True)))
    assert dataset.required == {"q1": ((key("a"),), (key("b"), key("c"))), "q2": ()}


def test_a_query_that_nobody_judged_is_not_one_that_needs_nothing() -> None:
    dataset = small(
        queries=(query("q1"), query("q2"), query("q3", needs_nothing=True)), labels=(Label("q1", key("a"), 2),)
    )
    assert dataset.unlabelled == ("q2",)
    assert dataset.counts["unlabelled"] == 1
    assert dataset.judgments.complete.tolist() == [True, False, True]
    assert dataset.measured().queries == dataset.judged().queries
    assert [q.id for q in dataset.judged().queries] == ["q1", "q3"]
    assert dataset.judged().judgments.start.tolist() == [0, 1, 1]
    assert small().judged().counts == small().counts


def test_a_helpful_item_alone_leaves_a_query_unlabelled() -> None:
    assert small(labels=(Label("q1", key("a"), 1),)).unlabelled == ("q1",)


def test_splits_are_those_of_sha256() -> None:
    # digits 1 to 16 by sha256sum: ca978112ca1bbdca, c75de8c1b7c3ae52, bee98bf120e89063, 58e2791934fdd9cf
    assert [split_of(k) for k in ("a", "q1", "q2", "q3")] == ["tuning", "tuning", "test", "test"]
    halves = sum(split_of(str(i)) == "test" for i in range(10_000))
    assert 4800 < halves < 5200


def test_a_split_keeps_the_catalog_and_its_own_labels() -> None:
    dataset = read_dataset(TINY)
    assert dataset.split_names == ("tuning", "test")
    test = dataset.split("test")
    assert [q.id for q in test.queries] == ["q06", "q07", "q08", "q09", "q10"]
    assert {label.query for label in test.labels} == {"q06", "q07", "q08", "q09"}
    assert test.catalog is dataset.catalog
    assert test.hash != dataset.hash
    assert len(test.judgments.start) == 6
    with pytest.raises(UnknownNameError, match="did you mean 'tuning'"):
        dataset.split("tunning")


def test_a_batch_resolves_scopes_sessions_and_lists() -> None:
    dataset = read_dataset(TINY)
    batch = dataset.batch()
    assert batch.requests == dataset.requests()
    eligible = dict(zip(batch.ids, batch.eligible.counts().tolist(), strict=True))
    # of 12 items one is `always`, one `manual`, one disabled; the scope holds 4, the list 2
    assert eligible == {f"q{i:02}": 9 for i in range(1, 11)} | {"q08": 4, "q10": 2}
    assert batch.session_item[batch.session_start[8] : batch.session_start[9]].tolist() == [2]


def test_labels_of_a_query() -> None:
    dataset = read_dataset(TINY)
    assert [label.grade for label in dataset.labels_of("q04")] == [2, 1, 2]
    assert dataset.labels_of("q10") == ()
    with pytest.raises(UnknownNameError, match="query 'q4'"):
        dataset.labels_of("q4")
    with pytest.raises(UnknownNameError, match="query 'q99'"):
        dataset.take(["q01", "q99"])


def test_the_hash_is_that_of_content_not_of_order_or_name() -> None:
    dataset = read_dataset(TINY)
    shuffled = replace(
        dataset, name="other", queries=tuple(reversed(dataset.queries)), labels=tuple(reversed(dataset.labels))
    )
    assert shuffled.hash == dataset.hash
    assert [label.query for label in shuffled.labels][:1] == ["q09"]


@pytest.mark.parametrize(
    "change",
    [
        lambda d: replace(d, labels=d.labels[1:]),
        lambda d: replace(d, labels=(replace(d.labels[0], via="dependency"), *d.labels[1:])),
        lambda d: replace(d, queries=(replace(d.queries[0], split="test"), *d.queries[1:])),
        lambda d: replace(d, queries=(replace(d.queries[0], tags=()), *d.queries[1:])),
        lambda d: replace(d, queries=d.queries[:4] + d.queries[5:], labels=[x for x in d.labels if x.query != "q05"]),
        lambda d: replace(
            d,
            scopes={"support": d.scopes["support"][1:]},
            queries=tuple(
                replace(q, request=replace(q.request, available=d.scopes["support"][1:])) if q.scope else q
                for q in d.queries
            ),
        ),
    ],
)
def test_any_change_of_queries_or_labels_changes_both_hashes(change: Callable[[Dataset], Dataset]) -> None:
    dataset = read_dataset(TINY)
    changed = change(dataset)
    assert changed.labels_hash != dataset.labels_hash
    assert changed.hash != dataset.hash


def test_a_changed_item_changes_the_hash_but_not_that_of_the_labels() -> None:
    dataset = read_dataset(TINY)
    changed = replace(dataset, catalog=Catalog([*dataset.catalog, Item(type="rule", name="new")]))
    assert changed.hash != dataset.hash
    assert changed.labels_hash == dataset.labels_hash


def test_all_faults_come_at_once() -> None:
    found = faults_of(
        name="a b",
        queries=(
            query("q1"),
            query("q1"),
            query("q 2", split="x/y"),
            query("q3", explicit=(key("bb"),), session=(SessionItem(key("a")), SessionItem(key("a")))),
            query("q4", scope="none"),
            query("q5", group="g"),
            query("q6", group="g", split="test"),
            query("q7", needs_nothing=True),
        ),
        labels=(
            Label("q1", key("a"), 3, via="indirect"),
            Label("q3", key("a"), 1, alternatives="x"),
            Label("q3", key("a"), 0),
            Label("q7", key("a"), 2),
            Label("q8", key("z"), 2),
        ),
        scopes={"s": (key("a"), key("a"), key("y"))},
    )
    assert [message.split("; ")[0] for message in found] == [
        "a dataset's name must be letters, digits, '.', '-' and '_', got 'a b'",
        "scope 's' names item 'tool:y', which is not in corpus.jsonl",
        "scope 's' names item 'tool:a' twice",
        "query 'q1' occurs twice",
        "query 'q 2' has an id that is empty or holds blanks",
        "query 'q 2' has split 'x/y'",
        "query 'q3' (session) names item 'tool:a' twice",
        "query 'q3' (explicit) names item 'tool:bb', which is not in corpus.jsonl",
        "query 'q4' has scope 'none', which dataset.yaml does not define",
        "query 'q6' is in split 'test', but query 'q5' of the same group 'g' is in 'tuning'",
        "label of 'tool:a' for query 'q1' has score 3",
        "label of 'tool:a' for query 'q1' has via 'indirect'",
        "label of 'tool:a' for query 'q3' has alternatives 'x', but score 1",
        "label of 'tool:a' for query 'q3' occurs twice",
        "label of 'tool:a' for query 'q7' says required, but the query says `needs: nothing`",
        "label of 'tool:z' for query 'q8' is for a query that is not in queries.jsonl",
        "label of 'tool:z' for query 'q8' names item 'tool:z', which is not in corpus.jsonl",
    ]
    fix = "correct the id, or restore the item; `ctxbench data rebase` moves labels to a changed catalog"
    unknown = next(fault for fault in found if "which is not in corpus.jsonl" in fault)
    assert [message for message in found if fix in message] == [unknown]
    assert not [message for message in found if "Known: tool" in message or "did you mean 'tool" in message]


def test_an_item_that_is_nowhere_is_told_once_with_all_that_names_it() -> None:
    gone = key("gone")
    labels = tuple(Label(f"q{n}", gone, 2) for n in range(3))
    queries = (*(query(f"q{n}") for n in range(3)), query("q3", explicit=(gone,)))
    told = faults_of(queries=queries, labels=labels, scopes={"s": (gone,), "t": (gone,)})
    (first,) = (fault for fault in told if "not in corpus.jsonl" in fault)
    mentions = "1 more scope, 1 list of explicit items and 3 labels"
    assert f"scope 's' names item 'tool:gone', which is not in corpus.jsonl; also named by {mentions};" in first
    (single,) = faults_of(queries=queries[:1], labels=labels[:1])
    assert "not in corpus.jsonl; correct" in single


def test_a_required_item_must_be_one_that_could_be_offered() -> None:
    queries = (query("q1", available=(key("b"),)), query("q2"))
    both = (Label("q1", key("a"), 2, alternatives="x"), Label("q1", key("b"), 2, alternatives="x"))
    assert small(queries=queries, labels=both).unlabelled == ("q2",)  # one of two alternatives is enough
    apart = tuple(replace(label, alternatives="") for label in both)
    assert faults_of(queries=queries, labels=apart) == [
        "query 'q1' requires 'tool:a', which is not available to it; no selector can offer it"
    ]
    assert faults_of(queries=queries, labels=(Label("q2", key("off"), 2),)) == [
        "query 'q2' requires 'tool:off', which is not enabled; no selector can offer it"
    ]
    held = (query("q1", available=(key("b"),), session=(SessionItem(key("a")),)),)
    assert small(queries=held, labels=(Label("q1", key("a"), 2),)).unlabelled == ()


def test_a_scope_and_the_items_given_must_agree() -> None:
    scopes = {"s": (key("a"),)}
    queries = (query("q1", scope="s", available=(key("b"),)),)
    assert faults_of(queries=queries, labels=(), scopes=scopes) == [
        "query 'q1' has scope 's', but its available items differ from that scope"
    ]


def test_an_empty_dataset_is_one() -> None:
    dataset = small(queries=(), labels=())
    assert dataset.judgments.start.tolist() == [0]
    assert dataset.split_names == ()
    assert len(dataset.batch()) == 0


def test_a_partly_labelled_query_is_left_out_whatever_labels_it_has() -> None:
    queries = (query("q1"), replace(query("q2"), partly_labelled=True))
    labels = (Label("q1", key("a"), 2), Label("q2", key("a"), 2))
    dataset = small(queries=queries, labels=labels)
    assert dataset.unlabelled == ("q2",)
    assert dataset.counts["partly_labelled"] == 1
    assert [q.id for q in dataset.judged().queries] == ["q1"]
    assert dataset.hash != small(queries=(query("q1"), query("q2")), labels=labels).hash


def test_where_a_label_comes_from_changes_no_hash() -> None:
    from_a_person = small(queries=(query("q1"),), labels=(Label("q1", key("a"), 2, source="person"),))
    assert from_a_person.hash == small(queries=(query("q1"),), labels=(Label("q1", key("a"), 2),)).hash


def test_a_path_names_a_dataset(tmp_path):
    file = tmp_path / "my evals (2).v1.jsonl"
    file.touch()
    assert name_of_path(file, "x") == "my-evals-2"
    assert name_of_path(tmp_path / "a.b c", "x") == "a.b-c"
    assert name_of_path(tmp_path / "...", "x") == "x"
