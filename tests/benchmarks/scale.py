"""Peak memory, time and size of `ctxbench run` on a made catalog: `python tests/benchmarks/scale.py --items 100000`.

The dataset is drawn from a seed, so that two versions can be measured on the same; every query needs two tools. The
command runs in a process of its own, with an empty cache, and the peak is that of the process (and of its largest
child, where it has any).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WATCH = (  # a process between, so that the peak is of this command and of no other
    "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); "
    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
)
WORDS = 4_000  # of the vocabulary; a text draws few of them often and most of them seldom
NAMED = {
    "bm25": "{selector: bm25}",
    "dense": "{selector: dense, set: {n: 5}}",
    "everything": "{selector: everything}",
    "semantic": "{selector: semantic, preset: spec}",
}


def write_dataset(folder: Path, *, items: int, queries: int, seed: int = 0) -> Path:
    """A dataset of tools on servers of 50 tools each, in the format of ours."""
    draw = random.Random(seed)
    words = [f"{draw.choice('bcdfglmnprstv')}{draw.choice('aeiou')}{n:x}" for n in range(WORDS)]
    often = [1 / (place + 5) for place in range(WORDS)]

    def text(length: int) -> list[str]:
        return draw.choices(words, often, k=length)

    (folder / "qrels").mkdir(parents=True)
    ids, about = [], []
    with (folder / "corpus.jsonl").open("w", encoding="utf-8") as file:
        for n in range(items):
            server, name, told = f"server_{n // 50}", f"tool_{n}", text(12)
            ids.append(f"tool:{server}:{name}")
            about.append(told)
            row = {"_id": ids[-1], "title": name, "text": "", "type": "tool", "server": server, "name": name}
            file.write(json.dumps({**row, "description": " ".join(told)}) + "\n")
    with (
        (folder / "queries.jsonl").open("w", encoding="utf-8") as file,
        (folder / "qrels" / "test.tsv").open("w", encoding="utf-8") as labels,
    ):
        labels.write("query-id\tcorpus-id\tscore\n")
        for n in range(queries):
            needed = draw.sample(range(items), 2)
            asked = [word for item in needed for word in draw.sample(about[item], 4)]
            file.write(json.dumps({"_id": f"q{n}", "text": " ".join(asked), "split": "test"}) + "\n")
            labels.writelines(f"q{n}\t{ids[item]}\t2\n" for item in sorted(needed, key=ids.__getitem__))
    (folder / "dataset.yaml").write_text(
        "format: 1\nname: made\nversion: '1'\nlicence: Apache-2.0\nsource: drawn at random\nlabelling: by the draw\n",
        encoding="utf-8",
    )
    return folder


def measure(folder: Path, selectors: list[str], *, dataset: Path, embedder: str = "hashing") -> dict[str, float]:
    """Run the selectors on the dataset into `folder/run`; seconds, peak MB, and MB of the run folder."""
    lines = ["name: scale", "datasets:", f"  - {dataset}", "selectors:", *(f"  - {NAMED[one]}" for one in selectors)]
    lines += [f"compare_to: {selectors[0]}", f"embedder: {embedder}", "tokens: chars/4"]
    (folder / "scale.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "ctxbench", "run", "scale.yaml", "--out", "run"]
    environment = {**os.environ, "CTXBENCH_CACHE": str(folder / "cache")}
    begin = time.perf_counter()
    watched = [sys.executable, "-c", WATCH, *command]
    done = subprocess.run(
        watched, cwd=folder, check=True, timeout=6 * 3600, env=environment, stdout=subprocess.PIPE, text=True
    )
    return {
        "seconds": round(time.perf_counter() - begin, 1),
        "peak_mb": round(int(done.stdout.split()[-1]) / 1024),
        "run_mb": round(sum(one.stat().st_size for one in (folder / "run").rglob("*") if one.is_file()) / 1e6, 1),
    }


def main() -> None:
    """Print what was measured as one line of JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=20_000)
    parser.add_argument("--selectors", default="bm25,dense", help=f"of {', '.join(NAMED)}")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        dataset = write_dataset(folder / "dataset", items=given.items, queries=given.queries)
        found = measure(folder, given.selectors.split(","), dataset=dataset)
    sys.stdout.write(json.dumps({**vars(given), **found}) + "\n")


if __name__ == "__main__":
    main()
