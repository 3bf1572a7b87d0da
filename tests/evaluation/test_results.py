"""The run folder: what is written is read back, whole or not at all, and damage is seen."""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import multiprocessing
import os

import numpy as np
import pytest

from ctxbench.evaluation.answers import Part, Slice, joined_slices
from ctxbench.evaluation.run_folder import RunFolder, content_key
from ctxbench.io import files
from ctxbench.io.errors import StorageError
from ctxbench.model.candidates import Candidates, Rule
from ctxbench.model.items import Catalog, Item

CATALOG = Catalog([Item(type="tool", name=name) for name in "abc"])
A, B, C = CATALOG.ids


def table(*requests, rules=("too low",), **columns):
    """Candidates from lists of (item, score, out) by request."""
    rows = [(row, *entry) for row, request in enumerate(requests) for entry in request]
    made = Candidates.build(
        len(requests),
        np.array([row for row, _, _, _ in rows], dtype=np.int64),
        np.array([item for _, item, _, _ in rows], dtype=np.int64),
        score=np.array([score for _, _, score, _ in rows], dtype=np.float64),
        out=np.array([out for _, _, _, out in rows], dtype=np.int64),
    )
    return Candidates(
        start=made.start,
        rules=(None, *map(Rule, rules)),
        columns={name: np.array(values, dtype=np.float64) for name, values in columns.items()},
        **{name: getattr(made, name) for name in Candidates.row_arrays()},
    )


def some_slice(*queries, candidates=None, **given):
    rows = [[(0, 0.9, 0), (1, 0.1 + 0.2, 1)] for _ in queries]
    return Slice(
        queries=queries,
        chunks=tuple((f"chunk of {query}", "ä") for query in queries),
        candidates=table(*rows) if candidates is None else candidates,
        ranked=given.get("ranked", True),
        scored=given.get("scored", True),
        errors=given.get("errors", {}),
        seconds=np.full(len(queries), 0.5),
        notes=given.get("notes", {}),
    )


def some_part(**given):
    answers = given.pop("answers", None) or some_slice("q1", "q2")
    metrics = {"completeness": np.array([1.0, np.nan]), "tokens": np.array([1 / 3, 12.0])}
    return Part(
        **{
            "dataset": "d",
            "selector": "s",
            "key": "k",
            "answers": answers,
            "metrics": metrics,
            "unavailable": {"RR": "no ranking"},
            "notes": {"unstable": 3},
            **given,
        }
    )


def saved(path, **given):
    folder = RunFolder(path)
    part = some_part(**given)
    folder.save(part, CATALOG)
    return folder, part


def equal(left, right):
    return (left.queries, left.chunks, left.ranked, left.scored, left.errors, left.candidates.rules) == (
        right.queries, right.chunks, right.ranked, right.scored, right.errors, right.candidates.rules,
    ) and all(
        np.array_equal(getattr(left.candidates, name), getattr(right.candidates, name), equal_nan=name == "score")
        for name in ("start", *Candidates.row_arrays())
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------- parts


def test_a_part_is_read_back_with_exact_values(tmp_path):
    folder, part = saved(tmp_path)
    read = folder.load("d", "s")
    assert equal(read.answers.joined(), part.answers)
    assert (read.key, read.unavailable, read.notes) == ("k", {"RR": "no ranking"}, {"unstable": 3})
    assert list(read.metrics) == ["completeness", "tokens"]
    assert read.metrics["tokens"].tolist() == [1 / 3, 12.0]
    assert read.metrics["completeness"][0] == 1.0
    assert np.isnan(read.metrics["completeness"][1])
    assert folder.error_count("d", "s") == 0


def test_the_files_of_a_part_can_be_read_without_ctxbench(tmp_path):
    answers = some_slice("q1", "q2", candidates=table([(0, 0.9, 0), (1, 0.3, 1)], []), errors={"q2": "timed out"})
    saved(tmp_path, answers=answers)
    lines = (tmp_path / "d" / "s" / "selections.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"query": "q1", "items": [{"id": A, "score": 0.9, "mode": "agent", "origin": "search"}]},
        {"query": "q2", "error": "timed out", "items": []},
    ]
    lines = (tmp_path / "d" / "s" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"query": "q1", "values": {"completeness": 1.0, "tokens": 1 / 3}},
        {"query": "q2", "values": {"completeness": None, "tokens": 12.0}},
    ]
    marker = json.loads((tmp_path / "d" / "s" / "part.json").read_text())
    for name, digest in marker["files"].items():
        assert hashlib.sha256((tmp_path / "d" / "s" / name).read_bytes()).hexdigest() == digest


def test_a_part_without_queries_is_a_part(tmp_path):
    nothing = joined_slices([])
    folder, _ = saved(tmp_path, answers=nothing, metrics={"tokens": np.empty(0)})
    read = folder.load("d", "s")
    assert read.answers.queries == ()
    assert read.metrics["tokens"].shape == (0,)


def test_a_part_is_had_only_under_its_own_key(tmp_path):
    folder, _ = saved(tmp_path)
    assert folder.has("d", "s", "k")
    assert not folder.has("d", "s", "another")
    assert not folder.has("d", "t", "k")
    assert not folder.has("e", "s", "k")


@pytest.mark.parametrize("name", ["part.json", "answers.zip", "selections.jsonl", "metrics.jsonl"])
@pytest.mark.parametrize("damage", ["gone", "empty", "cut", "changed", "list"])
def test_a_damaged_part_is_not_had_and_does_not_load(name, damage, tmp_path):
    folder, _ = saved(tmp_path)
    path = tmp_path / "d" / "s" / name
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        changed = data.replace(b"q1", b"q9", 1).replace(b'"k"', b'"K"').replace(b"PK", b"pk", 1)
        path.write_bytes({"empty": b"", "cut": data[: len(data) // 2], "changed": changed, "list": b"[1]"}[damage])
    assert not folder.has("d", "s", "k")
    if name != "selections.jsonl":  # which is for people
        with pytest.raises(Exception, match=str(tmp_path)) as caught:
            folder.load("d", "s")
        assert caught.value.exit_code == 2


def test_a_part_that_is_saved_again_replaces_the_old_one_and_drops_its_slices(tmp_path):
    folder, _ = saved(tmp_path)
    folder.add_slice("d", "s", "new", number=0, answers=some_slice("q1", "q2"))
    folder.save(some_part(key="new"), CATALOG)
    assert folder.has("d", "s", "new")
    assert not folder.has("d", "s", "k")
    assert [path.name for path in (tmp_path / "d").iterdir()] == ["s"]


def test_a_run_of_another_format_is_not_read(tmp_path):
    folder = RunFolder(tmp_path)
    folder.write("manifest.json", {"format": 1})
    with pytest.raises(StorageError, match="has format 1, this version reads 5; run again"):
        folder.read("manifest.json")


def test_saving_a_part_takes_the_manifest_away_which_no_longer_holds(tmp_path):
    folder = RunFolder(tmp_path)
    folder.write("manifest.json", {"format": 1})
    folder.save(some_part(), CATALOG)
    with pytest.raises(StorageError, match="expected the folder of a finished run"):
        folder.read("manifest.json")


@pytest.mark.parametrize("fails_at", [1, 2, 3, 4])
def test_a_full_disk_leaves_the_old_part_and_nothing_half_written(fails_at, tmp_path, monkeypatch):
    folder, _ = saved(tmp_path)
    before = (tmp_path / "d" / "s" / "part.json").read_bytes()
    calls = iter(range(1, 100))

    def fsync(handle):
        if next(calls) >= fails_at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", fsync)
    with pytest.raises(StorageError, match="No space left on device"):
        folder.save(some_part(key="new"), CATALOG)
    assert [path.name for path in (tmp_path / "d").iterdir()] == ["s"]
    assert (tmp_path / "d" / "s" / "part.json").read_bytes() == before
    assert folder.has("d", "s", "k")


def test_names_become_different_plain_file_names(tmp_path):
    folder = RunFolder(tmp_path)
    names = ["a/b", "a~b", "a%2Fb", "..", ".", ".a", "a b", "ä", "a\\b", "a:b", "A/../B", "a+partial", "x", "x=0.5, y"]
    paths = [folder.part_path("d", name) for name in names]
    assert len(set(paths)) == len(names)
    for path in paths:
        assert path.parent == tmp_path / "d"
        assert path.name.isascii()
        assert not path.name.startswith(".")
    assert folder.part_path("/data/mine", "s") == tmp_path / "~data~mine" / "s"


def test_the_slices_of_one_selector_are_not_the_part_of_another(tmp_path):
    folder = RunFolder(tmp_path)
    folder.save(some_part(selector="s+partial"), CATALOG)
    folder.save(some_part(selector="s.partial"), CATALOG)
    folder.add_slice("d", "s", "k", number=0, answers=some_slice("q1"))
    folder.save(some_part(selector="s"), CATALOG)
    assert all(folder.has("d", name, "k") for name in ("s", "s+partial", "s.partial"))


def test_a_content_key_changes_with_anything_in_it():
    base = content_key(1, "hash", {"b": 1, "a": [2]}, ["m"])
    assert base == content_key(1, "hash", {"a": [2], "b": 1}, ["m"])
    others = [
        content_key(2, "hash", {"b": 1, "a": [2]}, ["m"]),
        content_key(1, "hash", {"b": 1, "a": [2.5]}, ["m"]),
        content_key(1, "hash", {"b": 1, "a": [2]}, ["m", "n"]),
        content_key(1, "hash", {"b": 1}, ["m"]),
    ]
    assert len({base, *others}) == 5


# ---------------------------------------------------------------------------------------------- unfinished parts


IDS = [["q1", "q2"], ["q3"]]


def test_slices_wait_until_the_part_is_whole(tmp_path):
    folder = RunFolder(tmp_path)
    assert folder.slice_numbers("d", "s", "k", queries=IDS) == set()
    folder.add_slice("d", "s", "k", number=1, answers=some_slice("q3", notes={"late": 1}))
    assert folder.slice_numbers("d", "s", "k", queries=IDS) == {1}
    folder.add_slice("d", "s", "k", number=0, answers=some_slice("q1", "q2"))
    assert folder.slice_numbers("d", "s", "k", queries=IDS) == {0, 1}
    assert folder.slices("d", "s").queries == ("q1", "q2", "q3")
    assert folder.slices("d", "s").notes == {"late": 1}
    assert folder.stored("d", "s", "k").select_queries(["q3", "q1"]).queries == ("q3", "q1")
    assert folder.stored("d", "s", "k").select_queries(["q3", "q4"]) is None
    assert folder.stored("d", "s", "other") is None


@pytest.mark.parametrize("number", [10, 1_000_000])
def test_slices_are_joined_in_the_order_of_their_numbers(number, tmp_path):
    folder = RunFolder(tmp_path)
    folder.add_slice("d", "s", "k", number=number, answers=some_slice("last"))
    folder.add_slice("d", "s", "k", number=9, answers=some_slice("first"))
    assert folder.slices("d", "s").queries == ("first", "last")


def test_slices_made_from_something_else_are_dropped(tmp_path):
    folder = RunFolder(tmp_path)
    folder.add_slice("d", "s", "old", number=0, answers=some_slice("q1", "q2"))
    assert folder.slice_numbers("d", "s", "k", queries=IDS) == set()
    assert folder.slice_numbers("d", "s", "old", queries=IDS) == set()


def test_fresh_drops_slices(tmp_path):
    folder = RunFolder(tmp_path)
    folder.add_slice("d", "s", "k", number=0, answers=some_slice("q1", "q2"))
    assert folder.slice_numbers("d", "s", "k", queries=IDS, fresh=True) == set()
    assert folder.slice_numbers("d", "s", "k", queries=IDS) == set()


def test_damaged_slices_and_slices_of_other_queries_are_made_again(tmp_path):
    folder = RunFolder(tmp_path)
    folder.add_slice("d", "s", "k", number=0, answers=some_slice("q2", "q1"))
    folder.add_slice("d", "s", "k", number=1, answers=some_slice("q3"))
    folder.add_slice("d", "s", "k", number=2, answers=some_slice("q4"))
    partial = tmp_path / "d" / "s+partial"
    (partial / "notes.slice").write_bytes(b"of a person")
    assert folder.slice_numbers("d", "s", "k", queries=IDS) == {1}
    damaged = partial / "000001.slice"
    damaged.write_bytes(damaged.read_bytes()[:-40])
    assert folder.slice_numbers("d", "s", "k", queries=IDS) == set()
    assert sorted(path.name for path in partial.iterdir()) == ["key"]


@pytest.mark.parametrize("bit", range(8))
def test_a_slice_of_many_rows_whose_header_has_another_bit_is_made_again(bit, tmp_path):
    folder = RunFolder(tmp_path)
    many = table([(item, 0.5, 0) for item in range(20_000)])
    folder.add_slice("d", "s", "k", number=0, answers=some_slice("q1", candidates=many))
    [path] = (tmp_path / "d" / "s+partial").glob("*.slice")
    whole = path.read_bytes()
    at = whole.index(b"\x93NUMPY", whole.index(b"score.npy")) + 8  # the length of the header: zip's checksum misses it
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
    assert folder.slice_numbers("d", "s", "k", queries=[["q1"]]) == set()


def test_a_part_that_is_damaged_is_said_and_one_made_from_something_else_is_not(tmp_path, caplog):
    folder, _ = saved(tmp_path)
    assert not folder.has("d", "s", "another")
    assert caplog.records == []
    path = tmp_path / "d" / "s" / "metrics.jsonl"
    path.write_bytes(path.read_bytes() + b"\n")
    assert not folder.has("d", "s", "k")
    [record] = caplog.records
    assert record.getMessage() == f"{path.parent} is computed again: metrics.jsonl was changed or damaged"


# ---------------------------------------------------------------------------------------------- files and locks


def test_a_folder_without_a_manifest_is_no_finished_run(tmp_path):
    with pytest.raises(StorageError, match=r"holds no manifest\.json: expected the folder of a finished run"):
        RunFolder(tmp_path / "none").read("manifest.json")
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(StorageError, match="expected a JSON object"):
        RunFolder(tmp_path).read("manifest.json")


def test_the_lock_clears_away_what_a_killed_process_left(tmp_path):
    folder, _ = saved(tmp_path)
    folder.add_slice("d", "t", "k", number=0, answers=some_slice("q1"))
    left = [tmp_path / "d" / ".s.1-0123abcd.tmp", tmp_path / "d" / "t+partial" / ".0.1-0123abcd.tmp",
            tmp_path / ".manifest.json.1-0123abcd.tmp"]  # fmt: skip
    left[0].mkdir()
    (left[0] / "answers.zip").write_bytes(b"half")
    left[1].write_bytes(b"half")
    left[2].write_bytes(b"half")
    own = tmp_path / "src" / ".build.tmp" / "a"  # whoever runs into a folder of theirs keeps what is in it
    own.parent.mkdir(parents=True)
    own.write_bytes(b"somebody's")
    with folder.locked(lambda: None):
        assert not any(path.exists() for path in left)
    assert folder.has("d", "s", "k")
    assert folder.slice_numbers("d", "t", "k", queries=[["q1"]]) == {0}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "src"]
    assert own.exists()


def test_a_run_that_comes_to_nothing_leaves_no_folder(tmp_path):
    with pytest.raises(RuntimeError), RunFolder(tmp_path / "a" / "run").locked(lambda: None):
        raise RuntimeError("the model is missing")
    assert not (tmp_path / "a" / "run").exists()


def _append(path, log, held):
    with RunFolder(path).locked(lambda: None):
        for _ in range(held):
            with log.open("a") as stream:
                stream.write(f"{os.getpid()}\n")


def test_processes_take_turns(tmp_path):
    log = tmp_path / "log"
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_append, args=(tmp_path / "run", log, 50)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    said = log.read_text().split()
    assert len(said) == 150
    changes = sum(left != right for left, right in itertools.pairwise(said))
    assert changes == 2  # nobody wrote between another's lines


def test_who_waits_is_told_and_goes_on_when_the_other_ends(tmp_path):
    told = []

    class Enough(Exception):
        pass

    def waiting():
        told.append(1)
        raise Enough

    folder = RunFolder(tmp_path)
    with folder.locked(lambda: None):
        with pytest.raises(Enough), RunFolder(tmp_path).locked(waiting):
            pass
        assert (tmp_path / ".lock").exists()
    assert told == [1]
    with RunFolder(tmp_path).locked(waiting):
        pass


def test_a_lock_file_left_behind_holds_nobody_up(tmp_path):
    (tmp_path / ".lock").write_bytes(b"")
    with RunFolder(tmp_path).locked(lambda: pytest.fail("nobody holds it")):
        pass


def test_a_file_in_place_of_the_run_folder_is_one_clear_error(tmp_path):
    (tmp_path / "run").write_text("a file")
    with pytest.raises(StorageError, match="cannot write"), RunFolder(tmp_path / "run").locked(lambda: None):
        pass
