"""Peak memory, time and size of `ctxbench run` on a made catalog: `python tests/benchmarks/scale.py --items 100000`.

The dataset is drawn from a seed, so that two versions can be measured on the same; every query needs two tools. The
command runs in a process of its own, with an empty cache, and the peak is that of the process and its children.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from zlib import crc32

import numpy as np

from ctxbench.catalogs.agent_file import open_catalog
from ctxbench.search.dense import chunks_of
from ctxbench.search.embedders import VectorStore, open_embedder

WORDS = 4_000  # of the vocabulary; a text draws few of them often and most of them seldom
LENGTH, ASKED = 12, 4  # words of a description, and of each needed item's that a query has
NAMED = {
    "bm25": "{selector: bm25}",
    "dense": "{selector: dense, set: {n: 5}}",
    "everything": "{selector: everything}",
    "semantic": "{selector: semantic, preset: spec, name: semantic}",
}


def write_dataset(folder: Path, *, items: int, queries: int, seed: int = 0) -> Path:
    """A dataset of tools on servers of 50 tools each, in the format of ours; the same for the same numbers."""
    draw = np.random.default_rng(seed)
    vowels, consonants = np.array(list("aeiou")), np.array(list("bcdfglmnprstv"))
    words = [f"{draw.choice(consonants)}{draw.choice(vowels)}{n:x}" for n in range(WORDS)]
    often = np.cumsum([1 / (rank + 5) for rank in range(WORDS)])
    about = np.minimum(np.searchsorted(often, draw.random((items, LENGTH)) * often[-1]), WORDS - 1)
    ids = [f"tool:server_{n // 50}:tool_{n}" for n in range(items)]
    (folder / "qrels").mkdir(parents=True)
    with (folder / "corpus.jsonl").open("w", encoding="utf-8") as file:
        for n, row in enumerate(about.tolist()):
            server, name, text = f"server_{n // 50}", f"tool_{n}", " ".join([words[word] for word in row])
            file.write(
                f'{{"_id": "{ids[n]}", "title": "{name}", "text": "", "type": "tool", "server": "{server}", '
                f'"name": "{name}", "description": "{text}"}}\n'
            )
    first = draw.integers(items, size=queries)
    needed = np.stack([first, (first + draw.integers(1, items, size=queries)) % items], axis=1)
    asked = np.argsort(draw.random((queries, 2, LENGTH)), axis=2)[:, :, :ASKED]
    asked = np.take_along_axis(about[needed], asked, axis=2).reshape(queries, 2 * ASKED)
    with (
        (folder / "queries.jsonl").open("w", encoding="utf-8") as file,
        (folder / "qrels" / "test.tsv").open("w", encoding="utf-8") as labels,
    ):
        labels.write("query-id\tcorpus-id\tscore\n")
        for n, (row, pair) in enumerate(zip(asked.tolist(), needed.tolist(), strict=True)):
            text = " ".join([words[word] for word in row])
            file.write(f'{{"_id": "q{n}", "text": "{text}", "split": "test"}}\n')
            labels.writelines(f"q{n}\t{ids[item]}\t2\n" for item in sorted(pair, key=ids.__getitem__))
    (folder / "dataset.yaml").write_text(
        "format: 1\nname: made\nversion: '1'\nlicence: Apache-2.0\nsource: drawn at random\nlabelling: by the draw\n",
        encoding="utf-8",
    )
    return folder


def store_vectors(dataset: Path, cache: Path, *, embedder: str = "minilm") -> int:
    """Store made vectors of all texts of the dataset, so that no model is asked; returns how many.

    A text has the sum of the vectors of its words, each drawn at random, at unit length: texts that share words are
    near each other.
    """
    store = VectorStore(open_embedder(embedder).identity, cache / "vectors")
    table = np.random.default_rng(1).standard_normal((1 << 14, store.identity.dimensions), dtype=np.float32)
    texts = [text for item in open_catalog(str(dataset)) for text in chunks_of(item)]
    with (dataset / "queries.jsonl").open(encoding="utf-8") as file:
        texts += [json.loads(line)["text"] for line in file]
    for start in range(0, len(texts), 10_000):
        part = texts[start : start + 10_000]
        vectors = np.stack(
            [table[[crc32(word.encode()) % len(table) for word in text.split()]].sum(axis=0) for text in part]
        )
        store.add(part, vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    store.close()
    return len(texts)


class Usage(threading.Thread):
    """Watches a process and its descendants: memory shared between them counts once.

    Attributes:
        peak_mb: the largest sum of proportional set sizes.
        cpu: seconds of processor time, of all that were ever there.
    """

    def __init__(self, pid: int, every: float = 0.2) -> None:
        super().__init__(daemon=True)
        self.pid, self.every, self.ended = pid, every, threading.Event()
        self.peak_mb, self._cpu = 0.0, dict[int, float]()

    @property
    def cpu(self) -> float:
        return sum(self._cpu.values())

    def run(self) -> None:
        while not self.ended.wait(self.every):
            family, total = _family(self.pid), 0
            self._cpu |= family
            for pid in family:
                with suppress(OSError, IndexError):
                    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
                    total += int(rollup.partition("\nPss:")[2].split()[0])
            self.peak_mb = max(self.peak_mb, total / 1024)


def _family(root: int) -> dict[int, float]:
    """Seconds of processor time of a process and each of its descendants."""
    parents, cpu = dict[int, int](), dict[int, float]()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            pid = int(path.parent.name)
            parents[pid] = int(fields[1])
            cpu[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    family, children = {root}, {root}
    while children := {pid for pid, parent in parents.items() if parent in children} - family:
        family |= children
    return {pid: cpu[pid] for pid in family & cpu.keys()}


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(
    folder: Path,
    selectors: list[str],
    *,
    dataset: Path,
    embedder: str = "hashing",
    options: Sequence[str] = (),
    more: str = "",
    cache: Path | None = None,
) -> dict[str, float]:
    """Run the selectors on the dataset into `folder/run`.

    Args:
        folder: of the experiment and the run; what an earlier call left there is removed.
        selectors: of `NAMED`.
        dataset: the dataset.
        embedder: its name.
        options: of `ctxbench run`, such as `--jobs 2`.
        more: lines of the experiment.
        cache: the cache folder; None: a new one.

    Returns:
        Seconds of wall clock and of processors, peak MB of all processes together, and MB of the run folder.
    """
    shutil.rmtree(folder / "run", ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["name: scale", "datasets:", f"  - {dataset}", "selectors:", *(f"  - {NAMED[name]}" for name in selectors)]
    lines += [f"compare_to: {selectors[0]}", f"embedder: {embedder}", "tokens: chars/4", more]
    (folder / "scale.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "ctxbench", "run", "scale.yaml", "--out", "run", *options]
    environment = {**os.environ, "CTXBENCH_CACHE": str(cache or folder / "cache")}
    begin, before = time.perf_counter(), _cpu_of_children()
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        usage = Usage(process.pid)
        usage.start()
        _, errors = process.communicate(timeout=6 * 3600)
    seconds = time.perf_counter() - begin
    usage.ended.set()
    usage.join(timeout=60)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {errors}")
    return {
        "seconds": round(seconds, 2),
        "cpu_seconds": round(max(usage.cpu, _cpu_of_children() - before), 2),  # the first misses what is short
        "peak_mb": round(usage.peak_mb),
        "run_mb": round(sum(path.stat().st_size for path in (folder / "run").rglob("*") if path.is_file()) / 1e6, 1),
    }


def main() -> None:
    """Print what was measured as one line of JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=20_000)
    parser.add_argument("--selectors", default="bm25,dense", help=f"of {', '.join(NAMED)}")
    parser.add_argument("--stored", action="store_true", help="store made vectors of 384 numbers before")
    parser.add_argument("--jobs", default="1")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        dataset = write_dataset(folder / "dataset", items=arguments.items, queries=arguments.queries)
        if arguments.stored:
            store_vectors(dataset, folder / "cache")
        figures = measure(
            folder,
            arguments.selectors.split(","),
            dataset=dataset,
            embedder="minilm" if arguments.stored else "hashing",
            options=("--jobs", arguments.jobs),
        )
    sys.stdout.write(json.dumps({**vars(arguments), **figures}) + "\n")


if __name__ == "__main__":
    main()
