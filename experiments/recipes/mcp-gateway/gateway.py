"""An MCP gateway: it offers one tool, `search_tools`, which searches the tools of the servers in gateway.json."""

import json
import math
import re
import subprocess
import sys
from pathlib import Path

LIMIT = 5  # tools of an answer, unless the call says otherwise
SEARCH = {
    "name": "search_tools",
    "description": "Find tools for what you want to do.",
    "inputSchema": {
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["query"],
    },
}


def words(text):
    """The words of a text in lower case, without a plural's s."""
    return {word.rstrip("s") for word in re.findall(r"[a-z0-9]+", text.lower())}


def tools_of(server):
    """Ask a server for its tools."""
    ask = [("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "gateway"}})]
    ask += [("tools/list", {})]
    lines = [json.dumps({"jsonrpc": "2.0", "id": n, "method": name, "params": of}) for n, (name, of) in enumerate(ask)]
    command = [server["command"], *server["args"]]
    done = subprocess.run(  # noqa: S603 - of the configuration
        command, input="\n".join(lines), capture_output=True, text=True, check=True, timeout=30
    )
    return json.loads(done.stdout.splitlines()[-1])["result"]["tools"]


def read_tools():
    """The tools of all servers, each with its words."""
    servers = json.loads(Path("gateway.json").read_text("utf-8"))["mcpServers"]
    tools = [(server, tool) for server, about in servers.items() for tool in tools_of(about)]
    return [(server, tool["name"], words(f"{server} {tool['name']} {tool['description']}")) for server, tool in tools]


def search(tools, query, limit):
    """The tools that share the rarest words with the query, best first."""
    n_with = {word: sum(word in theirs for _, _, theirs in tools) for word in words(query)}
    rarity = {word: math.log(1 + len(tools) / n) for word, n in n_with.items() if n}
    rows = []
    for server, name, theirs in tools:
        shared = sum(weight for word, weight in rarity.items() if word in theirs)
        rows.append({"server": server, "tool": name, "score": shared / math.sqrt(len(theirs))})
    return sorted((row for row in rows if row["score"]), key=lambda row: -row["score"])[:limit]


if __name__ == "__main__":
    tools = read_tools()
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        params, result = message.get("params") or {}, {}
        if message["method"] == "initialize":
            info = {"name": "gateway", "version": "1.0.0"}
            result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
        elif message["method"] == "tools/list":
            result = {"tools": [SEARCH]}
        elif message["method"] == "tools/call":
            arguments = params["arguments"]
            matches = search(tools, arguments["query"], arguments.get("limit", LIMIT))
            result = {"content": [{"type": "text", "text": json.dumps(matches)}]}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}) + "\n")
        sys.stdout.flush()
