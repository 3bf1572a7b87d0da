"""An MCP server for tests that lists the tools of a module beside it, `tools.py`; copied to where it is started."""

# ruff: noqa: T201 - standard output is how it talks
from __future__ import annotations

import json
import sys

from tools import TOOLS  # type: ignore[import-not-found]

for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    if request["method"] == "initialize":
        result = {
            "protocolVersion": request["params"].get("protocolVersion", "2025-06-18"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "desk", "version": "1"},
        }
    elif request["method"] == "tools/list":
        result = {
            "tools": [
                {"name": name, "description": about, "inputSchema": {"type": "object"}} for name, about in TOOLS.items()
            ]
        }
    else:
        error = {"code": -32601, "message": "no"}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
