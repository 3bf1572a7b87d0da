"""Record the facts of faulty files anew, and show which changed: `python -m tests.faulty.record [--check] [ID ...]`."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from tests.faulty.cases import FACTS, read_cases, run


def main() -> int:
    """Write the facts, or with --check only compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ids", nargs="*", help="beginnings of the ids of cases; all by default")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where facts differ")
    options = parser.parse_args()
    lines = FACTS.read_text("utf-8").splitlines() if FACTS.exists() else []
    recorded = {row.pop("id"): row for row in map(json.loads, lines)}
    facts, changed = {}, 0
    with tempfile.TemporaryDirectory() as cache:
        for case in read_cases():
            facts[case.id] = recorded.get(case.id)
            if not options.ids or case.id.startswith(tuple(options.ids)):
                with tempfile.TemporaryDirectory() as folder:
                    facts[case.id] = run(case, Path(folder).resolve(), Path(cache))
    for id_, row in facts.items():
        if row != recorded.get(id_):
            changed += 1
            before = [f"- {json.dumps(recorded[id_], ensure_ascii=False)}"] if id_ in recorded else []
            print(id_, *before, f"+ {json.dumps(row, ensure_ascii=False)}", sep="\n")  # noqa: T201
    gone = sorted(recorded.keys() - facts.keys())
    print(f"{len(facts)} cases, {changed} new or changed, {len(gone)} gone {' '.join(gone)}")  # noqa: T201
    if not options.check:
        rows = [{"id": id_, **row} for id_, row in facts.items() if row is not None]
        FACTS.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return int(options.check and bool(changed or gone))


if __name__ == "__main__":
    raise SystemExit(main())
