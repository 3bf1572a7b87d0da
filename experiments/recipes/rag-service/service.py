"""A retrieval service: sections of docs/ ranked by BM25. `service.py PORT [SECTIONS]`, or `service.py --chunks`."""

import json
import math
import re
import sys
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

CHUNKS = []
for path in sorted(Path("docs").glob("*.md")):
    for section in re.split(r"^## ", path.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        title, _, text = section.partition("\n")
        name = f"{path.stem}/{title.lower().replace(' ', '-')}"
        CHUNKS.append({"id": name, "title": title, "text": text.strip(), "metadata": {"document": path.name}})


def words(text):
    """The words of a text in lower case, without a plural's s."""
    return [word.rstrip("s") for word in re.findall(r"[a-z0-9]+", text.lower())]


COUNTS = [Counter(words(f"{chunk['title']} {chunk['text']}")) for chunk in CHUNKS]
MEAN = sum(map(Counter.total, COUNTS)) / len(COUNTS)


def rank(question):
    """The sections that share words with a question, with their scores, best first."""
    rows = []
    for chunk, counts in zip(CHUNKS, COUNTS, strict=True):
        score = 0.0
        for word in set(words(question)) & counts.keys():
            n = sum(word in others for others in COUNTS)
            tf = counts[word] / (counts[word] + 1.2 * (0.25 + 0.75 * counts.total() / MEAN))
            score += math.log(1 + (len(COUNTS) - n + 0.5) / (n + 0.5)) * tf
        if score:
            rows.append({"id": f"chunk:{quote(chunk['id'], safe='')}", "score": score})
    return sorted(rows, key=lambda row: -row["score"])


class Handler(BaseHTTPRequestHandler):
    """GET returns the build; POST answers requests."""

    def do_GET(self):
        """Name what answers: the build changes with every setting that can change an answer."""
        self.reply({"build": f"sections-{SECTIONS}"})

    def do_POST(self):
        """Answer all requests of the body."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        rankings = {request["query"]: rank(request["request"]["text"]) for request in body["requests"]}
        self.reply({"answers": [{"query": q, "items": r[:SECTIONS], "ranking": r} for q, r in rankings.items()]})

    def reply(self, value):
        """Send JSON."""
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        """Log nothing."""


if sys.argv[1] == "--chunks":
    sys.stdout.writelines(json.dumps(chunk) + "\n" for chunk in CHUNKS)
else:
    SECTIONS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
