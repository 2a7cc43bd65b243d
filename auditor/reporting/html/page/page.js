"use strict";
/* What every page of rows has in common: elements, links, the list with its filters, sorting, keys and deep links. */
const facts = JSON.parse(document.getElementById("facts").textContent);
const T = facts.texts;

/* Elements are only ever made here, and text only ever set as text. */
function el(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) if (value !== null) made.setAttribute(key, value);
  for (const child of children.flat(Infinity)) if (child !== null && child !== undefined) made.append(child);
  return made;
}
const short = target => target.replace("sm_", "");
const count = words => { const n = {}; for (const w of words) n[w] = (n[w] || 0) + 1; return n; };
const counted = (n, one, many) => `${n.toLocaleString("en")} ${n === 1 ? one : many || one + "s"}`;
const select = (name, label, options) => el("label", {}, label, el("select", { name },
  options.map(([value, text]) => el("option", { value }, text))));
/* Text of a report that can be typed, with a button that takes it along, or selects it where a page may not. */
function command(text) {
  const code = el("code", {}, text), button = el("button", { type: "button", class: "copy" }, "copy");
  button.addEventListener("click", async () => {
    let said = "copied";
    try { await navigator.clipboard.writeText(text); } catch { getSelection().selectAllChildren(code); said = "selected"; }
    button.textContent = said;
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  });
  return el("div", { class: "command" }, code, button);
}

/* -- upstream: links only where the project has an address that they can be made of ------------- */
const upstream = (path, text) => facts.upstream
  ? el("a", { href: `${facts.upstream}/${path}`, rel: "noopener noreferrer" }, text) : text;
function place(path, line, tree, head) {
  const file = path.replace(/^.*\/(?=[^/]+\/[^/]+$)/, "…/"), number = line ? `:${line}` : "";
  /* may be broken behind a slash or an underscore and before the number, never within it */
  const parts = (head ? file : path).split(/(?<=[/_])/).flatMap((part, i) => i ? [el("wbr"), part] : [part]);
  const said = el("code", { title: path + number }, parts, number ? [el("wbr"), el("span", { class: "line" }, number)] : null);
  if (!tree || head || !path) return said;
  return upstream(`blob/${encodeURIComponent(tree)}/${path.split("/").map(encodeURIComponent).join("/")}${line ? `#L${line}` : ""}`, said);
}
function commitWords([id, date, pr, subject]) {
  const said = subject.endsWith(`(#${pr})`) ? subject.slice(0, -`(#${pr})`.length).trim() : subject;
  return [id ? upstream(`commit/${encodeURIComponent(id)}`, el("code", {}, id.slice(0, 9))) : null, id ? " " : null,
    pr ? [upstream(`pull/${encodeURIComponent(pr)}`, `#${pr}`), " "] : null, date ? `${date} ` : null, said];
}

/* -- a list of rows ------------------------------------------------------------------------------
 * rows: objects with ``key`` (what a link names it by) and ``text`` (what is searched).
 * chips: {name, options: [[value, label, glyph, class, meaning]]}: the first filter, as buttons.
 * filters: [[name, label, options]]; fits(row, values): whether it is shown.
 * columns: [{sort, head, width, cell(row), key(row), on}]; details(row): what is shown once it is opened.
 */
function listing({ rows, chips, filters, hint, fits, columns, details, sorted, opener, said, above }) {
  const form = el("form", { role: "search" },
    el("label", { class: "wide" }, "text ( / )", el("input", { name: "q", type: "search", placeholder: hint })),
    el("input", { name: chips.name, type: "hidden" }),
    filters.map(([name, label, options]) => select(name, label, options)),
    el("output", { id: "left", "aria-live": "polite" }));
  const fields = ["q", chips.name, ...filters.map(([name]) => name)];
  const value = name => form.elements[name].value;
  const bar = el("div", { class: "chips", role: "group", "aria-label": chips.label }, chips.options.map(([word, label, glyph, cls, meaning]) => {
    const chip = el("button", { type: "button", class: "chip", title: meaning || null, "data-value": word }, glyph ? [el("b", { class: cls }, glyph), " "] : null, label);
    chip.addEventListener("click", () => { form.elements[chips.name].value = word; show(); keep(); });
    return chip;
  }));
  const explained = chips.options.filter(option => option[4]);
  const legend = el("details", { class: "more legend" }, el("summary", {}, "what these words mean"),
    el("dl", {}, explained.map(([, label, glyph, cls, meaning]) => [el("dt", {}, el("b", { class: cls }, glyph), ` ${label.replace(/ [\d,]+$/, "")}`), el("dd", {}, meaning)])));

  const header = el("tr", {}, columns.map(c => el("th", { scope: "col", class: c.class || null, "data-sort": c.sort },
    el("button", { type: "button", title: c.title || null }, c.head))));
  const body = el("tbody");
  /* Widths in rem; where the columns need more than there is, each row is laid out as a card. */
  const WIDTH = { area: 8, place: 17, word: 8.4, ways: 14, made: 9.5, cell: columns.length > 8 ? 2.9 : 3.6 }, MAIN = 17;
  const cols = columns.map(c => { const col = el("col"); if (c.width) col.style.width = `${WIDTH[c.width]}rem`; return col; });
  const needed = columns.reduce((sum, c) => sum + (WIDTH[c.width] || MAIN), 0);
  const table = el("table", { class: "gates" }, el("colgroup", {}, cols), el("thead", {}, header), body);
  const end = el("p", { class: "end" }, el("button", { type: "button" }, "more"));
  const none = el("p", { class: "none", hidden: "" }, "Nothing fits these filters. ", el("button", { type: "button" }, "show everything"));
  rows.forEach((row, number) => { row.number = number; });

  /* A row's elements are made when it is first shown: thousands of them at once take seconds to lay out. */
  function drawn(row) {
    if (row.tr) return row.tr;
    row.opener = el("button", { type: "button", class: "open", "aria-expanded": "false" }, opener(row));
    row.opener.addEventListener("click", () => toggle(row));
    row.tr = el("tr", { id: `g-${row.key}`, class: row.mark || null }, columns.map(c => {
      const cell = el("td", { class: c.class || null }, c.opens ? row.opener : null, c.cell(row));
      if (c.dress) c.dress(row, cell);
      return cell;
    }));
    row.tr.row = row;
    return row.tr;
  }
  /* The rows that fit, in order; the first ``made`` of them are in the table, more come when its end is near. */
  const PART = 40;
  let fitting = [], made = 0, ordered = rows;
  function more(until = made + PART) {
    const next = fitting.slice(made, until);
    made += next.length;
    body.append(...next.map(drawn).flatMap(tr => tr.row.below ? [tr, tr.row.below] : [tr]));
    end.hidden = made >= fitting.length;
  }
  function fill() { body.replaceChildren(); made = 0; more(PART); }
  end.firstChild.addEventListener("click", () => more());
  new IntersectionObserver(seen => { if (seen.some(one => one.isIntersecting)) more(); }, { rootMargin: "600px" }).observe(end);
  addEventListener("beforeprint", () => more(fitting.length));

  function toggle(row, open) {
    const will = open === undefined ? !row.below : open;
    if (will === Boolean(row.below)) return;
    row.opener.setAttribute("aria-expanded", String(will));
    row.tr.dataset.open = will ? "yes" : "no";
    if (will) {
      row.below = el("tr", { class: "below" }, el("td", { colspan: columns.length }, el("div", { class: "detail" }, details(row))));
      row.tr.after(row.below);
    } else { row.below.remove(); row.below = null; }
    state.g = will ? row.key : "";
    keep();
  }

  /* -- filter, sort, deep links -- */
  const state = { sort: sorted, g: "" };
  function keep() {
    const words = new URLSearchParams();
    for (const name of fields) if (value(name)) words.set(name, value(name));
    if (state.sort !== sorted) words.set("s", state.sort);
    if (state.g) words.set("g", state.g);
    const text = words.toString();
    history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
  }
  function show() {
    const words = value("q").trim().toLowerCase().split(/\s+/).filter(Boolean);
    fitting = ordered.filter(row => fits(row, value) && words.every(word => row.text.includes(word)));
    fill();
    for (const chip of bar.children) chip.setAttribute("aria-pressed", String(chip.dataset.value === value(chips.name)));
    none.hidden = fitting.length > 0;
    table.hidden = !fitting.length;
    document.getElementById("left").textContent = `${fitting.length} of ${rows.length}`;
  }
  function sort(name) {
    const down = name.startsWith("-"), bare = down ? name.slice(1) : name;
    const column = columns.find(c => c.sort === bare) || columns.find(c => c.sort === sorted.replace(/^-/, ""));
    state.sort = name;
    const compare = (a, b) => { const x = column.key(a), y = column.key(b); return (x < y ? -1 : x > y ? 1 : a.number - b.number) * (down ? -1 : 1); };
    ordered = [...rows].sort(compare);
    for (const head of header.children) head.setAttribute("aria-sort", head.dataset.sort === bare ? (down ? "descending" : "ascending") : "none");
  }
  function restore() {
    const words = new URLSearchParams(location.hash.slice(1));
    for (const name of fields) { form.elements[name].value = words.get(name) || ""; if (form.elements[name].selectedIndex === -1) form.elements[name].value = ""; }
    if (!chips.options.some(([word]) => word === value(chips.name))) form.elements[chips.name].value = "";
    sort(words.get("s") || sorted);
    const wanted = words.get("g") || decodeURIComponent(location.hash.slice(1)), row = wanted && rows.find(r => r.key === wanted || r.was === wanted);
    show();
    if (row) {
      if (!fitting.includes(row)) fitting.unshift(row); // a link shows its gate whatever the filter says
      fill();
      none.hidden = true; table.hidden = false;
      more(Math.max(made, fitting.indexOf(row) + 1));
      toggle(row, true);
      state.g = row.key;
      row.opener.focus({ preventScroll: true });
      row.tr.scrollIntoView({ block: "start" });
    }
  }
  const reset = () => { for (const name of fields) form.elements[name].value = ""; form.elements[chips.name].value = "*"; for (const [name, , options] of filters) if (options.some(([v]) => v === "all")) form.elements[name].value = "all"; show(); keep(); };
  none.lastChild.addEventListener("click", reset);
  form.addEventListener("input", () => { show(); keep(); });
  form.addEventListener("submit", event => event.preventDefault());
  header.addEventListener("click", event => {
    const head = event.target.closest("th");
    if (head) { sort(state.sort === head.dataset.sort ? `-${head.dataset.sort}` : head.dataset.sort); show(); keep(); }
  });
  addEventListener("hashchange", restore);
  addEventListener("keydown", event => {
    const at = document.activeElement, typing = /^(INPUT|SELECT|TEXTAREA)$/.test(at.tagName);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/" && !typing) { event.preventDefault(); form.elements.q.focus(); }
    if (event.key === "Escape" && at === form.elements.q) { form.elements.q.value = ""; show(); keep(); }
    const tr = at.closest && at.closest("table.gates > tbody > tr");
    if (event.key === "Escape" && tr) {
      const row = (tr.classList.contains("below") ? tr.previousElementSibling : tr).row;
      if (row.below) { toggle(row, false); row.opener.focus(); }
    }
    if ((event.key !== "ArrowDown" && event.key !== "ArrowUp") || !tr || !at.classList.contains("open")) return;
    const index = fitting.indexOf(tr.row) + (event.key === "ArrowDown" ? 1 : -1);
    if (index >= made) more();
    if (fitting[index]) { event.preventDefault(); fitting[index].opener.focus(); }
  });
  document.getElementById("main").append(...[above, bar, form, explained.length ? legend : null, table, none, end].filter(Boolean));
  /* The head of a list that a link leads to stands below the filters, which stay in sight. */
  const main = document.getElementById("main"), rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
  const room = () => {
    table.classList.toggle("cards", main.clientWidth < needed * rem);
    document.documentElement.style.setProperty("scroll-padding-top", getComputedStyle(form).position === "sticky" ? `${form.offsetHeight + 8}px` : "0");
  };
  addEventListener("resize", room);
  room();
  restore();
  return { open: key => { const words = new URLSearchParams(location.hash.slice(1)); words.set("g", key); location.hash = words.toString(); },
    filter: text => { form.elements.q.value = text; show(); keep(); form.scrollIntoView(); form.elements.q.focus(); } };
}
