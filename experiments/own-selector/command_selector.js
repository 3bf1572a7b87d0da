// A selector as a command in JavaScript (Node, no packages): reads requests from standard input, writes answers to
// standard output, one JSON object a line. Anything else that it prints must go to standard error (console.error).
"use strict";

const readline = require("node:readline");

const MOST = 3;
let items = [];

/** The words of a text of more than three letters, in lower case. */
function words(text) {
  return new Set((text.toLowerCase().match(/[a-z]+/g) ?? []).filter((word) => word.length > 3));
}

/** Rank items by how many words of the request they share, and choose the best. */
function select(request) {
  const asked = [...words(request.text)];
  const available = request.available && new Set(request.available);
  const ranking = items
    .filter((item) => !available || available.has(item._id))
    .filter((item) => (item.include ?? "agent") === "agent") // the others are in the session, or put there by hand
    .map((item) => {
      const own = words([item.name, item.description ?? "", item.text].join(" "));
      return { id: item._id, score: asked.filter((word) => own.has(word)).length };
    })
    .filter((row) => row.score > 0)
    .sort((a, b) => b.score - a.score);
  const best = ranking.filter((row) => row.score === ranking[0].score);
  return { items: best.slice(0, MOST), ranking };
}

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const message = JSON.parse(line);
  if (message.query === undefined) {
    items = message.items; // the catalog, sent before the first request over it
    return;
  }
  let answer;
  try {
    answer = select(message.request);
  } catch (error) {
    answer = { error: String(error) }; // this query failed; the others go on
  }
  process.stdout.write(JSON.stringify({ query: message.query, ...answer }) + "\n");
});
