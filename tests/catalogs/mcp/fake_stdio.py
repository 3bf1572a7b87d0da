"""An MCP server for tests, without the SDK so that it starts at once: `fake_stdio.py MODE [ARGUMENT...]`.

It writes its process id to the file that the environment variable FAKE_PIDS names, if any.
"""

# ruff: noqa: T201 - standard output is how it talks
from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote


def encodings(secret):
    """A secret as a server may write it: base64 alone and in a pair, hexadecimal, percent-encoded."""
    data = secret.encode()
    for one in (data, b"me:" + data, b"someone:" + data, data + b":", b"me@corp.example:" + data + b"\n"):
        for text in (base64.b64encode(one).decode(), base64.urlsafe_b64encode(one).decode()):
            yield from (text, text.rstrip("="), f"Basic {text},")
    yield from (data.hex(), data.hex().upper(), quote(secret), quote(secret, safe=""))
    yield from (f"?key={quote(secret, safe='').lower()}&x", "".join(f"%{byte:02X}" for byte in data))


def answer(request, result):
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)


def tool(name, **more):
    return {"name": name, "description": f"Does {name}.", "inputSchema": {"type": "object"}, **more}


def page(mode, cursor):
    """The tools of a page, and the cursor of the next."""
    number = int(cursor or 0)
    if mode == "pages":
        return [tool(f"t{number}{letter}") for letter in "ba"], str(number + 1) if number < 2 else None
    if mode == "thousands":
        many = [tool(f"tool_{i:05}", description="x" * 300) for i in range(number * 1500, number * 1500 + 1500)]
        return many, str(number + 1) if number < 1 else None
    if mode == "endless":
        return [tool(f"t{number}")], str(number + 1)
    if mode == "circle":
        return [], str((number + 1) % 3 or 3)
    if mode == "twice":
        return [tool("same"), tool("other")] if number == 0 else [tool("same")], "1" if number == 0 else None
    if mode == "invalid":
        return [{"name": "bad", "inputSchema": "none"}], None
    if mode == "leak":
        secret = os.environ["SECRET"]
        return [tool("leaky", description=f"Key: {secret}", inputSchema={"type": "object", "default": [secret]})], None
    if mode == "encodes":
        description = " ".join(encodings(os.environ["SECRET"]))
        return [tool("leaky", description=description, inputSchema={"type": "object", "default": description})], None
    if mode == "named":  # a secret in the name of a tool, and in that of a field
        return [tool("x" * 90 + os.environ["SECRET"]), tool("b")], None
    if mode == "fields":
        return [tool("a", inputSchema={"type": "object", "properties": {os.environ["SECRET"]: {}}})], None
    if mode == "named_twice":
        return [tool("x" * 90 + os.environ["SECRET"])] * 2, None
    if mode == "values":
        return [tool("search_issues", description="Search issues in production with 48151 or pin_48151.")], None
    if mode == "nan":
        return [tool("a", inputSchema={"type": "object", "default": float("nan")})], None
    if mode == "half":  # json.dumps escapes it
        return [tool("a", description="\ud800 x")], None
    if mode == "rich":
        annotations = {"title": "Rich", "readOnlyHint": True}
        return [
            tool("rich", annotations=annotations, outputSchema={"type": "object"}),
            {**tool("bare"), "description": ""},
        ], None
    if mode == "shuffled":
        names = ["a", "b", "c"]
        return [tool(name) for name in (names if os.getpid() % 2 else names[::-1])], None
    return [tool("echo"), tool("add")], None


def serve(mode):
    if mode == "chatty":
        print("Server is ready!", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        method = request.get("method")
        if method == "initialize":
            info = {"name": f"fake-{mode}", "version": "1.2.3"}
            capabilities = {} if mode in ("undeclared", "silent") else {"tools": {}}
            version = request["params"]["protocolVersion"]
            answer(request, {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info})
        elif method == "tools/list" and mode == "hang_later":
            time.sleep(600)
        elif method == "tools/list" and mode == "own_error":
            error = {"code": -32000, "message": "database locked"}
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}), flush=True)
        elif method == "tools/list" and mode == "exit_later":
            sys.exit("the database is gone")
        elif method == "tools/list" and mode not in ("no_tools", "silent"):
            tools, cursor = page(mode, (request.get("params") or {}).get("cursor"))
            answer(request, {"tools": tools, **({"nextCursor": cursor} if cursor else {})})
        elif "id" in request and not (mode == "mute" or (mode == "silent" and method == "tools/list")):
            error = {"code": -32601, "message": "Method not found"}
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}), flush=True)


def main(mode):
    if "FAKE_PIDS" in os.environ:
        with Path(os.environ["FAKE_PIDS"]).open("a") as stream:
            stream.write(f"{os.getpid()}\n")
    if mode == "exit":
        print("first", *[f"line {i}" for i in range(9)], f"last: {os.environ.get('SECRET')}", sep="\n", file=sys.stderr)
        sys.exit(3)
    if mode == "garbage":
        print("not json", os.environ.get("SECRET"), flush=True)
        print("\x1b[31mmore", flush=True)
        time.sleep(600)
    if mode == "not_utf8":
        sys.stdout.buffer.write(b'{"jsonrpc": "2.0", \xff\xfe}\n')
        sys.stdout.flush()
        time.sleep(600)
    if mode == "hang":
        time.sleep(600)
    if mode == "stubborn":  # neither the end of its input nor SIGTERM makes it stop
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
    if mode == "parent":  # the server is a child, as with npx
        subprocess.run([sys.executable, __file__, "stubborn"], check=False, timeout=120)
    if mode == "leaves_child":  # which goes on when the server exits; SIGTERM does not end it
        subprocess.Popen([sys.executable, __file__, "stubborn"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        while len(Path(os.environ["FAKE_PIDS"]).read_text().split()) < 2:
            time.sleep(0.02)
    if mode == "long_line":  # of which the start, half a secret with it, does not fit
        print("x" * 100 + os.environ["SECRET"] + "y" * (8192 - 5), file=sys.stderr, end="", flush=True)
        sys.exit(1)
    if mode == "long_lines":
        print(os.environ["SECRET"] + "y" * (8192 - 20), "the end", sep="\n", file=sys.stderr, flush=True)
        sys.exit(1)
    if mode == "decodes":
        print("no such user:", base64.b64decode(os.environ["LOGIN"].split()[1]).decode(), sys.argv[2:], file=sys.stderr)
        sys.exit(1)
    if mode == "encodes_and_ends":
        print(*encodings(os.environ["SECRET"]), sep="\n", file=sys.stderr)
        sys.exit(1)
    if mode == "noisy":  # more than a pipe holds
        print("noise\n" * 50_000, file=sys.stderr, flush=True)
    if mode == "flood":
        while True:
            print("x" * 65_536, end="")
    serve(mode)


main(sys.argv[1])
