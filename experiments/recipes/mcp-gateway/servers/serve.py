"""A small MCP server on standard input and output: its tools are a file of names and descriptions."""

import json
import sys
from pathlib import Path

path = Path(sys.argv[1])
SCHEMA = {"type": "object", "properties": {"arguments": {"type": "object"}}}
TOOLS = [
    {"name": name, "description": text, "inputSchema": SCHEMA}
    for name, text in json.loads(path.read_text("utf-8")).items()
]

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:  # a notification
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] == "initialize":
        info = {"name": path.stem, "version": "1.0.0"}
        version = message["params"]["protocolVersion"]
        answer["result"] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    elif message["method"] == "tools/list":
        answer["result"] = {"tools": TOOLS}
    else:
        answer["error"] = {"code": -32601, "message": "Method not found"}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
