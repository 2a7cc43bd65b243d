/* The page of a comparison or of the guard: a row a change or patch. */
const guard = facts.guard, [oldName, newName] = facts.names;
const ORDER = facts.kinds.map(([kind]) => kind), MEANING = Object.fromEntries(facts.kinds), quiet = new Set(facts.quietKinds);
/* Colour says what a target gained or lost; where an outcome is only another one, nothing is coloured. */
const GOOD = new Set(["runs", "clean", "ok"]), BAD = new Set(["not-built", "raises", "falls-through", "absent", "conflict", "failed", "env-forced", "wrong-default"]);
const feel = word => GOOD.has(word) ? "good" : BAD.has(word) ? "bad" : word === "unknown" || word === "look" ? "ask" : "";
const byGate = new Map();
facts.rows.forEach((row, number) => {
  row.key = row.y === "patch" ? `p-${T[row.s].replace(/\W+/g, "-")}` : row.i || `c${number}`;
  row.was = row.j;
  row.mark = row.x ? "tripped" : null;
  if (row.i && !byGate.has(row.i)) byGate.set(row.i, row);
  const commits = (row.v || []).length <= 4 ? row.v || [] : [];
  row.text = [row.y, row.i || "", row.j || "", row.z || "", ...[row.p, row.q, row.s, row.b, row.e, row.h].filter(n => n !== undefined).map(n => T[n]),
    ...commits.flatMap(([id, , pr, subject]) => [T[id], pr && T[pr] ? `#${T[pr]}` : "", T[subject]])].join("\n").toLowerCase();
  row.ways = ways(row.f);
});
/* A key that two rows share (a gate with two kinds of change) goes to the first. */
const taken = new Set();
for (const row of facts.rows) { let key = row.key, n = 2; while (taken.has(key)) key = `${row.key}-${n++}`; taken.add(row.key = key); }
const followers = new Map();
for (const row of facts.rows) if (row.d && byGate.has(row.d) && byGate.get(row.d) !== row) { row.under = byGate.get(row.d); followers.set(row.under, [...(followers.get(row.under) || []), row]); }

/* [[targets, before, after]]: targets that went the same way together. */
function ways(found) {
  const by = new Map();
  for (const [target, before, after] of found) {
    const key = `${before} ${after}`, known = by.get(key);
    if (known) known[0].push(target); else by.set(key, [target ? [target] : [], T[before], T[after]]);
  }
  return [...by.values()];
}
const arrow = (before, after) => [before ? el("span", { class: feel(before) === "ask" ? "ask" : "" }, before) : null, before && after ? " → " : null,
  after ? el("b", { class: feel(after) }, after) : before ? el("span", { class: "what" }, " (gone)") : null];
const way = ([targets, before, after]) => el("div", { class: "way" }, targets.length ? el("span", { class: "on" }, targets.map(short).join(" "), " ") : null, arrow(before, after));
const made = row => !row.v ? null : row.v.length === 1 ? brief(row.v[0].map(n => T[n])) : el("span", { class: "what" }, `one of ${row.v.length} commits`);
const brief = ([id, date, pr]) => el("div", {}, upstream(`commit/${encodeURIComponent(id)}`, el("code", {}, id.slice(0, 9))), pr ? [" ", upstream(`pull/${encodeURIComponent(pr)}`, `#${pr}`)] : null, el("div", { class: "what" }, date));
const jump = row => { const a = el("a", { href: `#g=${encodeURIComponent(row.key)}` }, T[row.s] || T[row.b] || "(module)"); return el("li", {}, a, " ", place(T[row.p], row.l, "", true), " ", row.ways.map(way)); };
const steps = list => el("ol", { class: "steps" }, list.map(([words, commands]) => el("li", {}, T[words], commands.map(n => command(T[n])))));

function details(row) {
  const out = [], add = (title, ...content) => out.push(el("section", {}, el("h3", {}, title), content));
  if (row.w !== undefined) add("why it tripped", el("p", {}, T[row.w]), row.h !== undefined ? el("p", {}, T[row.h]) : null);
  if (row.o) add("what the target got and gets", el("ul", {}, row.o.map(n => el("li", {}, el("code", {}, T[n])))));
  if (row.u && row.u.length) add("what to do now", steps(row.u));
  if (row.n) add("details", el("ul", {}, row.n.map(n => el("li", {}, T[n]))));
  if (row.e !== undefined) add(row.y === "kernel" ? "name" : "condition", el("dl", { class: "two" }, el("dt", {}, oldName), el("dd", {}, el("code", {}, T[row.e])), el("dt", {}, newName), el("dd", {}, el("code", {}, T[row.b]))));
  else if (row.b !== undefined && T[row.b] && row.y !== "patch") add(row.i ? "condition" : "what", el("code", {}, row.g ? T[row.g.c] : T[row.b]));
  if (row.p !== undefined && T[row.p]) {
    const gone = row.y === "removed" || (row.f.length && row.f.every(([, , after]) => T[after] === "absent"));
    const now = gone ? place(T[row.p], row.l, facts.oldTree) : place(T[row.p], row.l, facts.tree);
    add("place", el("dl", { class: "two" }, row.q !== undefined ? [el("dt", {}, oldName), el("dd", {}, place(T[row.q], row.m, facts.oldTree))] : null,
      el("dt", {}, gone ? oldName : newName), el("dd", {}, now)));
  }
  if (row.g) add("per target", perTarget(row.g, [["verdict", (t, i) => row.g.v[i]], ...(row.f.length ? [["changed", t => { const f = row.f.find(([name]) => name === t); return f ? `${T[f[1]]} → ${T[f[2]]}` : ""; }]] : [])]));
  else if (row.f.length && row.y !== "patch") add("per target", row.ways.map(way));
  if (row.r && row.r.length) add("what its arms did", arms({ w: row.r }));
  if (row.g && row.g.w) add("what its arms do now", arms(row.g));
  if (row.v) add(row.v.length === 1 ? "made by" : `made by one of ${row.v.length} commits`, el("ul", { class: "past" }, row.v.slice(0, 30).map(c => el("li", {}, commitWords(c.map(n => T[n]))))), row.v.length > 30 ? el("p", {}, `… and ${row.v.length - 30} more`) : null);
  if (row.h !== undefined && row.w === undefined) add("why", el("p", {}, T[row.h]));
  if (row.under) add("follows from", el("ul", {}, jump(row.under)));
  const below = followers.get(row);
  if (below) add(`${counted(below.length, "gate follows", "gates follow")} from it`, el("ul", {}, below.slice(0, 40).map(jump)), below.length > 40 ? el("p", {}, `… and ${below.length - 40} more: filter “as causes and followers”`) : null);
  if (row.g) add("where the value comes from", chain(row.g));
  if (row.g && row.g.u) add("unknown because of", el("p", {}, row.g.u.map(n => T[n]).join(", ")));
  return out;
}
const inMeaning = row => !quiet.has(row.y) && (row.y !== "patch" || row.x || row.u);
const areas = count(facts.rows.map(row => T[row.a]));
const kinds = count(facts.rows.filter(row => !row.under || row.x && row.y === "patch").map(row => row.y));
const tripped = facts.rows.filter(row => row.x && !row.under).length, meant = facts.rows.filter(row => inMeaning(row) && !row.under).length;
const inGroup = count(facts.rows.filter(row => row.x && !row.under).map(row => row.k));
const first = guard && tripped ? [["", `what tripped ${tripped.toLocaleString("en")}`, "✗", "bad"],
  ...facts.groups.map(([name, text]) => [`x-${name}`, `${name} ${(inGroup[name] || 0).toLocaleString("en")}`, "✗", "bad", text]), ["meaning", `what changed in meaning ${meant.toLocaleString("en")}`]] : [["", `what changed in meaning ${meant.toLocaleString("en")}`]];
let list = null;
const pull = ([commit, number]) => { const words = commit.map(n => T[n]), button = el("button", { type: "button", class: "link" }, counted(number, "change"));
  button.addEventListener("click", () => list.filter(words[0]));
  return el("li", {}, commitWords(words), " — ", button); };
const head = !guard ? null : el("section", { class: `verdict ${tripped ? "bad" : "good"}` },
  el("h2", {}, tripped ? `tripped: ${[guard.tripped ? counted(guard.tripped, "change") : null, guard.patches ? counted(guard.patches, "patch or check", "patches or checks") : null].filter(Boolean).join(", ")}` : T[guard.quiet]),
  guard.tripped && guard.tripped + guard.patches > tripped ? el("p", {}, `${counted(tripped, "cause")}; the others follow from these`) : null,
  el("h3", {}, "what to do now"), steps(guard.steps),
  guard.pulls.length ? [el("h3", {}, "made by"), el("ul", { class: "past" }, guard.pulls.map(pull)), guard.morePulls ? el("p", {}, `… and ${guard.morePulls} more commits`) : null,
    guard.noCommit ? el("p", { class: "what" }, `of ${counted(guard.noCommit, "change")} several commits may have made it: the rows name them`) : null] : null);
list = listing({
  rows: facts.rows, hint: "path, symbol, condition, kernel, #PR …", sorted: "kind", details, above: head,
  opener: row => T[row.s] || (row.e === undefined && T[row.b]) || "(module)",
  chips: { name: "c", label: "kind of change", options: [...first, ...ORDER.filter(kind => kinds[kind]).map(kind => [kind, `${kind} ${kinds[kind].toLocaleString("en")}`, null, "", MEANING[kind]]), ["*", "everything"]] },
  filters: [["t", "changed for", [["", "any target"], ...facts.shown.map(t => [t, t])]],
    ["a", "area", [["", "all"], ...Object.keys(areas).sort().map(a => [a, `${a} (${areas[a]})`])]],
    ...(followers.size ? [["f", "as", [["", "causes"], ["all", "causes and followers"]]]] : [])],
  fits(row, value) {
    const kind = value("c"), usual = guard && tripped ? row.x : inMeaning(row);
    return (kind === "*" || (kind === "meaning" ? inMeaning(row) : kind.startsWith("x-") ? row.k === kind.slice(2) : kind ? row.y === kind : usual)) && (!value("a") || T[row.a] === value("a"))
      && (!value("t") || row.f.some(([target]) => target === value("t"))) && (!row.under || !followers.size || value("f") === "all");
  },
  columns: [
    { sort: "kind", head: "kind", width: "word", class: "word", key: row => row.x ? -1 : ORDER.indexOf(row.y), cell: row => [row.x ? el("b", { class: "bad", title: "tripped the guard" }, "✗ ") : null, row.y, row.x && row.k !== "patches" ? el("div", { class: "what" }, row.k) : null] },
    { sort: "area", head: "area", width: "area", class: "area", key: row => T[row.a], cell: row => T[row.a] },
    { sort: "place", head: "place", width: "place", class: "place", key: row => `${T[row.p]}:${String(row.l).padStart(7, "0")}`, cell: row => [place(T[row.p], row.l, "", true), row.q !== undefined ? el("div", { class: "what" }, "was ", place(T[row.q], row.m, "", true)) : null] },
    { sort: "what", head: "what changed", class: "main", opens: true, key: row => T[row.s] || T[row.b], cell: row => [
      row.e !== undefined ? el("div", { class: "what" }, el("s", {}, T[row.e]), " → ", T[row.b]) : T[row.s] ? el("div", { class: "what" }, T[row.b]) : null,
      followers.has(row) ? el("div", { class: "what" }, counted(followers.get(row).length, "more gate follows", "more gates follow"), " from it") : null] },
    { sort: "ways", head: "from → to", width: "ways", class: "ways", key: row => row.ways.map(w => w.join(" ")).join("\n"), cell: row => row.ways.map(way) },
    ...(facts.rows.some(row => row.v) ? [{ sort: "commit", head: "made by", width: "made", class: "made", key: row => row.v && row.v.length === 1 ? T[row.v[0][1]] : "", cell: made }] : []),
  ],
});
