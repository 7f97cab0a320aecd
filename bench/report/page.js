// Tables. Sort by a column: numbers by data-v (unknown last), other cells as text; a second click reverses the order.
// Methods with too few problems to be ranked stay last.
for (const button of $$("table .sort")) button.addEventListener("click", () => {
  const head = button.closest("th"), table = head.closest("table"), body = table.tBodies[0];
  const up = head.getAttribute("aria-sort") !== "ascending";
  for (const other of $$("th", table)) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const key = row => {
    const cell = row.cells[head.cellIndex], v = cell.dataset.v;
    return v === undefined ? cell.textContent : v === "inf" ? Infinity : Number(v);
  };
  const compare = (a, b) => {
    if (typeof a === "string" || typeof b === "string") return String(a).localeCompare(String(b), "en", { numeric: true });
    return a < b ? -1 : a > b ? 1 : 0;
  };
  const keyed = [...body.rows].map(row => [key(row), row]);
  const known = keyed.filter(([k]) => !Number.isNaN(k)), unknown = keyed.filter(([k]) => Number.isNaN(k));
  known.sort(([a], [b]) => (up ? 1 : -1) * compare(a, b));
  const sorted = [...known, ...unknown].map(([, row]) => row), few = row => row.classList.contains("few");
  body.append(...sorted.filter(row => !few(row)), ...sorted.filter(few));
});

// Selection: one problem group and a set of methods, which all tables, charts and views show.
const page = JSON.parse(document.getElementById("page").textContent);
const form = document.getElementById("select");
const groupOf = Object.fromEntries(page.groups.map(g => [g.id, g]));
const selection = { group: page.first, methods: new Set() };
const fill = (name, values, value) => {
  const select = form.elements[name];
  select.replaceChildren(...values.map(v => new Option(v, v)));
  select.value = values.includes(value) ? value : values[0];
  select.disabled = values.length < 2;
  return select.value;
};
const unique = values => [...new Set(values)];
function fillGroups(wanted) {  // each list holds what exists for the choice before it
  const sets = page.groups, dataset = fill("dataset", unique(sets.map(g => g.dataset)), wanted.dataset);
  const own = sets.filter(g => g.dataset === dataset), condition = fill("condition", unique(own.map(g => g.condition)), wanted.condition);
  const last = own.filter(g => g.condition === condition), points = fill("points", unique(last.map(g => g.points)), wanted.points);
  return last.find(g => g.points === points)?.id ?? "";
}
const boxes = name => $$(`input[name=${name}]`, form);
function chosenMethods() {
  const mode = form.elements.mode.value, kinds = new Set(boxes("kind").filter(b => b.checked).map(b => b.value));
  if (!mode) return new Set(boxes("method").filter(b => b.checked).map(b => b.value));
  const best = groupOf[selection.group]?.best ?? [], controls = Object.keys(page.kinds).filter(m => page.kinds[m] === "control");
  const names = mode === "all" || !best.length ? Object.keys(page.kinds) : [...best, ...controls];
  return new Set(names.filter(m => kinds.has(page.kinds[m])));
}
const groupButtons = $$("#verdict button[data-g]");  // the section also holds the button of a chart
const visible = name => name === undefined || selection.methods.has(name);

// Rows: shown if their method and group are selected and they contain every word of the table's filter.
const filters = new Map($$("input[type=search]").map(input => [document.getElementById(input.dataset.table), input]));
function filterTable(table) {
  const input = filters.get(table), words = input.value.toLowerCase().split(/\s+/).filter(Boolean), rows = [...table.tBodies[0].rows];
  let shown = 0;
  for (const row of rows) {
    const here = visible(row.dataset.m) && (!row.dataset.g || row.dataset.g === selection.group);
    row.hidden = !here || (words.length && !words.every(word => row.textContent.toLowerCase().includes(word)));
    shown += !row.hidden;
  }
  $$("th", table).forEach((head, i) => {
    const hide = !visible(head.dataset.m);
    if (head.hidden !== hide) { head.hidden = hide; for (const row of rows) row.cells[i].hidden = hide; }
  });
  input.parentElement.querySelector("output").value = shown < rows.length ? `${shown} of ${rows.length} rows${shown || words.length ? "" : ": none of the methods selected above"}` : "";
}
for (const [table, input] of filters) input.addEventListener("input", () => filterTable(table));

function select() {
  selection.methods = chosenMethods();
  if (form.elements.mode.value) for (const box of boxes("method")) box.checked = selection.methods.has(box.value);
  document.getElementById("shown").value = `${selection.methods.size} of ${Object.keys(page.kinds).length} methods`;
  for (const part of $$(".of-group, figure.saved[data-g]")) part.hidden = part.dataset.g !== selection.group;
  for (const button of groupButtons) button.setAttribute("aria-pressed", button.dataset.g === selection.group);
  for (const table of filters.keys()) filterTable(table);
  for (const div of $$(".chart")) {
    div.closest("figure").hidden = !chartOf(div);
    if (drawn.has(div)) draw(div);
  }
  listMethods();
}
form.addEventListener("submit", event => event.preventDefault());
form.addEventListener("change", event => {
  const values = Object.fromEntries(["dataset", "condition", "points"].map(n => [n, form.elements[n].value]));
  if (event.target.name === "method") { for (const radio of boxes("mode")) radio.checked = false; }
  if (event.target.tagName === "SELECT") selection.group = fillGroups(values);
  select();
});
for (const button of groupButtons) button.addEventListener("click", () => {
  selection.group = fillGroups(groupOf[button.dataset.g]);
  select();
});

// A page that was copied without the folder of its figures says what is missing.
document.addEventListener("error", event => {
  const image = event.target;
  if (image.tagName !== "IMG" || !image.closest("figure.saved")) return;
  const note = document.createElement("p");
  note.className = "note missing";
  note.textContent = `${image.getAttribute("src")} is not beside this page: copy the folder figures with it.`;
  image.replaceWith(note);
}, true);

// Charts, drawn when scrolled near the window, and before printing.
const charts = JSON.parse(document.getElementById("charts").textContent);
const drawn = new Set();
const chartOf = div => charts[div.dataset.chart][""] ?? charts[div.dataset.chart][selection.group];
const theme = () => {
  const text = cssVar("--text"), rule = cssVar("--rule");
  const axis = { gridcolor: rule, zerolinecolor: rule, linecolor: text, tickcolor: text };
  return { text, axis, card: cssVar("--card") };
};
let loading;
function load() {  // plotly.js is embedded as gzip and parsed with the first chart, so that the tables respond immediately
  return loading ??= (async () => {
    const bytes = Uint8Array.from(atob(document.getElementById("plotly").textContent), c => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
  })().catch(() => {
    for (const div of $$(".chart")) div.textContent = "Charts need a newer browser: Chrome 80, Firefox 113, Safari 16.4 or later. The tables have the same numbers.";
    return new Promise(() => {});  // nothing is drawn
  });
}
function draw(div) {
  const chart = chartOf(div);
  if (!chart) return;
  drawn.add(div);
  if (!window.Plotly) { load().then(() => draw(div)); return; }
  const { text, axis, card } = theme(), layout = structuredClone(chart.layout), narrow = div.clientWidth < 520;
  for (const name of Object.keys(layout).filter(n => /^[xy]axis/.test(n))) Object.assign(layout[name], axis, { automargin: true });
  const data = structuredClone(chart.data).filter(trace => visible(trace.meta));
  Object.assign(layout, {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: text, size: 12 }, hovermode: "closest",
    hoverlabel: { bgcolor: card, font: { color: text } }, margin: { l: 55, r: 10, t: 10, b: 45 }, showlegend: !chart.labels,
    legend: narrow ? { orientation: "h", yref: "container", y: 0, yanchor: "bottom" } : {},
  });
  const places = data.filter(trace => trace.meta !== undefined);
  if (chart.labels) layout.xaxis.range = rangeAround(places.map(trace => Math.log10(trace.x[0])));
  const log = document.querySelector(`button.log[data-for="${div.id}"]`);
  if (log) {
    const on = log.dataset.chosen ? log.getAttribute("aria-pressed") === "true" : layout[chart.log].type === "log";
    log.setAttribute("aria-pressed", on);
    if (on !== (layout[chart.log].type === "log")) setLog(layout[chart.log], on, chart);
  }
  if (narrow && layout.xaxis2) {  // one above the other
    div.style.height = "900px";
    for (const name of ["xaxis", "xaxis2"]) layout[name].domain = [0, 1];
    Object.assign(layout.yaxis, { domain: [0.57, 1] });
    Object.assign(layout.yaxis2, { domain: [0, 0.43], anchor: "x2" });
    layout.xaxis2.anchor = "y2";
  }
  Plotly.react(div, data, layout, { responsive: true, displaylogo: false, displayModeBar: false });
  if (chart.labels) placeLabels(div, places);
}
// Of many points those of the best methods are labelled, and others where there is room; pointing at one shows its name.
function labelled(traces) {
  const best = new Set(groupOf[selection.group]?.best), few = traces.filter(t => best.has(t.meta));
  return traces.length > 12 && few.length ? few : traces;
}
// A range of a logarithmic axis with room for labels, also around a single point, where plotly's own range has no width.
function rangeAround(decades) {
  if (!decades.length) return [0, 3];
  const low = Math.min(...decades), high = Math.max(...decades), room = Math.max(0.5, 0.15 * (high - low));
  return [low - room, high + room];
}
function setLog(axis, on, chart) {
  axis.type = on ? "log" : "linear";
  delete axis.range;
  if (!on && chart.linear) axis.range = chart.linear; else axis.autorange = true;
}
const LEADER = 15;  // distance in pixels from which on a line joins label and point
// Labels beside points: each in the first of several places that is free of other labels and points.
function placeLabels(div, traces) {
  const { xaxis, yaxis } = div._fullLayout, size = 11, taken = [], { text } = theme();
  const points = traces.map(t => [xaxis.d2p(t.x[0]), yaxis.d2p(t.y[0])]);
  for (const [x, y] of points) taken.push([x - 6, y - 6, x + 6, y + 6]);
  const overlap = (a, b) => Math.max(0, Math.min(a[2], b[2]) - Math.max(a[0], b[0])) * Math.max(0, Math.min(a[3], b[3]) - Math.max(a[1], b[1]));
  const first = new Set(labelled(traces));
  const gap = (box, [x, y]) => Math.hypot(Math.max(0, box[0] - x, x - box[2]), Math.max(0, box[1] - y, y - box[3]));
  const order = traces.map((t, i) => i).sort((a, b) => first.has(traces[b]) - first.has(traces[a]) || traces[b].y[0] - traces[a].y[0]);
  const place = (x, y, leader) => leader ? { ax: x, ay: y, showarrow: true } : { xshift: x, yshift: -y, showarrow: false };
  const annotations = order.flatMap(i => {
    const [x, y] = points[i], width = traces[i].name.length * size * 0.56, places = [];
    for (const far of [10, 20, 34, 52]) for (const angle of [0, 180, -35, 35, -145, 145, -90, 90]) {
      const dx = far * Math.cos(angle * Math.PI / 180), dy = far * Math.sin(angle * Math.PI / 180);
      const middle = x + dx + Math.sign(Math.round(dx)) * width / 2, box = [middle - width / 2, y + dy - size / 2 - 1, middle + width / 2, y + dy + size / 2 + 1];
      const out = Math.max(0, -box[0]) + Math.max(0, box[2] - xaxis._length) + Math.max(0, -box[1]) + Math.max(0, box[3] - yaxis._length);
      const unclear = points.some(point => gap(box, point) < gap(box, points[i]) - 1);  // nearer to another point
      places.push([taken.reduce((sum, b) => sum + overlap(box, b), 0) + 50 * out + far + (far > LEADER ? 16 : 50) * unclear, box, far]);
    }
    const [cost, box, far] = places.reduce((a, b) => b[0] < a[0] ? b : a);
    if (cost > 20 && !first.has(traces[i])) return [];
    taken.push(box);
    return { x: traces[i].x[0], y: traces[i].y[0], xref: "x", yref: "y", text: traces[i].name, font: { size, color: text }, borderpad: 0,
      ...place((box[0] + box[2]) / 2 - x, (box[1] + box[3]) / 2 - y, far > LEADER), arrowhead: 0, arrowwidth: 0.7, arrowcolor: traces[i].line.color };
  });
  for (const a of annotations) if (xaxis.type === "log") a.x = Math.log10(a.x);
  Plotly.relayout(div, { annotations });
}
for (const button of $$("button.log")) button.addEventListener("click", () => {
  const div = document.getElementById(button.dataset.for);
  button.dataset.chosen = "1";
  button.setAttribute("aria-pressed", button.getAttribute("aria-pressed") !== "true");
  draw(div);
});
addEventListener("DOMContentLoaded", () => {
  const seen = new IntersectionObserver(entries => {
    for (const { target, isIntersecting } of entries) if (isIntersecting && chartOf(target)) { seen.unobserve(target); draw(target); }
  }, { rootMargin: "300px" });
  const near = ({ width, top, bottom }) => width && top < innerHeight + 300 && bottom > -300;
  for (const div of $$(".chart")) if (near(div.getBoundingClientRect()) && chartOf(div)) draw(div); else seen.observe(div);
});
addEventListener("beforeprint", () => {
  for (const details of $$("details:not(.choose)")) details.open = true;
  $$(".chart").forEach(draw);
});
function openTarget() {  // a link into a folded part opens it
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (target) { for (let d = target.closest("details"); d; d = d.parentElement.closest("details")) d.open = true; target.scrollIntoView(); }
}
addEventListener("hashchange", openTarget);

// Light and dark: the setting of the system until the reader chooses.
const scheme = matchMedia("(prefers-color-scheme: dark)");
const repaint = () => { drawn.forEach(draw); paint(); };
document.getElementById("theme").addEventListener("click", () => {
  const now = document.documentElement.dataset.theme || (scheme.matches ? "dark" : "light");
  document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
  repaint();
});
scheme.addEventListener("change", repaint);

let listMethods = () => {};
if (viewer) {
  const [method, pair] = ["method", "pair"].map(n => viewer.querySelector(`select[name=${n}]`));
  const listPairs = () => {
    pair.replaceChildren(...worst.methods[method.value].pairs.map((p, i) => new Option(`${i + 1}: ${p.group}, ${p.error}`, i)));
    const here = worst.methods[method.value].pairs.findIndex(p => p.id === selection.group);
    pair.value = Math.max(here, 0);
    choose(method.value, pair.value);
  };
  listMethods = () => {
    const before = method.selectedOptions[0]?.text, own = worst.methods.map((m, i) => [m, i]).filter(([m]) => visible(m.method));
    const shown = own.length ? own : worst.methods.map((m, i) => [m, i]);
    method.replaceChildren(...shown.map(([m, i]) => new Option(m.name, i)));
    method.value = shown.find(([m]) => m.name === before)?.[1] ?? shown[0][1];
    listPairs();
  };
  method.addEventListener("change", listPairs);
  pair.addEventListener("change", () => choose(method.value, pair.value));
  listen();
}
selection.group = fillGroups(groupOf[page.first] ?? {});
select();
openTarget();
