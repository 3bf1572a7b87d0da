"""Asks the gateway as an agent does: each request of ctxbench becomes a call of `search_tools`."""

import json
import subprocess
import sys

from gateway import LIMIT

OFFERED = int(sys.argv[1]) if len(sys.argv) > 1 else LIMIT
RANKED = 50  # tools that are asked for, so that metrics of the ranking see more than the model does

gateway = subprocess.Popen([sys.executable, "gateway.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def call(method, params):
    """Send a request to the gateway and read its answer."""
    gateway.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}) + "\n")
    gateway.stdin.flush()
    return json.loads(gateway.stdout.readline())["result"]


call("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "ctxbench"}})
for line in sys.stdin:
    message = json.loads(line)
    arguments = {"query": message["request"]["text"], "limit": RANKED}
    answer = call("tools/call", {"name": "search_tools", "arguments": arguments})
    matches = json.loads(answer["content"][0]["text"])
    ranking = [{"id": f"tool:{match['server']}:{match['tool']}", "score": match["score"]} for match in matches]
    sys.stdout.write(json.dumps({"query": message["query"], "items": ranking[:OFFERED], "ranking": ranking}) + "\n")
    sys.stdout.flush()
gateway.stdin.close()
gateway.wait(timeout=10)
