// Reads the data of the page. A column is a list, or {all: value} where every row has the same value.

const settings = JSON.parse(document.getElementById("settings").textContent);
const loaded = new Map();

function at(column, row) {
  return Array.isArray(column) ? column[row] : column.all;
}

/** The data of a dataset, parsed when it is first looked at. */
function datasetOf(name) {
  if (!loaded.has(name)) {
    const number = settings.datasets.indexOf(name);
    const data = JSON.parse(document.getElementById("dataset-" + number).textContent);
    data.size = data.queries.id.length;
    if (data.items.position) data.items.row = new Map(data.items.position.map((position, row) => [position, row]));
    for (const selector of data.selectors) {
      selector.start = [0];
      for (const rows of selector.rows) selector.start.push(selector.start[selector.start.length - 1] + rows);
    }
    data.searched = data.queries.text.map((text, i) => (data.queries.id[i] + "\n" + text).toLowerCase());
    loaded.set(name, data);
  }
  return loaded.get(name);
}

function selectorOf(data, name) {
  return data.selectors.find((selector) => selector.name === name);
}

/** An item by its position in the catalog; of a large catalog the page has only the items that it names. */
function itemOf(data, position) {
  const items = data.items;
  const row = items.row ? items.row.get(position) : position;
  const name = items.name[row];
  return {
    position,
    type: at(items.type, row),
    server: at(items.server, row),
    name,
    title: at(items.title, row) || name,
    description: at(items.description, row),
    priority: at(items.priority, row),
    tokens: at(items.tokens, row),
  };
}

/** The chunks of an item as a selector split it; an item without chunks of its own is one chunk. */
function itemChunks(data, split, position) {
  const chunks = data.splits[split][position];
  if (chunks) return chunks;
  const { name, description } = itemOf(data, position);
  return [description ? name + ": " + description : name];
}

function queryChunks(data, selector, query) {
  const chunks = data.chunkings[selector.chunking][query];
  return chunks === 0 ? [data.queries.text[query]] : chunks;
}

/** The rows that the page holds of one answer: chosen first, then what stayed out; absent rows have no rank. */
function rowsOf(selector, query) {
  const rows = [];
  for (let row = selector.start[query]; row < selector.start[query + 1]; row++) {
    rows.push({
      item: selector.item[row],
      score: at(selector.score, row),
      rank: at(selector.rank, row),
      rule: selector.rules[at(selector.out, row)],
      mode: MODES[at(selector.mode, row)],
      queryChunk: at(selector.query_chunk, row),
      itemChunk: at(selector.item_chunk, row),
      split: at(selector.split, row),
      from: at(selector.from, row),
      to: at(selector.to, row),
      price: at(selector.price, row),
      enough: at(selector.enough, row) === 1,
      via: at(selector.via, row),
    });
  }
  return rows;
}

const MODES = ["always", "manual", "agent", "expansion", "explicit"];

/** What stood in the prompt of one query, as rows; the whole catalog where the answer was all of it. */
function chosenOf(data, selector, query, rows) {
  const chosen = rows.filter((row) => row.rule === "");
  if (!at(selector.whole, query)) return chosen;
  const listed = new Set(chosen.map((row) => row.item));
  for (let position = 0; position < data.items.count; position++) {
    if (!listed.has(position) && at(data.items.found, position)) {
      chosen.push({ item: position, score: null, rank: 0, rule: "", mode: "agent", queryChunk: -1, itemChunk: -1, split: 0, via: -1, enough: true });
    }
  }
  return chosen;
}

/** One word for how an answer came out. */
function outcomeOf(data, selector, query) {
  if (selector.errors[query] !== undefined) return "error";
  if (at(data.queries.partly, query)) return "partly";
  if (data.queries.needs[query].length) return at(selector.missed, query) ? "missed" : "complete";
  return at(selector.false, query) ? "false" : "empty";
}

const OUTCOMES = {
  complete: "complete",
  missed: "missed",
  empty: "rightly without",
  false: "falsely included",
  partly: "not labelled in full",
  error: "error",
};

/** Place of the last required item in the ranking: Infinity where one has none, 0 where nothing is needed. */
function neededRank(data, selector, query) {
  let worst = 0;
  const rows = rowsOf(selector, query);
  for (const alternatives of data.queries.needs[query]) {
    let best = Infinity;
    for (const row of rows) {
      if (!alternatives.includes(row.item)) continue;
      best = Math.min(best, row.rank || (row.rule === "" ? 0 : Infinity));
    }
    worst = Math.max(worst, best);
  }
  return worst;
}

// ---------------------------------------------------------------------------------------------- elements

/** Makes an element. Texts are only ever set as text, never as markup. */
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const integers = new Intl.NumberFormat("en");

function plural(n, singular, several) {
  return integers.format(n) + " " + (n === 1 ? singular : several || singular + "s");
}

function scoreText(score, digits) {
  if (score === null) return "";
  return score.toFixed(digits).replace("-", "\u2212");
}
