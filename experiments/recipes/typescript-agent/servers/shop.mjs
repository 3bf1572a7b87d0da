// An MCP server on standard input and output, without packages: parts, customers and money of a shop.
import { createInterface } from "node:readline";

const tools = [
  ["find_part", "Find a part in the catalogue by name, brand or size.", "words"],
  ["check_stock", "Count the pieces of a part on the shelf and on order.", "part"],
  ["reserve_part", "Put a part aside for a repair.", "part", "repair"],
  ["order_part", "Order a part from a supplier.", "part", "pieces"],
  ["track_order", "Find out when a supplier's order arrives.", "order"],
  ["find_customer", "Find a customer by name, phone or email.", "words"],
  ["update_customer", "Change the address or phone of a customer.", "customer", "change"],
  ["create_invoice", "Bill a customer for a repair or goods.", "customer", "lines"],
  ["refund_payment", "Pay money back to a customer.", "invoice", "reason"],
  ["send_message", "Send a text message to a customer.", "customer", "text"],
].map(([name, description, ...fields]) => ({
  name,
  description,
  inputSchema: {
    type: "object",
    properties: Object.fromEntries(fields.map((field) => [field, { type: "string" }])),
    required: fields,
  },
}));

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return; // a notification
  const serverInfo = { name: "shop", version: "1.0.0" };
  const results = {
    initialize: { protocolVersion: params?.protocolVersion, capabilities: { tools: {} }, serverInfo },
    "tools/list": { tools },
  };
  const answer = method in results ? { result: results[method] } : { error: { code: -32601, message: "Method not found" } };
  process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, ...answer }) + "\n");
});
