"""A selector as an HTTP endpoint: `python http_selector.py 8700`, then the URL is http://127.0.0.1:8700/select."""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from callable_selector import shared_words

BUILD = "words-1"  # raise it with every change that can change an answer: answers are kept under it
catalogs = {}  # items by the hash of their catalog


class Handler(BaseHTTPRequestHandler):
    """GET reports the build; POST answers requests."""

    protocol_version = "HTTP/1.1"  # keeps connections open

    def do_GET(self):
        """What answers here."""
        self.reply({"build": BUILD})

    def do_POST(self):
        """Answer all requests of the body, or ask for the catalog."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        token = os.environ.get("SELECTOR_TOKEN")
        if token and self.headers.get("Authorization") != token:
            self.reply({"error": "who are you?"}, status=401)
            return
        if "items" in body:
            catalogs[body["catalog"]] = body["items"]
        items = catalogs.get(body["catalog"])
        if items is None:
            self.reply({"need": "catalog"})
            return
        answers = [{"query": r["query"], **shared_words(r["request"], items)} for r in body["requests"]]
        self.reply({"answers": answers, "build": BUILD})

    def reply(self, value, status=200):
        """Send JSON."""
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        """No line a request."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    sys.stdout.write(f"http://127.0.0.1:{server.server_port}/select\n")
    sys.stdout.flush()
    server.serve_forever()
