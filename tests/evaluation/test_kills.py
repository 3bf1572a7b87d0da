"""`ctxbench run` killed at random moments of indexing and running: nothing is lost, and the end is the same bytes.

CTXBENCH_KILLS says how often it is killed; eight times by default, a hundred take some minutes.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

from ctxbench.search.embedders import COMMIT_TEXTS
from tests.children import child

KILLS = int(os.environ.get("CTXBENCH_KILLS", "8"))
EXPERIMENT = """
datasets: [bfcl-simple]
sample: 50
selectors:
  - {selector: semantic, preset: spec}
  - {selector: random, like: semantic/spec}
  - {selector: bm25, set: {n: 5}}
embedder: minilm
"""
# Python reads this module at its start; it writes down every text that is embedded, whatever becomes of its vector.
CUSTOMISED = """
import hashlib, os
from ctxbench.search import minilm
_log = os.open(os.environ["CTXBENCH_TEST_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
_embed = minilm.MiniLM.embed
def embed(self, texts, *, on_done=None):
    def done(position, vector):
        digest = hashlib.sha256(texts[position].encode("utf-8", "surrogatepass")).hexdigest()
        os.write(_log, f"{digest}\\n".encode())
        on_done(position, vector)
    return _embed(self, texts, on_done=done)
minilm.MiniLM.embed = embed
"""


class Place:
    """A cache, a run folder, and the log of texts embedded, for one experiment run from cold to its end."""

    def __init__(self, root: Path) -> None:
        self.cache, self.run, self.log = root / "cache", root / "run", root / "log"
        self.root = root
        root.mkdir()
        (root / "sitecustomize.py").write_text(CUSTOMISED, encoding="utf-8")

    def start(self, experiment):
        environment = {
            **os.environ,
            "CTXBENCH_CACHE": str(self.cache),
            "CTXBENCH_OFFLINE": "1",
            "CTXBENCH_TEST_LOG": str(self.log),
            "PYTHONPATH": str(self.root),
        }
        command = [sys.executable, "-m", "ctxbench", "run", str(experiment), "--out", str(self.run), "--json"]
        return child(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def embedded(self):
        return self.log.read_text().split() if self.log.exists() else []

    def stored(self):
        """Hashes of the texts whose vectors are in the store, which must be sound."""
        found = set()
        for path in self.cache.glob("vectors/*/vectors-2.sqlite"):
            connection = sqlite3.connect(path)
            try:
                assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
                if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'vectors'").fetchone():
                    found |= {row[0].hex() for row in connection.execute("SELECT key FROM vectors")}
            finally:
                connection.close()
        return found

    def vectors(self):
        """One hash over all vectors, by text."""
        (path,) = self.cache.glob("vectors/*/vectors-2.sqlite")
        connection = sqlite3.connect(path)
        try:
            digest = hashlib.sha256()
            for row in connection.execute("SELECT key, value FROM vectors ORDER BY key"):
                digest.update(row[0] + row[1])
            return digest.hexdigest()
        finally:
            connection.close()

    def results(self):
        paths = sorted(path for path in self.run.rglob("*") if path.is_file() and path.name != "timings.json")
        return {str(path.relative_to(self.run)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def finish(place, experiment):
    """Run to the end; what was printed on stdout, and how many texts it says were embedded."""
    with place.start(experiment) as process:
        out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    (said,) = re.findall(r"([\d,]+) texts embedded", err)
    return json.loads(out), int(said.replace(",", ""))


def _start_and_kill(place, experiment, *, seconds, texts):
    """Kill it after so many seconds, or once it has embedded so many texts; False if it came to its end before."""
    embedded, end = len(place.embedded()), time.monotonic() + seconds
    with place.start(experiment) as process:
        while process.poll() is None:
            if time.monotonic() > end or len(place.embedded()) >= embedded + texts:
                process.kill()
                return True
            time.sleep(0.01)
        _, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    return False


def test_a_killed_run_loses_nothing_and_ends_with_the_same_bytes(tmp_path):
    experiment = tmp_path / "e.yaml"
    experiment.write_text(EXPERIMENT, encoding="utf-8")
    undisturbed = Place(tmp_path / "undisturbed")
    begin = time.monotonic()
    expected, distinct = finish(undisturbed, experiment)
    whole = time.monotonic() - begin
    assert sorted(undisturbed.stored()) == sorted(undisturbed.embedded())
    assert distinct == len(undisturbed.stored()) == len(undisturbed.embedded())

    moments = random.Random(KILLS)
    kills = rounds = 0
    while kills < KILLS:
        place = Place(tmp_path / f"round {rounds}")
        rounds += 1
        held: set[str] = set()
        seen = killed = 0
        while kills < KILLS and not (place.run / "manifest.json").exists():
            # every other one while texts are embedded, which is a small part of the time
            texts = moments.randrange(1, distinct) if kills % 2 else distinct + 1
            killed += _start_and_kill(place, experiment, seconds=moments.uniform(0.1, 0.6 * whole), texts=texts)
            kills += 1
            log = place.embedded()
            assert not held & set(log[seen:])  # nothing that was stored is made again
            seen, before, held = len(log), held, place.stored()
            assert before <= held  # nothing that was stored is gone
        found, embedded = finish(place, experiment)
        assert embedded == distinct - len(held)
        assert len(place.embedded()) <= distinct + COMMIT_TEXTS * killed
        assert found == expected
        assert place.results() == undisturbed.results()
        assert place.vectors() == undisturbed.vectors()
