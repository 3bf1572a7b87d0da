"""Compare what two checkouts of ctxbench compute, number by number.

    python tests/equality.py OLD [NEW] [--renames tests/renames.yaml] [--keep FOLDER] [--only PART]

Both checkouts work on the datasets of OLD, with the Python and the dependencies that run this script. Compared are

* `run`: every selection and every metric, per query and in total, of all shipped selectors on all shipped datasets;
* `select`: every candidate of some requests, with scores and exclusion rules;
* `tune`: the recommended presets and their figures;
* `check`: verdicts, lost items and causes after planted edits of the items.

Numbers must be equal to the bit. Sentences, and identities of code and machine (`IGNORED`), are not compared. Causes
are compared in the order of their items, because those of equal cost may change places. A rename of a name that users
write, `old: new` in the file of renames, is applied to the facts of OLD. What NEW alone has is counted and shown, and
is no difference.
Exit code: 0 = equal, 1 = different.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
SELECTORS = {
    "smoke": ("semantic", "semantic/normal", "semantic-domains", "semantic-original", "bm25", "dense", "hybrid"),
    "workbench": ("semantic", "semantic/conservative", "hybrid", "bm25", "learned/normal", "everything", "random"),
    "freight": ("semantic", "semantic/aggressive", "semantic-domains", "learned/aggressive", "learned/conservative"),
    "diary": ("memory", "semantic", "learned/normal"),
    "followups": ("semantic-original", "learned/normal", "bm25"),
    "threads": ("assembly", "assembly/embeddings", "bm25"),
}
TUNED = ("freight", "workbench")
CHECKED = {"freight": "semantic", "workbench": "learned"}
REQUESTS_SHOWN = 5  # per dataset, with every candidate
IGNORED = re.compile(r"seconds|_s$|hash|key$|version|made_by|machine|code$|^git$|folder|report|^time|took")
SENTENCE = 5  # texts of so many words are for people, and may be reworded
SHOWN = 30  # differences that are printed per part


class Checkout:
    """One checkout, run in a folder of its own."""

    def __init__(self, root: Path, folder: Path, datasets: Path, selector_names: Callable[[str], str]) -> None:
        self.root, self.folder, self.datasets = root, folder, datasets
        self.selector_name = selector_names
        folder.mkdir(parents=True)

    def command(self, *arguments: str, exit_codes: tuple[int, ...] = (0,)) -> str:
        """The standard output of one command of this checkout; raises where it fails."""
        if arguments[0] == "check" and "output_format" not in (self.root / "ctxbench/cli/app.py").read_text("utf-8"):
            arguments = tuple("--json" if argument == "--output-format" else argument for argument in arguments)
            arguments = tuple(argument for argument in arguments if argument != "json")
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.root),
            "CTXBENCH_CACHE": str(self.folder / "cache"),
            "COLUMNS": "200",
        }
        done = subprocess.run(
            [sys.executable, "-m", "ctxbench", *arguments],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=3600,
        )
        if done.returncode not in exit_codes:
            raise SystemExit(f"{self.root}: ctxbench {' '.join(arguments)}: exit {done.returncode}\n{done.stderr}")
        return done.stdout

    def write(self, name: str, value: Any) -> str:
        """Write a YAML file into the folder; its name."""
        (self.folder / name).write_text(yaml.safe_dump(value, sort_keys=False))
        return name

    def run_facts(self) -> Iterator[tuple[str, Any]]:
        """What `ctxbench run` computes: selections and metrics per query, and every figure of the table."""
        for dataset, selectors in SELECTORS.items():
            experiment = {
                "name": dataset,
                "datasets": [str(self.datasets / dataset)],
                "selectors": [self.selector_name(selector) for selector in selectors],
            }
            self.command("run", self.write(f"{dataset}.yaml", experiment), "--out", dataset, "--csv", f"{dataset}.csv")
            for path in sorted((self.folder / dataset).rglob("*.jsonl")):
                name = path.relative_to(self.folder).as_posix()
                yield name, [json.loads(line) for line in path.read_text("utf-8").splitlines()]
            with (self.folder / f"{dataset}.csv").open(encoding="utf-8", newline="") as file:
                rows = list(csv.DictReader(file))
            yield f"{dataset}.csv", {f"{row['selector']} {row['metric']}": row for row in rows}

    def select_facts(self) -> Iterator[tuple[str, Any]]:
        """Every candidate of the first requests of each dataset, chosen or excluded."""
        for dataset, selectors in SELECTORS.items():
            lines = (self.datasets / dataset / "queries.jsonl").read_text("utf-8").splitlines()
            for line in lines[:REQUESTS_SHOWN]:
                query = json.loads(line)
                selector = self.selector_name(selectors[0])
                arguments = ("--catalog", str(self.datasets / dataset), "--selector", selector.partition("/")[0])
                text = self.command("select", query["text"], *arguments, "--near", "1000", "--json")
                yield f"{dataset}/{query['_id']}", json.loads(text)

    def tune_facts(self) -> Iterator[tuple[str, Any]]:
        """The recommendations of the shipped policies, and the presets files."""
        policy = str(self.root / "experiments/tuning/presets.yaml")
        for dataset in TUNED:
            out = f"tune-{dataset}"
            arguments = (str(self.datasets / dataset), "--policy", policy, "--out", out, "--json")
            yield dataset, json.loads(self.command("tune", *arguments))
            for path in sorted((self.folder / out).rglob("*.yaml")):
                yield path.relative_to(self.folder).as_posix(), yaml.safe_load(path.read_text("utf-8"))

    def check_facts(self) -> Iterator[tuple[str, Any]]:
        """Verdict and causes, unchanged and after each planted edit."""
        for dataset, selector in CHECKED.items():
            copy = self.folder / f"checked-{dataset}"
            shutil.copytree(self.datasets / dataset, copy)
            gate = {
                "name": dataset,
                "datasets": [copy.name],
                "selectors": [{"selector": selector, "preset": "normal"}],
                "gate": {"metrics": ["completeness", "recall"], "tolerance": {"completeness": 0.01, "recall": 0.01}},
            }
            name = self.write(f"gate-{dataset}.yaml", gate)
            self.command("check", name, "--accept", "--vectors")
            corpus = copy / "corpus.jsonl"
            original = corpus.read_text("utf-8")
            for edit in ("unchanged", "shortened", "renamed description", "duplicated"):
                corpus.write_text(edited(original, edit), "utf-8")
                yield (
                    f"{dataset}: {edit}",
                    json.loads(self.command("check", name, "--output-format", "json", exit_codes=(0, 1, 2))),
                )


def edited(corpus: str, edit: str) -> str:
    """The corpus after a planted edit of every fifth item that has a description."""
    items = [json.loads(line) for line in corpus.splitlines()]
    described = [item for item in items if item.get("description")][::5]
    for item in described:
        if edit == "shortened":
            item["description"] = " ".join(item["description"].split()[:3])
        elif edit == "renamed description":
            item["description"] = f"Internal endpoint, see the handbook. {item['description'][::-1]}"
        elif edit == "duplicated":
            items.append({**item, "_id": f"{item['_id']}_copy"})
    return "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items)


def flattened(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf of a JSON value with its path, in order, without what IGNORED names and without sentences."""
    if isinstance(value, dict):
        for key, member in value.items():
            if key == "causes":
                member = sorted(member, key=lambda cause: json.dumps([cause["subjects"], cause["queries"]]))
            if not IGNORED.search(str(key)):
                yield from flattened(member, f"{path}.{key}")
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from flattened(member, f"{path}[{index}]")
    elif not (isinstance(value, str) and len(value.split()) >= SENTENCE):
        yield path, value


def differences(old: dict[str, Any], new: dict[str, Any]) -> tuple[list[str], list[str]]:
    """One line per leaf that differs or is gone, and one per leaf that is new."""
    sides = (
        {f"{name}{path}": leaf for name, value in side.items() for path, leaf in flattened(value)}
        for side in (old, new)
    )
    before, now = sides
    changed = [
        f"{path}: {leaf!r} -> {now.get(path, '(absent)')!r}"
        for path, leaf in before.items()
        if repr(leaf) != repr(now.get(path, "(absent)"))
    ]
    return changed, [f"{path}: {leaf!r}" for path, leaf in now.items() if path not in before]


def renamed(value: Any, renames: dict[str, str]) -> Any:
    """A JSON value with the old names that users write replaced by the new ones, in keys and in texts."""
    if not renames:
        return value
    pattern = re.compile(
        r"(?<![\w/-])(" + "|".join(map(re.escape, sorted(renames, key=len, reverse=True))) + r")(?![\w/-])"
    )
    return json.loads(pattern.sub(lambda match: renames[match[1]], json.dumps(value, ensure_ascii=False)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, help="the older checkout")
    parser.add_argument("new", type=Path, nargs="?", default=ROOT, help="the newer one; by default this one")
    parser.add_argument("--renames", type=Path, help="a YAML mapping, old name: new name")
    parser.add_argument("--keep", type=Path, help="keep what both sides wrote here; what OLD wrote is reused")
    parser.add_argument("--only", choices=("run", "select", "tune", "check"), action="append")
    given = parser.parse_args()
    renames = yaml.safe_load(given.renames.read_text("utf-8")) if given.renames else {}
    keep = given.keep or Path(tempfile.mkdtemp(prefix="equality-"))
    datasets = keep / "datasets"
    if not datasets.exists():
        shutil.copytree(given.old.resolve() / "datasets", datasets)
    n_different = 0
    for part in given.only or ("run", "select", "tune", "check"):
        facts = renamed(kept_facts(given.old, keep / "old", datasets, part, {}), renames)
        shutil.rmtree(keep / "new" / part, ignore_errors=True)
        changed, added = differences(facts, kept_facts(given.new, keep / "new", datasets, part, renames))
        n_leaves = sum(1 for value in facts.values() for _ in flattened(value))
        report = [f"{part}: {n_leaves:,} facts compared, {len(changed):,} differ, {len(added):,} are new"]
        print(*report, *changed[:SHOWN], *added[:SHOWN], sep="\n  ", flush=True)  # noqa: T201 - a script
        n_different += len(changed)
    if not given.keep:
        shutil.rmtree(keep)
    return min(n_different, 1)


def kept_facts(root: Path, folder: Path, datasets: Path, part: str, renames: dict[str, str]) -> dict[str, Any]:
    """The facts of one part; those of the older checkout are taken from an earlier comparison in the same folder."""
    file = folder / part / "facts.json"
    if not file.exists():
        checkout = Checkout(root.resolve(), folder / part, datasets, lambda name: renames.get(name, name))
        file.write_text(json.dumps(dict(getattr(checkout, f"{part}_facts")())), "utf-8")
    facts: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return facts


if __name__ == "__main__":
    sys.exit(main())
