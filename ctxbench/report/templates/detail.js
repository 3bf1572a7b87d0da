// One query: what it needed, what was offered and why, and the request context in three columns.

const LISTED = 60; // items that a column shows at first

function detailOf(view, query) {
  const { data, selector } = view;
  const rows = rowsOf(selector, query);
  const chosen = chosenOf(data, selector, query, rows);
  const error = selector.errors[query];
  return make(
    "div",
    { class: "detail-body" },
    requestPart(data, selector, query),
    error === undefined ? null : make("p", { class: "failure", role: "note" }, make("strong", {}, "The selector failed: "), make("span", { dir: "auto" }, error)),
    neededPart(data, query, rows, chosen),
    offeredPart(data, selector, query, rows, chosen),
    contextPart(data, selector, query, chosen),
  );
}

function requestPart(data, selector, query) {
  const queries = data.queries;
  const facts = [queries.id[query], at(queries.split, query), ...at(queries.tags, query)];
  const available = at(queries.available, query);
  if (available !== null) facts.push(plural(available, "item") + " available");
  facts.push(...(queries.asked[query] || []));
  const chunks = queryChunks(data, selector, query);
  const history = queries.history[query] || [];
  return make(
    "div",
    { class: "request" },
    make("p", { class: "facts-line" }, facts.join(" \u00b7 ")),
    make("blockquote", { dir: "auto" }, queries.text[query] || "(no text)"),
    history.length
      ? make(
          "details",
          {},
          make("summary", {}, plural(history.length, "earlier message")),
          ...history.map(([role, content]) => make("p", { class: "message" }, make("strong", {}, role + ": "), make("bdi", {}, content))),
        )
      : null,
    chunks.length === 1 && chunks[0] === queries.text[query].trim()
      ? null
      : make(
          "details",
          {},
          make("summary", {}, chunks.length ? "Cut into " + plural(chunks.length, "chunk") : "No chunk: nothing was searched for"),
          make("ol", { class: "chunks" }, ...chunks.map((chunk) => make("li", { dir: "auto" }, chunk))),
        ),
  );
}

function neededPart(data, query, rows, chosen) {
  const needs = data.queries.needs[query];
  const helpful = data.queries.helpful[query] || [];
  const offeredRows = new Map(chosen.filter((row) => row.enough).map((row) => [row.item, row]));
  const allRows = new Map(rows.map((row) => [row.item, row]));
  const entries = needs.map((alternatives) => requirement(data, alternatives, offeredRows, allRows, "required"));
  for (const item of helpful) entries.push(requirement(data, [item], offeredRows, allRows, "helpful"));
  const nothing = entries.length ? "No item is required." : "Nothing: any item offered is falsely included.";
  for (const item of data.queries.forbidden[query] || []) entries.push(requirement(data, [item], offeredRows, allRows, "forbidden"));
  return make(
    "section",
    { class: "needed" },
    make("h4", {}, "What it needed"),
    entries.length ? make("ul", {}, ...entries) : null,
    at(data.queries.partly, query)
      ? make("p", { class: "quiet" }, "Not all that it needs is known.")
      : needs.length ? null : make("p", { class: "quiet" }, nothing),
  );
}

function requirement(data, alternatives, offeredRows, allRows, grade) {
  const met = alternatives.some((item) => offeredRows.has(item));
  const state = grade === "required" ? (met ? "met" : "missed") : met ? "offered" : "not offered";
  const lines = alternatives.map((position, i) => {
    const row = offeredRows.get(position) || allRows.get(position);
    const facts = row ? factsOf(row) : [];
    return make(
      "div",
      { class: "alternative" },
      i ? make("span", { class: "or" }, "or ") : null,
      nameOf(itemOf(data, position)),
      facts.length ? make("span", { class: "facts" }, " " + facts.join(", ")) : null,
      offeredRows.has(position) || !row ? null : make("p", { class: "why" }, row.rule ? "Stayed out: " + row.rule + "." : "Only a part of it is shown, without what the query needs."),
    );
  });
  return make("li", { class: "requirement " + (met ? "met" : "missed") + " " + grade }, make("span", { class: "state" }, state), make("div", {}, ...lines), grade === "required" ? null : make("span", { class: "tag" }, grade));
}

function factsOf(row) {
  const facts = [];
  if (row.rank) facts.push("rank " + row.rank);
  if (row.score !== null) facts.push("score " + scoreText(row.score, 4));
  return facts;
}

/** Server, name, and the type of what is no tool; isolated, so that no text can turn its surroundings around. */
function nameOf(item) {
  return make(
    "span",
    { class: "item-name", title: item.description },
    item.type === "tool" ? null : make("span", { class: "type" }, item.type + " "),
    item.server ? make("bdi", { class: "server" }, item.server + ".") : null,
    make("bdi", { class: "name" }, ...breakable(item.title)),
  );
}

/** A name that may break after its separators; the text stays what it is. */
function breakable(name) {
  return name.split(/(?<=[._/:-])/).flatMap((part, i) => (i ? [document.createElement("wbr"), part] : [part]));
}

// ---------------------------------------------------------------------------------------------- offered

function offeredPart(data, selector, query, rows, chosen) {
  const grades = new Map();
  for (const item of data.queries.helpful[query] || []) grades.set(item, "helpful");
  for (const item of data.queries.forbidden[query] || []) grades.set(item, "forbidden");
  for (const alternatives of data.queries.needs[query]) for (const item of alternatives) grades.set(item, "required");
  const n = at(selector.items, query);
  const added = chosen.filter((row) => !["always", "manual"].includes(row.mode));
  const out = rows.filter((row) => row.rule !== "");
  const parts = [
    make("h4", {}, "What was offered"),
    make("p", { class: "sum" }, n ? plural(n, "item") + ", " + plural(at(selector.tokens, query), "prompt token") : "Nothing was added to the session's items."),
  ];
  for (const note of selector.trace[query] || []) parts.push(make("p", { class: "quiet" }, note));
  if (at(selector.whole, query)) {
    parts.push(make("p", { class: "quiet" }, "Everything in the catalog was offered; the columns below list it."));
  } else if (chosen.length) {
    parts.push(rowTable(data, selector, query, chosen, grades, "Offered"));
    if (n > added.length) parts.push(make("p", { class: "quiet" }, "and " + plural(n - added.length, "item") + " more, listed in the run folder (selections.jsonl)"));
  }
  if (out.length) {
    parts.push(make("h5", {}, "What stayed out: the nearest, and what is labelled"));
    parts.push(rowTable(data, selector, query, out, grades, "Stayed out"));
  }
  return make("section", { class: "offered" }, ...parts);
}

function rowTable(data, selector, query, rows, grades, label) {
  const scored = rows.some((row) => row.score !== null);
  const ranked = selector.ranked && rows.some((row) => row.rank);
  const head = make("tr", {}, ranked ? make("th", { scope: "col", class: "num" }, "rank") : null, make("th", { scope: "col" }, "item"), scored ? make("th", { scope: "col" }, "score") : null, make("th", { scope: "col", class: "num" }, "tokens"));
  const body = [];
  let rule = "";
  for (const row of rows) {
    if (row.rule !== rule) body.push(make("tr", { class: "rule" }, make("td", { colspan: 2 + ranked + scored }, row.rule)));
    rule = row.rule;
    body.push(rowOf(data, selector, query, row, grades.get(row.item), { ranked, scored }));
  }
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, make("table", { class: "items" }, make("thead", {}, head), make("tbody", {}, ...body)));
}

function rowOf(data, selector, query, row, grade, columns) {
  const item = itemOf(data, row.item);
  const about = make(
    "td",
    { class: "about" },
    make("div", { class: "item-head" }, nameOf(item), grade ? make("span", { class: "tag " + grade }, grade) : null, row.mode === "agent" ? null : badge(row.mode)),
    row.via >= 0 ? make("div", { class: "quiet" }, "led to by ", nameOf(itemOf(data, row.via))) : null,
    row.to >= 0 ? make("div", { class: "quiet" }, "shown in part: characters " + integers.format(row.from + 1) + " to " + integers.format(row.to) + (row.enough ? "" : ", without what the query needs")) : null,
    pairOf(data, selector, query, row),
  );
  return make(
    "tr",
    { class: grade || null },
    columns.ranked ? make("td", { class: "num rank" }, row.rank || "") : null,
    about,
    columns.scored ? make("td", { class: "score" }, row.score === null ? "" : scoreBar(selector, row.score)) : null,
    make("td", { class: "num" }, integers.format(row.price >= 0 ? row.price : item.tokens)),
  );
}

/** The score in figures; beside a threshold also as a bar, since only then is it known to lie between 0 and 1. */
function scoreBar(selector, score) {
  const text = make("span", { class: "num" }, scoreText(score, 4));
  const threshold = settings.thresholds[selector.name];
  if (threshold === undefined || !(score >= 0 && score <= 1)) return text;
  const bar = make("span", { class: "bar", "aria-hidden": "true" }, make("i", {}));
  bar.firstChild.style.width = 100 * score + "%";
  const mark = make("b", { title: "threshold " + threshold });
  mark.style.left = 100 * threshold + "%";
  bar.append(mark);
  return make("span", { class: "score-bar" }, text, bar);
}

/** The item's description, and behind it the pair of chunks that gave it its score, where one did. */
function pairOf(data, selector, query, row) {
  const { description } = itemOf(data, row.item);
  const led = row.via >= 0;
  const asking = led ? itemChunks(data, row.split, row.via) : queryChunks(data, selector, query);
  const chunks = itemChunks(data, row.split, row.item);
  const queryChunk = row.itemChunk < 0 || row.queryChunk < 0 ? undefined : asking[row.queryChunk];
  const source = led ? itemOf(data, row.via).title + ", which led here: " : "the request: ";
  if (!description && queryChunk === undefined) return null;
  return make(
    "details",
    { class: "pair" },
    make("summary", { dir: "auto" }, description || "the pair of chunks that gave the score"),
    queryChunk === undefined ? null : make("p", {}, make("span", { class: "quiet" }, "Scored by chunk " + (row.queryChunk + 1) + " of " + asking.length + " of " + source), make("bdi", {}, queryChunk)),
    queryChunk === undefined ? null : make("p", {}, make("span", { class: "quiet" }, "with chunk " + (row.itemChunk + 1) + " of " + chunks.length + " of the item: "), make("bdi", {}, chunks[row.itemChunk] || "")),
  );
}

// ---------------------------------------------------------------------------------------------- context

const collator = new Intl.Collator("en", { numeric: true });

function byPriority(a, b) {
  const left = a.item.priority === null ? Infinity : a.item.priority;
  const right = b.item.priority === null ? Infinity : b.item.priority;
  return left === right ? collator.compare(a.item.title, b.item.title) : left - right;
}

function byServer(a, b) {
  return collator.compare(a.item.server || "", b.item.server || "") || collator.compare(a.item.title, b.item.title);
}

/** The request context: rules, references and tools, each in its order; other types follow where there are any. */
function contextPart(data, selector, query, chosen) {
  const entries = chosen.map((row) => ({ row, item: itemOf(data, row.item) }));
  const of = (type) => entries.filter((entry) => entry.item.type === type);
  const rest = entries.filter((entry) => !["rule", "reference", "tool"].includes(entry.item.type));
  const columns = [
    ["Rules", of("rule").sort(byPriority), "No rules."],
    ["References", of("reference").sort(byPriority), "No references."],
    ["Tools", of("tool").sort(byServer), "No tools."],
  ];
  if (rest.length) columns.push(["Others", rest.sort(byPriority), ""]);
  const panes = make("div", { class: "columns" }, ...columns.map(([title, list, none]) => contextColumn(title, list, none)));
  panes.style.gridTemplateColumns = columns.map(([, list]) => (list.length ? "minmax(10rem, 2fr)" : "minmax(6.5rem, 1fr)")).join(" ");
  return make(
    "section",
    { class: "context", "aria-label": "Request context" },
    make("h4", {}, "Request context"),
    entries.length ? null : make("p", { class: "empty-context" }, "The request context is empty: the model is offered no item."),
    panes,
  );
}

function contextColumn(title, list, none) {
  const column = make(
    "div",
    { class: "column", "data-column": title.toLowerCase() },
    make("h5", {}, title, " ", make("span", { class: "count" }, integers.format(list.length))),
  );
  if (!list.length) column.append(make("p", { class: "quiet empty" }, none));
  else column.append(make("ul", {}, ...list.slice(0, LISTED).map(contextItem)));
  if (list.length > LISTED) {
    const button = make("button", { type: "button", onclick: () => {
      column.querySelector("ul").append(...list.slice(LISTED).map(contextItem));
      button.remove();
    } }, "Show all " + integers.format(list.length));
    column.append(button);
  }
  return column;
}

function contextItem({ row, item }) {
  const lead = item.type === "tool"
    ? item.server ? make("bdi", { class: "server" }, item.server + ".") : null
    : item.priority === null ? null : make("span", { class: "priority" }, String(item.priority).padStart(3, "0"));
  return make(
    "li",
    { class: "context-item" },
    make("div", { class: "item-head" }, lead, make("bdi", { class: "name", title: item.description }, ...breakable(item.title)), badge(row.mode), ["always", "manual"].includes(row.mode) || row.score === null ? null : make("span", { class: "badge score" }, scoreText(row.score, 2))),
    item.description ? make("p", { class: "description", dir: "auto" }, item.description) : null,
  );
}

function badge(mode) {
  return make("span", { class: "badge " + mode }, mode[0].toUpperCase() + mode.slice(1));
}
