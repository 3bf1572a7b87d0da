from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ctxbench.datasets.queries import Label
from ctxbench.io.errors import InputError, ParameterError
from ctxbench.labelling.review import alternative, findings, patched, regraded, write_patch


@pytest.fixture
def pool(make_pool):
    """q0 requires what nobody ranks (wiki), q1 what `wide` ranks first; both rank `list_runs` or `send_mail` first."""
    key = [item.key for item in make_pool().dataset.catalog]
    return make_pool(2, partly=False, labels=[Label("q0", key[5], 2), Label("q1", key[3], 2)])


def test_what_every_selector_ranks_far_down_is_found(pool):
    found = findings(pool)
    assert [(one.query, one.item.name, one.kind) for one in found] == [("q0", "read_page", "required but far down")]
    assert found[0].severity == 1.0
    assert found[0].ranks == {"wide": None, "narrow": None}


def test_one_selector_alone_contradicts_nobody(pool):
    from dataclasses import replace

    with pytest.raises(ParameterError, match="two or more selectors"):
        findings(replace(pool, offers=pool.offers[:1]))


def test_a_patch_is_applied_and_read_as_it_was_written(pool, tmp_path):
    key = pool.dataset.catalog[5].key
    path = tmp_path / "patch.jsonl"
    write_patch(regraded(pool.dataset, "q0", key, 1, why="seen"), path)
    assert json.loads(path.read_text()) == {
        "query": "q0",
        "item": "tool:wiki:read_page",
        "was": {"grade": 2, "via": "direct", "alternatives": ""},
        "now": {"grade": 1, "via": "direct", "alternatives": ""},
        "why": "seen",
    }
    made, changed = patched(pool.dataset, path)
    assert changed == 1
    assert made.labels_of("q0")[0].grade == 1
    assert made.labels_of("q0")[0].source == "review"


def test_what_a_label_quotes_is_kept_unless_the_item_is_irrelevant(pool, tmp_path):
    key, path = pool.dataset.catalog[5].key, tmp_path / "patch.jsonl"
    quoted = pool.dataset.catalog[5].prompt_text[:12]
    labels = (replace(one, quote=quoted if one.item == key else "") for one in pool.dataset.labels)
    dataset = replace(pool.dataset, labels=tuple(labels))
    for grade, quote in ((1, quoted), (0, "")):
        write_patch(regraded(dataset, "q0", key, grade), path)
        assert [one.quote for one in patched(dataset, path)[0].labels_of("q0") if one.item == key] == [quote]


def test_conflicts_name_file_and_line_and_nothing_is_applied(pool, tmp_path):
    key = pool.dataset.catalog[5].key
    path = tmp_path / "patch.jsonl"
    write_patch(regraded(pool.dataset, "q0", key, 1), path)
    made, _ = patched(pool.dataset, path)
    with pytest.raises(InputError, match=r"is 1 direct now, but the patch expects 2 direct.*patch\.jsonl, line 1"):
        patched(made, path)
    path.write_text(
        '{"query": "q9", "item": "tool:wiki:read_page"}\n{"item": 5}\n{"query": "q0", "item": "tool:x:y"}\n'
    )
    with pytest.raises(InputError) as caught:
        patched(pool.dataset, path)
    assert [fault.line for fault in caught.value.faults] == [1, 2, 3]


def test_an_alternative_changes_both_labels(pool):
    catalog = pool.dataset.catalog
    made = alternative(pool.dataset, "q0", catalog[0].key, catalog[5].key)
    assert {(one.item.name, one.was is None, one.now.alternatives) for one in made} == {
        ("create_issue", True, "like tool:wiki:read_page"),
        ("read_page", False, "like tool:wiki:read_page"),
    }
    with pytest.raises(ParameterError, match="not another required item"):
        alternative(pool.dataset, "q0", catalog[0].key, catalog[1].key)


def test_a_group_left_with_one_is_no_group(pool, tmp_path):
    catalog = pool.dataset.catalog
    path = tmp_path / "patch.jsonl"
    write_patch(alternative(pool.dataset, "q0", catalog[0].key, catalog[5].key), path)
    both, _ = patched(pool.dataset, path)
    one = regraded(both, "q0", catalog[0].key, 0)
    assert {(c.item.name, c.now.grade, c.now.alternatives) for c in one} == {
        ("create_issue", 0, ""),
        ("read_page", 2, ""),
    }
