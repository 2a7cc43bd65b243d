"use strict";
const facts = JSON.parse(document.getElementById("facts").textContent);
const T = facts.texts, LETTER = { t: "yes", f: "no", u: "?", "-": "" };

/* Elements are only ever made here, and text only ever set as text. */
function el(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  for (const child of children.flat(Infinity)) if (child !== null) made.append(child);
  return made;
}
const worst = row => Math.min(...row.v.map(v => ORDER.indexOf(v)));
const ORDER = Object.keys(facts.verdicts);
const glyph = verdict => (facts.verdicts[verdict] || ["✗"])[0];
const short = target => target.replace("sm_", "");

/* -- controls ---------------------------------------------------------------------------------- */
const select = (name, label, options) => el("label", {}, label, el("select", { name },
  options.map(([value, text]) => el("option", { value }, text))));
const count = (words) => { const n = {}; for (const w of words) n[w] = (n[w] || 0) + 1; return n; };
const areas = count(facts.rows.map(row => T[row.a]));
const verdicts = count(facts.rows.flatMap(row => [...new Set(row.v)]));
const form = el("form", { role: "search" },
  el("label", {}, "text ( / )", el("input", { name: "q", type: "search", placeholder: "path, symbol, condition, flag …" })),
  select("v", "verdict", [["", "all that differ"], ["*", "all, also the same"],
    ...ORDER.filter(v => verdicts[v]).map(v => [v, `${v} (${verdicts[v]})`])]),
  select("t", "on", [["", "any target"], ...facts.shown.map(t => [t, t])]),
  select("a", "area", [["", "all"], ...Object.keys(areas).sort().map(a => [a, `${a} (${areas[a]})`])]),
  select("k", "asks for", [["", "the GPU"], ["all", "the GPU or the vendor"]]),
  el("output", { id: "left", "aria-live": "polite" }));
const legend = el("p", { class: "legend" }, ORDER.filter(v => verdicts[v]).map(v => [
  el("b", { class: `v-${v}` }, glyph(v)), ` ${v}: ${facts.verdicts[v][1]} · `]));

/* -- the table --------------------------------------------------------------------------------- */
const SORTS = { verdict: row => worst(row), symbol: row => T[row.s], area: row => T[row.a], place: row => `${T[row.p]}:${String(row.l).padStart(7, "0")}` };
const heads = [["area", "area"], ["place", "place"], ["verdict", "verdict"], ["symbol", "what it asks"]];
const header = el("tr", {}, heads.map(([sort, text]) => el("th", { scope: "col", "data-sort": sort }, el("button", { type: "button" }, text))),
  facts.shown.map((t, i) => el("th", { scope: "col", class: "cell", "data-sort": `t${i}` }, el("button", { type: "button", title: t }, short(t)))));
facts.shown.forEach((t, i) => { SORTS[`t${i}`] = row => ORDER.indexOf(row.v[i]); });
const table = el("table", { class: "gates" }, el("colgroup", {}, el("col", { class: "area" }), el("col", { class: "place" }), el("col", { class: "word" }), el("col"),
  facts.shown.map(() => el("col", { class: "cell" }))), el("thead", {}, header));
const body = el("tbody");
table.append(body);

facts.rows.forEach((row, number) => {
  row.number = number;
  const said = row.m === undefined ? "" : T[row.m], asked = row.c === undefined ? "" : T[row.c];
  row.text = [T[row.p], T[row.s], said, asked, row.id || "", row.q === undefined ? "" : T[row.q],
    ...(row.n || []).map(n => T[n]), ...(row.u || []).map(n => T[n])].join("\n").toLowerCase();
});
/* A row's elements are made when it is first shown: thousands of them at once take seconds to lay out. */
function drawn(row) {
  if (row.tr) return row.tr;
  const said = row.m === undefined ? T[row.c] : T[row.m];
  row.opener = el("button", { type: "button", class: "open", "aria-expanded": "false" }, T[row.s] || "(module)");
  row.opener.addEventListener("click", () => toggle(row));
  const place = `${T[row.p]}:${row.l}`;
  row.tr = el("tr", { id: `g-${row.id || "f" + row.number}` },
    el("td", {}, T[row.a]),
    el("td", {}, el("code", { title: place }, place.replace(/^.*\/(?=[^/]+\/[^/]+$)/, "…/"))),
    el("td", { class: `word v-${ORDER[worst(row)]}` }, ORDER[worst(row)]),
    el("td", { class: "what-cell" }, row.opener, el("div", { class: "what" }, said)),
    row.v.map((v, i) => el("td", { class: `cell v-${v}`, title: v, "data-target": short(facts.shown[i]) }, glyph(v))));
  return row.tr;
}
/* The rows that fit, in order; the first ``made`` of them are in the table, more come when its end is near. */
const PART = 60;
let fitting = [], made = 0;
function more(until = made + PART) {
  const next = fitting.slice(made, until).map(drawn);
  made += next.length;
  body.append(...next);
  end.hidden = made >= fitting.length;
}
function fill() { body.replaceChildren(); made = 0; more(PART); }
const end = el("p", {}, el("button", { type: "button" }, "more"));
end.firstChild.addEventListener("click", () => more());
new IntersectionObserver(seen => { if (seen.some(one => one.isIntersecting)) more(); }, { rootMargin: "600px" }).observe(end);
addEventListener("beforeprint", () => more(fitting.length));

/* -- one gate ---------------------------------------------------------------------------------- */
const groups = values => { const by = {}; facts.targets.forEach((t, i) => { const v = values[i]; if (v) (by[v] = by[v] || []).push(short(t)); });
  const own = Object.entries(by).every(([v, names]) => names.length === 1 && names[0] === v);
  return own ? "the target's own number" : Object.entries(by).map(([v, names]) => `${v}: ${names.join(" ")}`).join(" · "); };
function node(name, seen) {
  const known = facts.predicates[name], item = el("li", {});
  const box = el("span", { class: known ? "node" : "node root" }, el("code", {}, name));
  item.append(box);
  if (!known) return item;
  const [path, line, values, via, roots] = known;
  box.append(el("span", { class: "values" }, `${T[path]}:${line} — ${groups(values.map(v => T[v]))}`));
  if (seen.has(name)) { box.append(el("span", { class: "values" }, "as above")); return item; }
  seen.add(name);
  const below = [...via, ...(via.length ? [] : roots)].map(n => T[n]);
  if (below.length) item.append(el("ul", {}, below.map(n => node(n, seen))));
  return item;
}
function details(row) {
  const out = el("div", { class: "detail" });
  const add = (title, ...content) => out.append(el("h3", {}, title), ...content);
  if (row.m !== undefined && row.c !== undefined) add("condition", el("code", {}, T[row.c]));
  if (row.d) add("details", el("ul", {}, row.d.map(n => el("li", {}, T[n]))));
  if (row.x !== undefined) add("fix", el("code", {}, T[row.x]));
  if (row.t) {
    const line = (label, cells) => el("tr", {}, el("th", { scope: "row" }, label), cells.map(c => el("td", {}, c)));
    add("per target", el("div", { class: "scroll" }, el("table", {}, el("tbody", {}, line("", facts.targets),
      line("value", [...row.t].map(c => LETTER[c])), line("reached", [...row.r].map(c => LETTER[c])),
      line("verdict", facts.targets.map(t => row.v[facts.shown.indexOf(t)] || ""))))));
    const seen = new Set(), names = row.n.map(n => T[n]);
    add("where the value comes from", el("ul", { class: "chain" }, el("li", {}, el("span", { class: "node" }, el("code", {}, T[row.c])),
      el("ul", {}, (names.length ? names : row.o.map(n => T[n])).map(n => node(n, seen))))));
  }
  if (row.w) add("arms", el("ul", {}, row.w.map(([when, from, to, does]) => el("li", {},
    `if ${LETTER[when] === "?" ? "unknown" : LETTER[when]} (${to > from ? `lines ${from}–${to}` : `line ${from}`}): `,
    el("code", {}, does.map(n => T[n]).join("; ") || "nothing of note")))));
  if (row.u) add("unknown because of", el("p", {}, row.u.map(n => T[n]).join(", ")));
  if (row.h) add("history", el("ul", {}, row.h.map(h => el("li", {}, h.map(n => T[n]).filter(Boolean).join("  ")))));
  if (row.q !== undefined) add("query", el("code", {}, T[row.q]));
  if (row.id) add("on the command line", el("code", {}, facts.where.replace("GATE", row.id)));
  return out;
}
function toggle(row, open) {
  const is = row.opener.getAttribute("aria-expanded") === "true";
  const will = open === undefined ? !is : open;
  if (will === is) return;
  row.opener.setAttribute("aria-expanded", String(will));
  row.tr.dataset.open = will ? "yes" : "no";
  const place = row.tr.querySelector(".what-cell");
  if (will) place.append(details(row)); else place.querySelector(".detail").remove();
  state.g = will ? (row.id || "f" + row.number) : "";
  keep();
}

/* -- filter, sort, deep links ------------------------------------------------------------------ */
const state = { sort: "verdict", g: "" };
const fields = ["q", "v", "t", "a", "k"];
function keep() {
  const words = new URLSearchParams();
  for (const name of fields) if (form.elements[name].value) words.set(name, form.elements[name].value);
  if (state.sort !== "verdict") words.set("s", state.sort);
  if (state.g) words.set("g", state.g);
  const text = words.toString();
  history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
}
function show() {
  const text = form.elements.q.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const verdict = form.elements.v.value, area = form.elements.a.value, all = form.elements.k.value === "all";
  const on = facts.shown.indexOf(form.elements.t.value);
  fitting = ordered.filter(row => {
    const ways = on < 0 ? row.v : [row.v[on]];
    return (all || !row.k) && (!area || T[row.a] === area)
      && (verdict === "*" || (verdict ? ways.includes(verdict) : ways.some(v => v !== "same")))
      && text.every(word => row.text.includes(word));
  });
  fill();
  document.getElementById("left").textContent = `${fitting.length} of ${facts.rows.length}`;
}
let ordered = facts.rows;
function sort(name) {
  const down = name.startsWith("-"), key = SORTS[down ? name.slice(1) : name] || SORTS.verdict;
  state.sort = name;
  const compare = (a, b) => { const x = key(a), y = key(b); return (x < y ? -1 : x > y ? 1 : a.number - b.number) * (down ? -1 : 1); };
  ordered = [...facts.rows].sort(compare);
  for (const head of header.children) head.setAttribute("aria-sort", head.dataset.sort === name.replace(/^-/, "") ? (down ? "descending" : "ascending") : "none");
}
function restore() {
  const words = new URLSearchParams(location.hash.slice(1));
  for (const name of fields) { form.elements[name].value = words.get(name) || ""; if (form.elements[name].selectedIndex === -1) form.elements[name].value = ""; }
  sort(words.get("s") || "verdict");
  const wanted = words.get("g"), row = wanted && facts.rows.find(r => (r.id || "f" + r.number) === wanted);
  show();
  if (row) {
    if (!fitting.includes(row)) fitting.unshift(row); // a link shows its gate whatever the filter says
    fill();
    more(Math.max(made, fitting.indexOf(row) + 1));
    toggle(row, true); row.tr.scrollIntoView({ block: "center" }); row.opener.focus({ preventScroll: true });
  }
}
form.addEventListener("input", () => { show(); keep(); });
form.addEventListener("submit", event => event.preventDefault());
header.addEventListener("click", event => {
  const head = event.target.closest("th");
  if (head) { sort(state.sort === head.dataset.sort ? `-${head.dataset.sort}` : head.dataset.sort); show(); keep(); }
});
addEventListener("hashchange", restore);
addEventListener("keydown", event => {
  if (event.key === "/" && !/^(INPUT|SELECT)$/.test(document.activeElement.tagName)) { event.preventDefault(); form.elements.q.focus(); }
  if (event.key === "Escape" && document.activeElement === form.elements.q) { form.elements.q.value = ""; show(); keep(); }
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  const at = document.activeElement.closest && document.activeElement.closest("table.gates > tbody > tr");
  if (!at || !document.activeElement.classList.contains("open")) return;
  const step = event.key === "ArrowDown" ? "nextElementSibling" : "previousElementSibling";
  if (step === "nextElementSibling" && !at[step]) more();
  const next = at[step];
  if (next) { event.preventDefault(); next.querySelector("button.open").focus(); }
});
document.getElementById("main").append(form, legend, table, end);
restore();
