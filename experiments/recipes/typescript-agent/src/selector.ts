// Answers ctxbench: requests as JSON lines in, the agent's own selection out (see experiments/own-selector).
import { createInterface } from "node:readline";
import { rank, select, type Item } from "./select.ts";

let items: Item[] = [];
createInterface({ input: process.stdin }).on("line", (line: string) => {
  const message = JSON.parse(line);
  if (message.query === undefined) {
    items = message.items.filter((item: Item) => (item.include ?? "agent") === "agent"); // the catalog comes first
    return;
  }
  const { text } = message.request;
  const answer = { query: message.query, items: select(text, items), ranking: rank(text, items) };
  process.stdout.write(JSON.stringify(answer) + "\n");
});
