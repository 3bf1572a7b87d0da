// The state of the drill-down, its controls, and its address (#dataset/selector/query).

function hashOf(...parts) {
  return "#" + parts.map(encodeURIComponent).join("/");
}

/** Dataset, selector and query of the address, as far as they are known; null for any other address. */
function readHash() {
  const parts = location.hash.slice(1).split("/");
  if (parts.length < 2) return null;
  let names;
  try {
    names = parts.map(decodeURIComponent);
  } catch {
    return null;
  }
  if (!settings.datasets.includes(names[0])) return null;
  const data = datasetOf(names[0]);
  const selector = selectorOf(data, names[1]);
  const id = names.length > 2 && names[2] !== "" ? names[2] : null;
  const query = id === null ? -1 : data.queries.id.indexOf(id);
  return selector ? { data, selector, query, unknown: query < 0 ? id : null } : null;
}

const root = document.getElementById("drill");
const view = { data: null, selector: null, beside: null, filter: "all", order: "file", search: "", query: -1, unknown: null };
const list = new QueryList();
const detail = make("div", { class: "detail", tabindex: "-1", role: "region", "aria-label": "The query" });
const controls = {
  dataset: make("select", { id: "choose-dataset", onchange: () => choose(controls.dataset.value, view.selector.name) }),
  selector: make("select", { id: "choose-selector", onchange: () => choose(view.data.name, controls.selector.value) }),
  beside: make("select", { id: "choose-beside", onchange: () => { setBeside(controls.beside.value); refresh(); } }),
  order: make("select", { id: "choose-order", onchange: () => { view.order = controls.order.value; refresh(); } }),
  search: make("input", { id: "search", type: "search", placeholder: "words of the query, or its id", autocomplete: "off", spellcheck: "false", oninput: () => { view.search = controls.search.value; refresh(); } }),
  filters: make("div", { class: "filters", role: "group", "aria-label": "Filter" }),
  count: make("p", { class: "count", role: "status" }),
};

function options(select, names, chosen) {
  select.replaceChildren(...names.map((name) => {
    const [value, label] = Array.isArray(name) ? name : [name, name];
    const option = make("option", { value }, label);
    option.selected = value === chosen;
    return option;
  }));
}

function setBeside(name) {
  view.beside = selectorOf(view.data, name) || null;
}

/** Another dataset or selector; the query stays open where the dataset has it. */
function choose(dataset, selector) {
  const id = view.query >= 0 && view.data ? view.data.queries.id[view.query] : null;
  const data = datasetOf(dataset);
  const chosen = selectorOf(data, selector) || data.selectors[0];
  const stays = id !== null && data.queries.id.includes(id);
  history.replaceState(null, "", stays ? hashOf(dataset, chosen.name, id) : hashOf(dataset, chosen.name));
  follow();
}

/** Takes over what the address says; without one, the first dataset and the selector that all are compared with. */
function follow() {
  root.dataset.address = location.hash; // what is shown, also when the address has just changed and this runs later
  const target = readHash();
  if (!target && view.data) return;
  const data = target ? target.data : datasetOf(settings.datasets[0]);
  const selector = target ? target.selector : selectorOf(data, settings.base) || data.selectors[0];
  const changed = data !== view.data || selector !== view.selector;
  const missed = () => Math.max(data.queries.id.findIndex((id, query) => at(selector.missed, query)), 0);
  const opened = target ? target.query : matchMedia("(max-width: 900px)").matches ? -1 : missed();
  if (changed) {
    const beside = view.beside ? view.beside.name : settings.base;
    Object.assign(view, { data, selector });
    const alternatives = data.selectors.filter((candidate) => candidate !== selector).map((candidate) => candidate.name);
    setBeside(alternatives.includes(beside) ? beside : alternatives.includes(settings.base) ? settings.base : alternatives[0]);
    options(controls.dataset, settings.datasets, data.name);
    options(controls.selector, data.selectors.map((candidate) => candidate.name), selector.name);
    options(controls.beside, alternatives, view.beside ? view.beside.name : "");
  }
  const unknown = target ? target.unknown : null;
  const moved = opened !== view.query || unknown !== view.unknown;
  Object.assign(view, { query: opened, unknown });
  if (changed) refresh();
  else list.mark(view.query);
  if (changed || moved) open(target !== null && opened >= 0);
}

/** Draws filters and list again. */
function refresh() {
  const counts = countsOf(view);
  if (view.filter !== "all" && !counts[view.filter]) view.filter = "all";
  const negatives = Object.keys(view.data.queries.forbidden).length > 0;
  controls.filters.replaceChildren(...FILTERS.filter(([name]) => negatives || name !== "forbidden").map(([name, label]) => make(
    "button",
    {
      type: "button",
      "data-filter": name,
      "aria-pressed": String(view.filter === name),
      disabled: !counts[name],
      onclick: () => { view.filter = name; refresh(); controls.filters.querySelector('[data-filter="' + name + '"]').focus(); },
    },
    label + " ",
    make("span", { class: "count" }, integers.format(counts[name])),
  )));
  list.show(view, view.query);
  controls.count.textContent = integers.format(list.queries.length) + " of " + plural(view.data.size, "query", "queries");
  if (view.query >= 0) steps();
}

/** Draws the query that is open. */
function open(byAddress) {
  if (view.query < 0) {
    const text = view.unknown === null
      ? "Choose a query to see what it needed, what was offered, and why the rest stayed out."
      : "There is no query " + view.unknown + " in " + view.data.name + ".";
    detail.replaceChildren(make("p", { class: "quiet choose" }, text));
    return;
  }
  const bar = make("div", { class: "steps" });
  detail.replaceChildren(bar, detailOf(view, view.query));
  steps();
  detail.scrollTop = 0;
  if (byAddress && matchMedia("(max-width: 900px)").matches) detail.scrollIntoView({ block: "start" });
  else if (byAddress && root.getBoundingClientRect().top > innerHeight) root.scrollIntoView({ block: "start" });
}

/** The links to the queries before and after, and to the list. */
function steps() {
  const bar = detail.querySelector(".steps");
  if (!bar) return;
  const link = (query, label, rel) => query === undefined
    ? make("span", { class: "quiet" }, label)
    : make("a", { href: hashOf(view.data.name, view.selector.name, view.data.queries.id[query]), rel }, label);
  const alternatives = view.data.selectors.map((candidate) => make(
    "a",
    { class: "outcome " + outcomeOf(view.data, candidate, view.query), href: hashOf(view.data.name, candidate.name, view.data.queries.id[view.query]), "aria-current": candidate === view.selector ? "true" : null },
    make("span", { class: "quiet" }, make("bdi", {}, candidate.name), " "),
    OUTCOMES[outcomeOf(view.data, candidate, view.query)],
  ));
  bar.replaceChildren(
    make("nav", { class: "walk", "aria-label": "Neighbouring queries" }, link(list.beside(view.query, -1), "previous", "prev"), link(list.beside(view.query, 1), "next", "next"), make("a", { class: "to-list", href: "#queries" }, "list")),
    make("nav", { class: "others", "aria-label": "The same query by other selectors" }, ...alternatives),
  );
}

function labelled(text, control) {
  return make("label", { for: control.id }, make("span", {}, text), control);
}

function start() {
  options(controls.order, ORDERS, view.order);
  root.append(
    make("div", { class: "choosers" }, labelled("Dataset", controls.dataset), labelled("Selector", controls.selector), labelled("Differs from", controls.beside), labelled("Order", controls.order), labelled("Search", controls.search)),
    controls.filters,
    controls.count,
    make("div", { class: "panes" }, list.element, detail),
  );
  root.hidden = false;
  follow();
  addEventListener("hashchange", follow);
}

if (settings.datasets.length) start();
