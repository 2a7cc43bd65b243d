/* The page of the map of kernels: a row a kernel. */
const ORDER = facts.outcomes.map(([name]) => name), OUTCOME = Object.fromEntries(facts.outcomes.map(([name, ...rest]) => [name, rest]));
const glyph = outcome => OUTCOME[outcome][0];
for (const row of facts.rows) {
  row.key = T[row.n];
  row.text = [T[row.n], T[row.p], ...[row.f, row.s, row.a].filter(n => n !== undefined).map(n => T[n]), ...(row.w || []).map(n => T[n]), ...row.c.map(([, , why]) => T[why])].join("\n").toLowerCase();
}
const outcomes = count(facts.rows.flatMap(row => [...new Set(row.o)]));
const lacks = row => row.o.some(o => o !== "runs" && o !== "unknown"), lacking = facts.rows.filter(lacks).length;
const open = row => row.o.some(o => o !== "runs"), usual = lacking ? lacks : open;
const kinds = count(facts.rows.map(row => row.y)), areas = count(facts.rows.map(row => row.a === undefined ? "other" : T[row.a]));
function details(row) {
  const out = [], add = (title, ...content) => out.push(el("section", {}, el("h3", {}, title), content));
  add("registered", place(T[row.p], row.l, facts.tree), row.s !== undefined ? el("div", {}, el("code", {}, T[row.s])) : null);
  for (const [targets, outcome, why, proof] of row.c)
    add([el("span", { class: `k-${outcome}` }, glyph(outcome), " ", outcome), ` on ${targets.map(short).join(" ")}`], el("p", {}, T[why] || OUTCOME[outcome][1]),
      proof.length ? el("ol", {}, proof.map(([text, path, line]) => el("li", {}, T[text], " ", T[path] ? place(T[path], line, facts.tree) : null))) : null);
  if (row.w) add("called as", el("p", {}, el("code", {}, row.w.map(n => T[n]).join(", "))));
  return out;
}
listing({
  rows: facts.rows, hint: "kernel, path, reason …", sorted: "kernel", details, opener: row => T[row.n],
  chips: { name: "o", label: "outcome", options: [["", lacking ? `what some target lacks ${lacking.toLocaleString("en")}` : "not decided for all"],
    ...ORDER.filter(o => outcomes[o]).map(o => [o, `${o} ${outcomes[o].toLocaleString("en")}`, glyph(o), `k-${o}`, OUTCOME[o][1]]), ["*", "everything"]] },
  filters: [["t", "on", [["", "any target"], ...facts.shown.map(t => [t, t])]],
    ["y", "kind", [["", "all"], ...facts.kinds.filter(([kind]) => kinds[kind]).map(([kind, text]) => [kind, `${text} (${kinds[kind]})`])]],
    ["a", "area", [["", "all"], ...Object.keys(areas).sort().map(a => [a, `${a} (${areas[a]})`])]]],
  fits(row, value) {
    const on = facts.shown.indexOf(value("t")), ways = on < 0 ? row.o : [row.o[on]], outcome = value("o");
    return (outcome === "*" || (outcome ? ways.includes(outcome) : usual({ o: ways })))
      && (!value("y") || row.y === value("y")) && (!value("a") || (row.a === undefined ? "other" : T[row.a]) === value("a"));
  },
  columns: [
    { sort: "kernel", head: "kernel", class: "main", opens: true, key: row => T[row.n], cell: row => el("div", { class: "what" }, place(T[row.p], row.l, "", true)) },
    { sort: "area", head: "area", width: "area", class: "area", key: row => row.a === undefined ? "other" : T[row.a], cell: row => row.a === undefined ? "other" : T[row.a] },
    ...facts.shown.map((t, i) => ({ sort: `t${i}`, head: short(t), title: t, width: "cell", class: "cell", key: row => -ORDER.indexOf(row.o[i]),
      cell: row => glyph(row.o[i]), dress: (row, cell) => { cell.classList.add(`k-${row.o[i]}`); cell.title = row.o[i]; cell.dataset.target = short(t); } })),
  ],
});
