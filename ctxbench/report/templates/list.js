// The list of queries: filters, search, order, and only as many rows as are seen.

const ROW = 58; // height of a row, as in the style sheet
const FILTERS = [
  ["all", "all"],
  ["missed", "missed something"],
  ["false", "falsely included"],
  ["forbidden", "forbidden offered"],
  ["error", "errors"],
  ["differs", "differs"],
];
const ORDERS = [
  ["file", "order of the dataset"],
  ["rank", "required item furthest down"],
  ["tokens", "most prompt tokens"],
  ["items", "most items"],
];

/** Whether a query passes a filter. */
function passes(view, filter, query) {
  const outcome = outcomeOf(view.data, view.selector, query);
  if (filter === "all") return true;
  if (filter === "forbidden") return at(view.selector.forbidden, query) > 0;
  if (filter === "differs") return Boolean(view.beside) && outcomeOf(view.data, view.beside, query) !== outcome;
  return outcome === filter;
}

function countsOf(view) {
  const counts = Object.fromEntries(FILTERS.map(([name]) => [name, 0]));
  for (let query = 0; query < view.data.size; query++) {
    for (const [name] of FILTERS) if (passes(view, name, query)) counts[name]++;
  }
  return counts;
}

/** The queries that are listed, in order. */
function listedQueries(view) {
  const words = view.search.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = [];
  for (let query = 0; query < view.data.size; query++) {
    if (!passes(view, view.filter, query)) continue;
    const text = view.data.searched[query];
    if (words.every((word) => text.includes(word))) matches.push(query);
  }
  const keys = {
    rank: (query) => neededRank(view.data, view.selector, query),
    tokens: (query) => at(view.selector.tokens, query),
    items: (query) => at(view.selector.items, query),
  };
  if (keys[view.order]) {
    const key = new Map(matches.map((query) => [query, keys[view.order](query)]));
    matches.sort((a, b) => (key.get(a) === key.get(b) ? a - b : key.get(b) > key.get(a) ? 1 : -1));
  }
  return matches;
}

/** A list that draws the rows in its window and moves with the arrow keys. */
class QueryList {
  constructor(onOpen) {
    this.onOpen = onOpen;
    this.rows = make("div", { class: "rows" });
    this.element = make("div", { class: "query-list", role: "list", "aria-label": "Queries", tabindex: "-1" }, this.rows);
    this.element.addEventListener("scroll", () => this.draw(), { passive: true });
    this.element.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.element);
    this.queries = [];
    this.active = 0;
  }

  show(view, current) {
    this.view = view;
    this.queries = listedQueries(view);
    this.current = current;
    this.active = Math.max(this.queries.indexOf(current), 0);
    this.rows.style.height = this.queries.length * ROW + "px";
    this.drawn = "";
    this.reveal();
    this.draw();
  }

  mark(current) {
    this.current = current;
    const position = this.queries.indexOf(current);
    if (position >= 0) this.active = position;
    this.drawn = "";
    this.reveal();
    this.draw();
  }

  reveal() {
    const top = this.active * ROW, height = this.element.clientHeight;
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    else if (height && top + ROW > this.element.scrollTop + height) this.element.scrollTop = top + ROW - height;
  }

  draw() {
    const first = Math.max(Math.floor(this.element.scrollTop / ROW) - 4, 0);
    const last = Math.min(first + Math.ceil((this.element.clientHeight || 600) / ROW) + 9, this.queries.length);
    const drawn = first + " " + last;
    if (drawn === this.drawn) return;
    const focused = this.element.contains(document.activeElement);
    this.drawn = drawn;
    const rows = [];
    for (let position = first; position < last; position++) rows.push(this.row(position));
    if (!this.queries.length) rows.push(make("p", { class: "none" }, "No query passes these filters."));
    this.rows.replaceChildren(...rows);
    if (focused) this.focus();
  }

  row(position) {
    const query = this.queries[position];
    const { data, selector } = this.view;
    const outcome = outcomeOf(data, selector, query);
    const rank = neededRank(data, selector, query);
    const parts = [plural(at(selector.items, query), "item"), plural(at(selector.tokens, query), "token")];
    if (selector.ranked && rank !== 0) parts.unshift(Number.isFinite(rank) ? "rank " + rank : "not ranked");
    parts.push(data.queries.id[query]);
    const link = make(
      "a",
      {
        class: "query-row",
        href: hashOf(data.name, selector.name, data.queries.id[query]),
        tabindex: position === this.active ? 0 : -1,
        "aria-current": query === this.current ? "true" : null,
        "data-place": position,
        onclick: () => { this.active = position; },
      },
      make("span", { class: "outcome " + outcome }, OUTCOMES[outcome]),
      make("span", { class: "text", dir: "auto" }, data.queries.text[query].slice(0, 300) || "(no text)"),
      make("span", { class: "meta" }, parts.join(" \u00b7 ")),
    );
    const row = make("div", { role: "listitem", class: "slot", "aria-posinset": position + 1, "aria-setsize": this.queries.length }, link);
    row.style.top = position * ROW + "px";
    return row;
  }

  key(event) {
    const page = Math.max(Math.floor(this.element.clientHeight / ROW) - 1, 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (!(event.key in steps) || !this.queries.length) return;
    event.preventDefault();
    this.active = Math.min(Math.max(this.active + steps[event.key], 0), this.queries.length - 1);
    this.drawn = "";
    this.reveal();
    this.draw();
    this.focus();
  }

  focus() {
    const link = this.rows.querySelector('[data-place="' + this.active + '"]');
    if (link) link.focus({ preventScroll: true });
  }

  /** The query before or after the one that is open, among those listed; undefined at the ends. */
  beside(current, step) {
    const position = this.queries.indexOf(current);
    return position < 0 ? undefined : this.queries[position + step];
  }
}
