/* The page of an audit: a row a finding or gate. */
const ORDER = facts.verdicts.map(([verdict]) => verdict), VERDICT = Object.fromEntries(facts.verdicts.map(([verdict, ...rest]) => [verdict, rest]));
const worst = row => Math.min(...row.v.map(v => ORDER.indexOf(v)));
const glyph = verdict => (VERDICT[verdict] || ["✗"])[0];
const said = row => row.m === undefined ? T[row.c] : T[row.m];
for (const [number, row] of facts.rows.entries()) {
  row.key = row.id || `f${number}`;
  row.text = [T[row.p], T[row.s], row.m === undefined ? "" : T[row.m], row.c === undefined ? "" : T[row.c], row.id || "", row.q === undefined ? "" : T[row.q],
    ...(row.n || []).map(n => T[n]), ...(row.u || []).map(n => T[n])].join("\n").toLowerCase();
}
const areas = count(facts.rows.map(row => T[row.a]));
const gpu = facts.rows.filter(row => !row.k);
const verdicts = count(gpu.flatMap(row => [...new Set(row.v)]));
const differing = gpu.filter(row => row.v.some(v => v !== "same")).length;
function details(row) {
  const out = [], add = (title, ...content) => out.push(el("section", {}, el("h3", {}, title), content));
  add("place", place(T[row.p], row.l, facts.tree));
  if (row.m !== undefined && row.c !== undefined) add("condition", el("code", {}, T[row.c]));
  if (row.d) add("details", el("ul", {}, row.d.map(n => el("li", {}, T[n]))));
  if (row.x !== undefined) add("fix", el("code", {}, T[row.x]));
  if (row.t) add("per target", perTarget(row, [["verdict", t => row.v[facts.shown.indexOf(t)] || ""]]));
  if (row.w) add("what it does", arms(row));
  if (row.t) add("where the value comes from", chain(row));
  if (row.u) add("unknown because of", el("p", {}, row.u.map(n => T[n]).join(", ")));
  if (row.h) add("history", el("ul", { class: "past" }, row.h.map(h => { const w = h.map(n => T[n]); return el("li", {}, el("div", {}, commitWords(w)), el("div", { class: "what" }, w[4])); })));
  else if (row.t && !row.k && facts.from.some(([, empty]) => T[empty])) add("history", el("p", {}, facts.from.map(([, empty]) => T[empty]).filter(Boolean).join("; ")));
  if (row.q !== undefined) add("query", el("code", {}, T[row.q]));
  if (row.id) add("on the command line", command(facts.where.replace("GATE", row.id)));
  return out;
}
listing({
  rows: facts.rows, hint: "path, symbol, condition, flag …", sorted: "verdict", details,
  opener: row => T[row.s] || "(module)",
  above: facts.from.length ? el("p", { class: "source" }, "history from: ", facts.from.map(([words]) => T[words]).join(" · ")) : null,
  chips: { name: "v", label: "verdict", options: [["", `all that differ ${differing.toLocaleString("en")}`],
    ...ORDER.filter(v => verdicts[v]).map(v => [v, `${v} ${verdicts[v].toLocaleString("en")}`, glyph(v), `v-${v}`, VERDICT[v][1]]), ["*", "everything"]] },
  filters: [["t", "on", [["", "any target"], ...facts.shown.map(t => [t, t])]],
    ["a", "area", [["", "all"], ...Object.keys(areas).sort().map(a => [a, `${a} (${areas[a]})`])]],
    ["k", "asks for", [["", "the GPU"], ["all", "the GPU or the vendor"]]],
    ...(facts.from.length ? [["h", "history", [["", "any"], ["yes", "changed there"]]]] : [])],
  fits(row, value) {
    const on = facts.shown.indexOf(value("t")), ways = on < 0 ? row.v : [row.v[on]], verdict = value("v");
    return (value("k") === "all" || !row.k) && (!value("a") || T[row.a] === value("a"))
      && (!facts.from.length || !value("h") || row.h)
      && (verdict === "*" || (verdict ? ways.includes(verdict) : ways.some(v => v !== "same")));
  },
  columns: [
    { sort: "area", head: "area", width: "area", class: "area", key: row => T[row.a], cell: row => T[row.a] },
    { sort: "place", head: "place", width: "place", class: "place", key: row => `${T[row.p]}:${String(row.l).padStart(7, "0")}`, cell: row => place(T[row.p], row.l, "", true) },
    { sort: "verdict", head: "verdict", width: "word", class: "word", key: worst, cell: row => ORDER[worst(row)], dress: (row, cell) => cell.classList.add(`v-${ORDER[worst(row)]}`) },
    { sort: "symbol", head: "what it asks", class: "main", opens: true, key: row => T[row.s], cell: row => el("div", { class: "what" }, said(row)) },
    ...facts.shown.map((t, i) => ({ sort: `t${i}`, head: short(t), title: t, width: "cell", class: "cell", key: row => ORDER.indexOf(row.v[i]),
      cell: row => glyph(row.v[i]), dress: (row, cell) => { cell.classList.add(`v-${row.v[i]}`); cell.title = row.v[i]; cell.dataset.target = short(t); } })),
  ],
});
