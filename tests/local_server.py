"""A server on this machine that speaks OpenAI's interface as far as a test writes it."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server:
    """A server whose responses a test writes; remembers what it was sent."""

    def __init__(self, post):
        self.posts, self.headers, self.paths = [], [], []
        self.post = post
        self.released = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.posts.append(body)
                outer.headers.append(dict(self.headers))
                outer.paths.append(self.path)
                response = outer.post(body)
                if response is None:  # drop the connection
                    self.close_connection = True
                    self.connection.close()
                    return
                status, value, *headers = response
                data = value if isinstance(value, bytes) else json.dumps(value).encode()
                self.send_response(status)
                for name, text in headers:
                    self.send_header(name, text)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        class Http(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # a client that gave up is what some tests are about

        self.http = Http(("127.0.0.1", 0), Handler)
        self.place = f"127.0.0.1:{self.http.server_port}/v1"
        self.url = f"http://{self.place}"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def stop(self):
        self.released.set()
        self.http.shutdown()
        self.thread.join(timeout=60)
        self.http.server_close()
