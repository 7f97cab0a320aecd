"use strict";
const $$ = (selector, parent = document) => [...parent.querySelectorAll(selector)];
const cssVar = name => {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
};

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

// Filter: show the rows that contain every word.
for (const input of $$("input[type=search]")) input.addEventListener("input", () => {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean), rows = [...document.getElementById(input.dataset.table).tBodies[0].rows];
  let shown = 0;
  for (const row of rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every(word => text.includes(word));
    shown += !row.hidden;
  }
  input.parentElement.querySelector("output").value = words.length ? `${shown} of ${rows.length} rows` : "";
});

// Charts, drawn when scrolled near the window, and before printing.
const charts = JSON.parse(document.getElementById("charts").textContent);
const drawn = new Set();
const theme = () => {
  const text = cssVar("--text"), rule = cssVar("--rule");
  const axis = { gridcolor: rule, zerolinecolor: rule, linecolor: text, tickcolor: text };
  return { text, axis, card: cssVar("--card") };
};
function load() {  // plotly.js is embedded as text and parsed with the first chart, so that the tables respond immediately
  if (window.Plotly) return;
  const script = document.createElement("script");
  script.textContent = document.getElementById("plotly").textContent;
  document.head.append(script);
}
function draw(div) {
  if (drawn.has(div)) return;
  drawn.add(div);
  load();
  const chart = charts[div.dataset.chart], { text, axis, card } = theme();
  const layout = structuredClone(chart.layout), narrow = div.clientWidth < 520;
  for (const name of Object.keys(layout).filter(n => /^[xy]axis/.test(n))) Object.assign(layout[name], axis, { automargin: true });
  Object.assign(layout, {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: text, size: 12 }, hovermode: "closest",
    hoverlabel: { bgcolor: card, font: { color: text } }, margin: { l: 60, r: 10, t: 10, b: 50 },
    legend: narrow ? { orientation: "h", yref: "container", y: 0, yanchor: "bottom" } : {},
  });
  if (narrow && layout.xaxis2) {  // one above the other
    div.style.height = "900px";
    for (const name of ["xaxis", "xaxis2"]) layout[name].domain = [0, 1];
    Object.assign(layout.yaxis, { domain: [0.57, 1] });
    Object.assign(layout.yaxis2, { domain: [0, 0.43], anchor: "x2" });
    layout.xaxis2.anchor = "y2";
  }
  Plotly.newPlot(div, structuredClone(chart.data), layout, { responsive: true, displaylogo: false, displayModeBar: false });
}
function recolour() {
  const { text, axis, card } = theme();
  for (const div of drawn) {
    const change = { "font.color": text, "hoverlabel.bgcolor": card, "hoverlabel.font.color": text };
    for (const name of Object.keys(charts[div.dataset.chart].layout).filter(n => /^[xy]axis/.test(n)))
      for (const [key, value] of Object.entries(axis)) change[`${name}.${key}`] = value;
    Plotly.relayout(div, change);
  }
}
for (const button of $$("button.log")) button.addEventListener("click", () => {
  const div = document.getElementById(button.dataset.for), chart = charts[div.dataset.chart], name = chart.log;
  draw(div);
  const log = button.getAttribute("aria-pressed") !== "true", range = chart.layout[name].range;
  button.setAttribute("aria-pressed", log);
  const back = range ? { [`${name}.range`]: range } : { [`${name}.autorange`]: true };
  Plotly.relayout(div, { [`${name}.type`]: log ? "log" : "linear", ...(log ? { [`${name}.autorange`]: true } : back) });
});
addEventListener("DOMContentLoaded", () => {
  const seen = new IntersectionObserver(entries => {
    for (const { target, isIntersecting } of entries) if (isIntersecting) { seen.unobserve(target); draw(target); }
  }, { rootMargin: "500px" });
  for (const div of $$(".chart")) seen.observe(div);
});
addEventListener("beforeprint", () => $$(".chart").forEach(draw));

// Light and dark: the setting of the system until the reader chooses.
const scheme = matchMedia("(prefers-color-scheme: dark)");
const repaint = () => { recolour(); paint(); };
document.getElementById("theme").addEventListener("click", () => {
  const now = document.documentElement.dataset.theme || (scheme.matches ? "dark" : "light");
  document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
  repaint();
});
scheme.addEventListener("change", repaint);

// Worst pairs: three views that rotate together, by pointer or arrow keys.
const worst = JSON.parse(document.getElementById("worst").textContent);
const viewer = document.getElementById("viewer");
const view = { yaw: 0.6, pitch: 0.4, zoom: 1, pair: null };
function unpacked(text, unit) {
  const bytes = Uint8Array.from(atob(text), c => c.charCodeAt(0)), numbers = new DataView(bytes.buffer), points = [];
  for (let i = 0; i + 5 < bytes.length; i += 6) points.push([0, 2, 4].map(o => numbers.getInt16(i + o, true) * unit));
  return points;
}
const moved = (T, points) => T === null ? points : points.map(([x, y, z]) => [0, 4, 8].map(r => T[r] * x + T[r + 1] * y + T[r + 2] * z + T[r + 3]));
function choose(method, index) {
  const pair = worst.methods[method].pairs[index], cloud = worst.clouds[pair.problem];
  const source = unpacked(cloud.source, cloud.unit), target = unpacked(cloud.target, cloud.unit);
  const middle = [0, 1, 2].map(a => target.reduce((sum, p) => sum + p[a], 0) / Math.max(target.length, 1));
  const shift = points => points.map(p => p.map((v, a) => v - middle[a]));
  view.pair = { target: shift(target), sources: [null, pair.T, cloud.T].map(T => shift(moved(T, source))) };
  view.size = Math.max(...[view.pair.target, ...view.pair.sources.slice(0, 2)].flat().map(p => Math.hypot(...p)), 1e-9);
  for (const [name, text] of Object.entries({ problem: pair.problem, object: pair.object, error: pair.error, command: pair.command }))
    viewer.querySelector(`[data-show=${name}]`).textContent = text;
  paint();
}
function paint() {
  if (!viewer || !view.pair) return;
  const colours = [cssVar("--target"), cssVar("--source")], [cy, sy, cp, sp] = [Math.cos(view.yaw), Math.sin(view.yaw), Math.cos(view.pitch), Math.sin(view.pitch)];
  $$("canvas", viewer).forEach((canvas, i) => {
    const width = canvas.clientWidth * devicePixelRatio;
    canvas.width = canvas.height = width;
    const pen = canvas.getContext("2d"), scale = 0.48 * width / view.size * view.zoom, dot = Math.max(width / 120, 2);
    const points = [...view.pair.target.map(p => [p, 0]), ...view.pair.sources[i].map(p => [p, 1])].map(([[x, y, z], c]) => {
      const u = cy * x + sy * z, w = cy * z - sy * x;
      return [u, cp * y - sp * w, sp * y + cp * w, c];
    }).sort((a, b) => a[2] - b[2]);
    for (const [u, v, w, c] of points) {
      pen.globalAlpha = 0.7 + 0.3 * Math.max(-1, Math.min(1, w / view.size));
      pen.fillStyle = colours[c];
      pen.fillRect(width / 2 + scale * u, width / 2 - scale * v, dot, dot);
    }
  });
}
function turn(yaw, pitch) {
  view.yaw += yaw;
  view.pitch = Math.max(-1.57, Math.min(1.57, view.pitch + pitch));
  requestAnimationFrame(paint);
}
if (viewer) {
  const [method, pair] = ["method", "pair"].map(n => viewer.querySelector(`select[name=${n}]`));
  worst.methods.forEach((m, i) => method.add(new Option(m.name, i)));
  const listPairs = () => {
    pair.replaceChildren(...worst.methods[method.value].pairs.map((p, i) => new Option(`${i + 1}: ${p.group}, ${p.error}`, i)));
    choose(method.value, 0);
  };
  method.addEventListener("change", listPairs);
  pair.addEventListener("change", () => choose(method.value, pair.value));
  for (const canvas of $$("canvas", viewer)) {
    canvas.addEventListener("pointerdown", e => canvas.setPointerCapture(e.pointerId));
    canvas.addEventListener("pointermove", e => { if (e.buttons) turn(-e.movementX / 120, e.movementY / 120); });
    canvas.addEventListener("keydown", e => {
      const step = { ArrowLeft: [0.1, 0], ArrowRight: [-0.1, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] }[e.key];
      if (step) turn(...step);
      else if (e.key === "+" || e.key === "-") { view.zoom *= e.key === "+" ? 1.15 : 1 / 1.15; paint(); }
      else return;
      e.preventDefault();
    });
  }
  addEventListener("resize", paint);
  listPairs();
}
