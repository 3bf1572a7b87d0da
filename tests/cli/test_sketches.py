"""Memory, assembly and codebase as pipelines of stub steps: run, tuned and gated by the commands as any other."""

from __future__ import annotations

import json
import sys

import pytest
import yaml

from ctxbench.model import registry
from ctxbench.tuning.inputs import read_tunables
from ctxbench.tuning.policy import read_policies

STEPS = '''
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
import ctxbench as cb


def table(query, found, mode=cb.Mode.AGENT):
    """Candidates from (request, item, score) of what a request may get."""
    rows = [row for row in found if query.batch.eligible[row[0], row[1]]]
    request, item, score = (np.array([row[i] for row in rows]) for i in range(3))
    given = {"score": score.astype(float), "mode": np.full(len(rows), int(mode))}
    return cb.Candidates.build(len(query.batch), request.astype(int), item.astype(int), **given)


@dataclass(frozen=True)
class Named(cb.Strategy):
    def __call__(self, query, resources):
        named = [(row, key) for row, request in enumerate(query.batch.requests) for key in request.explicit]
        asked = [(row, query.batch.catalog.find(key), 1.0) for row, key in named]
        return table(query, asked, cb.Mode.EXPLICIT)


@dataclass(frozen=True)
class Newest(cb.Strategy):
    n: int = 5

    def __call__(self, query, resources):
        created, found = query.batch.catalog.facts.created, []
        for row, mask in enumerate(query.batch.eligible):
            items = np.flatnonzero(mask)
            latest = items[np.argsort(-created[items], kind="stable")][: self.n]
            found += [(row, item, 1.0 / (1 + place)) for place, item in enumerate(latest.tolist())]
        return table(query, found)


@dataclass(frozen=True)
class Patterns(cb.Strategy):
    def __call__(self, query, resources):
        return table(query, [
            (row, item, 1.0)
            for row, request in enumerate(query.batch.requests)
            for item, one in enumerate(query.batch.catalog)
            if one.name in request.text
        ])


@dataclass(frozen=True)
class Follow(cb.Strategy):
    share: float = 0.5

    def __call__(self, query, candidates, resources):
        found = {}
        for row in np.flatnonzero(candidates.chosen & (candidates.tier > 0)).tolist():
            request, item = int(candidates.request[row]), int(candidates.item[row])
            for _, end in query.batch.catalog.facts.linked(item):
                held = candidates.item[candidates.rows(request)][candidates.chosen[candidates.rows(request)]]
                if query.batch.eligible[request, end] and end not in held:
                    found.setdefault((request, end), (candidates.score[row] * self.share, item))
        keys = np.array(list(found), dtype=int).reshape(-1, 2)
        score, via = (np.array([one[i] for one in found.values()]) for i in (0, 1))
        kind = np.full(len(keys), int(cb.Origin.EXPANSION)), np.full(len(keys), int(cb.Mode.EXPANSION))
        given = {"score": score.astype(float), "via_item": via.astype(int), "origin": kind[0], "mode": kind[1]}
        return cb.add_expanded(candidates, keys[:, 0], keys[:, 1], **given)

'''
KINDS = {"retrieve": ("Named", "Newest", "Patterns"), "expand": ("Follow",)}
LINEAR = {"linear": {"weights": {"retrieved.score": 1.0, "memory.recency": "$recency", "memory.confidence": 0.2}}}
CUT = [{"first": {"n": "$n"}}, {"budget": {"tokens": 400}}]
SKETCHES = {
    "memory": {
        "retrieve": "dense",
        "refine": ["follow", LINEAR, {"truncate": {"tokens": 6}}, *CUT],
    },
    "assembly": {
        "retrieve": {"merge": ["named", "bm25", "fuzzy", "newest"]},
        "refine": [{"weighted": {}}, LINEAR, *CUT],
    },
    "codebase": {
        "retrieve": {"merge": ["patterns", "bm25"]},
        "refine": ["follow", LINEAR, *CUT],
    },
}
PARAMETERS = {"n": {"default": 3, "range": [0, 20]}, "recency": {"default": 0.1, "range": [0.0, 1.0]}}
TOPICS = ["refund", "parcel", "invoice", "address", "voucher", "delivery", "cancel", "warranty"]


@pytest.fixture
def sketch(place, monkeypatch):
    """A dataset of three workspaces, plugins with the steps, and a file for each selector."""
    (place / "sketch_steps.py").write_text(STEPS)
    lines = [
        f"[ctxbench.{kind}]\n" + "\n".join(f"{n.lower()} = sketch_steps:{n}" for n in names)
        for kind, names in KINDS.items()
    ]
    info = place / "sketch_steps-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sketch_steps\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(place))
    registry._plugins.cache_clear()
    for name, pipeline in SKETCHES.items():
        told = {"name": name, "parameters": PARAMETERS, "pipeline": pipeline}
        (place / f"{name}.yaml").write_text(yaml.safe_dump(told, sort_keys=False))
    write_dataset(place / "data")
    yield place
    sys.modules.pop("sketch_steps", None)
    registry._plugins.cache_clear()


def write_dataset(folder):
    items, queries, labels = [], [], {"tuning": [], "test": []}
    for number in range(48):
        workspace, topic = ("a", "b", "c")[number % 3], TOPICS[number // 3 % 8]
        other = f"memory:{(number + 24) % 48}"
        items.append({
            "_id": f"memory:{number}", "text": f"What was said of {topic}, case {number}.", "workspace": workspace,
            "created": f"2026-01-{1 + number % 28:02}", "confidence": number % 5 / 4,
            "links": [{"type": "about", "item": other}] if number % 2 else [],
        })  # fmt: skip
        split = "test" if number % 2 else "tuning"
        text = f"What about the {topic} of case {number}?"
        asked = {"workspace": workspace, "time": "2026-02-01T09:00:00Z", "explicit": [f"memory:{number}"]}
        queries.append({"_id": f"q{number}", "text": text, "split": split, **asked})
        labels[split].append(f"q{number}\tmemory:{number}\t2\tWhat was said of")
    (folder / "qrels").mkdir(parents=True)
    for name, rows in (("corpus", items), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for split, rows in labels.items():
        (folder / "qrels" / f"{split}.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore\tquote", *rows]) + "\n")
    card = {"name": "sketch", "version": "1", "licence": "CC0-1.0", "source": "here", "labelling": "by hand"}
    (folder / "dataset.yaml").write_text(yaml.safe_dump(card))


def experiment(place, *names, **more):
    told = {"name": "sketch", "datasets": ["data"], "selectors": [{"selector": f"{n}.yaml"} for n in names]}
    (place / "gate.yaml").write_text(yaml.safe_dump({**told, "embedder": "hashing", "tokens": "chars/4", **more}))
    return "gate.yaml"


@pytest.mark.parametrize("name", SKETCHES)
def test_a_sketch_runs_and_stays_in_its_workspace(sketch, cli, name):
    done = cli("run", experiment(sketch, name))
    assert done.code == 0, done.err
    asked = ("select", "What about the refund of case 24?", "--catalog", "data", "--selector", f"{name}.yaml")
    done = cli(*asked, "--embedder", "hashing", "--near", "100", "--json")
    assert done.code == 0, done.err
    assert done.json["items"] == [], "a request of no workspace sees none of theirs"


def test_the_cut_of_a_sketch_is_swept_exactly(sketch, cli):
    constraint = {"metric": "completeness", "at_least": 0.5, "of": "base"}
    policy = {
        "name": "lean",
        "selectors": [{"selector": f"{name}.yaml", "set": {"recency": 0.1}} for name in SKETCHES],
        "policies": {"lean": {"minimise": "tokens", "constraints": [constraint]}},
        "embedder": "hashing",
        "tokens": "chars/4",
    }
    (sketch / "policy.yaml").write_text(yaml.safe_dump(policy))
    done = cli("tune", "data", "--policy", "policy.yaml")
    assert done.code == 0, done.err
    (opened, *others) = read_tunables(read_policies(sketch / "policy.yaml"))[0]
    assert {one.entry.name: type(one.family).__name__ for one in (opened, *others)} == dict.fromkeys(
        SKETCHES, "BudgetFamily"
    )


@pytest.mark.parametrize("name", SKETCHES)
def test_a_sketch_is_gated(sketch, cli, name):
    experiment(sketch, name)
    assert (done := cli("check", "gate.yaml", "--accept")).code == 0, done.err
    assert (done := cli("check", "gate.yaml")).code == 0, done.err
    rows = [json.loads(line) for line in (sketch / "data/corpus.jsonl").read_text().splitlines()]
    for row in rows[::2]:
        row["text"] = "What was said of ice cream."
    (sketch / "data/corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = cli("check", "gate.yaml")
    worse = name in ("memory", "assembly")  # these search memories, by their texts alone; others go by what is named
    assert done.code == (1 if worse else 0), done.out
    if worse:
        assert "memory:" in done.out
