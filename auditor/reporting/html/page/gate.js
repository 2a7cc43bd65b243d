/* One gate: its values per target, where they come from as a diagram, its arms. */
const LETTER = { t: "yes", f: "no", u: "?", "-": "" };
function groups(values) {
  const by = new Map();
  facts.targets.forEach((t, i) => { const v = values[i]; if (v) by.set(v, [...(by.get(v) || []), t]); });
  const all = [...by.entries()];
  if (all.every(([v, names]) => names.length === 1 && short(names[0]) === v)) return ["the target's own number"];
  return all.map(([v, names], i) => [i ? el("span", { class: "dot" }, " · ") : null, el("b", {}, v), ": ",
    names.map((t, j) => [j ? " " : "", facts.shown.includes(t) ? el("u", {}, short(t)) : short(t)])]);
}
function node(name, seen) {
  const known = facts.predicates[name], item = el("li", {});
  const box = el("span", { class: known ? "node" : "node root" }, el("code", {}, name));
  item.append(box);
  if (!known) return item;
  const [path, line, values, via, roots] = known;
  box.append(el("span", { class: "values" }, place(T[path], line, facts.tree)), el("span", { class: "values" }, groups(values.map(v => T[v]))));
  if (seen.has(name)) { box.append(el("span", { class: "values" }, "as above")); return item; }
  seen.add(name);
  const below = [...via, ...(via.length ? [] : roots)].map(n => T[n]);
  if (below.length) item.append(el("ul", {}, below.map(n => node(n, seen))));
  return item;
}
/* Those that were asked for stand first: a phone shows four of nine. */
const inOrder = [...facts.shown, ...facts.targets.filter(t => !facts.shown.includes(t))].map(t => [t, facts.targets.indexOf(t)]);
/* ``words``: further lines of the table, [label, target => what it says]. */
function perTarget(gate, words) {
  const line = (label, cells) => el("tr", {}, el("th", { scope: "row" }, label), cells);
  const cells = text => inOrder.map(([t, i]) => el("td", { class: facts.shown.includes(t) ? "asked" : null }, text(t, i)));
  return el("div", { class: "scroll", tabindex: "0" }, el("table", { class: "grid" },
    el("thead", {}, el("tr", {}, el("td", {}), inOrder.map(([t]) => el("th", { scope: "col", class: facts.shown.includes(t) ? "asked" : null }, short(t))))),
    el("tbody", {}, line("value", cells((t, i) => LETTER[gate.t[i]])), line("reached", cells((t, i) => LETTER[gate.r[i]])),
      words.map(([label, text]) => line(label, cells(text))))));
}
function chain(gate) {
  const seen = new Set(), names = gate.n.map(n => T[n]);
  return el("div", { class: "scroll", tabindex: "0" }, el("ul", { class: "chain" }, el("li", {}, el("span", { class: "node" }, el("code", {}, T[gate.c])),
    el("ul", {}, (names.length ? names : gate.o.map(n => T[n])).map(n => node(n, seen))))));
}
const arms = gate => el("ul", {}, gate.w.map(([when, from, to, does]) => el("li", {},
  el("b", {}, `if ${when === "u" ? "unknown" : LETTER[when]}`), ` (${to > from ? `lines ${from}–${to}` : `line ${from}`}): `,
  does.length ? el("code", {}, does.map(n => T[n]).join("; ")) : "nothing of note")));
