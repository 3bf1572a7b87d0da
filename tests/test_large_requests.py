"""Requests of a megabyte, and items that say the same again and again, fit in the memory of a small server."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.children import LIMIT, child

CORPUS = Path(__file__).parent / "fixtures" / "tiny" / "corpus.jsonl"
MOST = 500  # MB, with all that is imported
SIZE = 1_000_000  # characters
SENTENCE = "Please list every open issue of the payments team and tell me who works on it. "
# What a request says again and again; each is cut into chunks and words in a way of its own.
REPEATED = {
    "one sentence": SENTENCE,
    "two sentences": SENTENCE + "Then close the oldest. ",
    "short sentences": "Go on. ",
    "questions": "Why? ",
    "lines": "list the files\n",
    "empty lines": "\n",
    "blanks": " ",
    "tabs": "\t",
    "no-break blanks": "\u00a0",
    "full stops": ".",
    "ellipses": "... ",
    "list points": "- close it\n",
    "numbered points": "1. close it\n",
    "headings": "# Issues\n",
    "fences": "```\n",
    "table rows": "| a | b |\n",
    "words": "issue ",
    "names": "listOpenIssues ",
    "snakes": "list_open_issues ",
    "one letter": "a",
    "letters and blanks": "a ",
    "digits": "7",
    "versions": "1.2.3 ",
    "addresses": "https://example.org/a?b=c ",
    "quotes": "\u201cYes.\u201d ",
    "chinese": "\u5217\u51fa\u6240\u6709\u95ee\u9898\u3002",
    "thai": "\u0e23\u0e32\u0e22\u0e01\u0e32\u0e23",
    "accents": "e\u0301",
    "emoji": "\U0001f469\u200d\U0001f4bb ",
    "markup": "<b>a</b>\n",
    "JSON": '{"a": [1]}, ',
    "escapes": "\\n",
}
# Reads requests, and selects for each in a process of its own, which starts with the imports of this one and no more:
# it takes about as much memory as a fresh one, without the time that importing takes.
SELECT = """
import json, os, sys
from pathlib import Path
from ctxbench.search.embedders import HashingEmbedder
from ctxbench.search.embedders import VectorStore
from ctxbench.search.embedders import Vectors
from ctxbench.labelling.pools import open_selectors
from ctxbench.search.resources import LocalResources
from ctxbench.model.items import Catalog
from ctxbench.model.requests import Batch, Request
from ctxbench.catalogs.snapshots import read_catalog
from ctxbench.search.tokens import open_counter

def select(corpus, cache, repeated, size):
    embedder = HashingEmbedder()
    resources = LocalResources(Vectors(embedder, VectorStore(embedder.identity, Path(cache))), open_counter("chars/4"))
    text = (repeated * (size // len(repeated) + 1))[:size]
    batch = Batch.of(read_catalog(corpus), [Request(id="big", text=text)])
    for selector in open_selectors(["learned/normal", "semantic/spec"], resources).values():
        assert not selector.select(batch).errors

select(sys.argv[1], sys.argv[2], "a", 1)  # imports what is imported late
for line in sys.stdin:
    child = os.fork()
    if not child:
        select(*json.loads(line))
        [peak] = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")]
        print(int(peak) // 1000, flush=True)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        print("ended by", code, flush=True)
"""


@pytest.fixture(scope="module")
def selecting(tmp_path_factory):
    """A process that selects for one request after the other."""
    cache = tmp_path_factory.mktemp("first")
    command = [sys.executable, "-c", SELECT, CORPUS, cache]
    streams = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    with child(command, limit=10 * LIMIT, text=True, **streams) as process:  # each request has a limit of its own
        yield process
        process.stdin.close()


@pytest.fixture
def peak(selecting, tmp_path):
    """How many MB a process takes at most that selects for one request, by two selectors."""

    def measured(repeated, *, corpus=CORPUS, size=SIZE):
        clock = threading.Timer(LIMIT, selecting.kill)
        clock.start()
        try:
            selecting.stdin.write(json.dumps([str(corpus), str(tmp_path), repeated, size]) + "\n")
            selecting.stdin.flush()
            return int(selecting.stdout.readline())
        finally:
            clock.cancel()

    return measured


@pytest.mark.parametrize("what", REPEATED)
def test_a_request_of_a_megabyte_fits_in_memory(peak, what):
    assert peak(REPEATED[what]) < MOST


def test_an_item_that_says_what_the_request_says_over_and_over_fits_in_memory(peak, tmp_path):
    item = {"_id": "reference:again", "type": "reference", "name": "again", "text": SENTENCE * (SIZE // len(SENTENCE))}
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(f"{CORPUS.read_text('utf-8')}{json.dumps(item)}\n", "utf-8")
    assert peak(SENTENCE, corpus=corpus, size=290_000) < MOST
