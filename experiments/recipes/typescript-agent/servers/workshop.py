"""An MCP server on standard input and output, without dependencies: the repairs of a workshop."""

import json
import sys

TOOLS = {
    "book_repair": ("Book a bike into the workshop for a day.", "customer", "bike", "date"),
    "move_repair": ("Move a booked repair to another day.", "repair", "date"),
    "cancel_repair": ("Cancel a booked repair and free the stand.", "repair"),
    "get_repair": ("Get the state of a repair: who works on it, which parts it waits for, when it is ready.", "repair"),
    "list_repairs": ("List the repairs of a day or of a mechanic.", "date"),
    "quote_repair": ("Estimate the price of a repair: labour and parts.", "bike", "work"),
    "assign_mechanic": ("Assign a mechanic to a repair.", "repair", "mechanic"),
    "log_work": ("Log minutes of work on a repair.", "repair", "minutes"),
    "finish_repair": ("Close a repair after the safety check.", "repair"),
    "report_defect": ("Send a broken frame, fork or motor to its maker as a claim.", "bike", "part"),
    "bike_history": ("List earlier repairs of a bike by its frame number.", "frame"),
    "rent_bike": ("Rent a bike out for some days.", "customer", "bike", "days"),
    "return_rental": ("Take a rented bike back and check it for damage.", "rental"),
}


def tool(name, description, *fields):
    """A tool as `tools/list` returns it; all of its fields are texts."""
    properties = {field: {"type": "string"} for field in fields}
    schema = {"type": "object", "properties": properties, "required": list(fields)}
    return {"name": name, "description": description, "inputSchema": schema}


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:  # a notification
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] == "initialize":
        info = {"name": "workshop", "version": "1.0.0"}
        version = message["params"]["protocolVersion"]
        answer["result"] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    elif message["method"] == "tools/list":
        answer["result"] = {"tools": [tool(name, *about) for name, about in TOOLS.items()]}
    else:
        answer["error"] = {"code": -32601, "message": "Method not found"}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
