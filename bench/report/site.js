"use strict";
// Filters and order of the leaderboards.
function board() {
  const form = document.getElementById("filters");
  const fits = (row, chosen) => ["kind", "device", "licence", "verified"].every((name) => !chosen[name] || row.dataset[name] === chosen[name]) &&
    (!chosen.budget || (row.dataset.ms && +row.dataset.ms <= +chosen.budget)) &&
    (!chosen.method || row.cells[0].textContent.includes(chosen.method)) && (chosen.history || !row.classList.contains("earlier"));
  const filter = () => {
    const chosen = Object.fromEntries(new FormData(form));
    let shown = 0;
    for (const section of document.querySelectorAll("section[data-task]")) {
      let here = 0;
      for (const box of section.querySelectorAll(".scroll")) {
        let rows = 0;
        for (const row of box.querySelectorAll("tbody tr")) rows += !(row.hidden = !fits(row, chosen));
        box.hidden = !rows;
        here += rows;
      }
      section.hidden = !here || (chosen.task && chosen.task !== section.dataset.task);
      if (!section.hidden) shown += here;
    }
    document.getElementById("count").textContent = shown ? `${shown} rows` : "no row fits these filters";
  };
  for (const kind of ["input", "change"]) form.addEventListener(kind, filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const button of document.querySelectorAll(".board th button")) button.addEventListener("click", () => sort(button.parentElement));
  filter();
}

function sort(head) {
  const body = head.closest("table").tBodies[0], up = head.getAttribute("aria-sort") !== "ascending";
  const value = (row) => { const cell = row.cells[head.cellIndex]; return cell.dataset.v === undefined ? cell.textContent : +cell.dataset.v; };
  const order = (a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * (up ? 1 : -1);
  for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const rows = [...body.rows].sort(order), few = (row) => row.classList.contains("few");  // these stay last
  body.append(...rows.filter((row) => !few(row)), ...rows.filter(few));
}

// The answers of a method in a run; poses are loaded when the first is shown.
function answers() {
  const data = JSON.parse(document.getElementById("data").textContent), form = document.getElementById("choice");
  const { group, method } = form.elements, body = document.querySelector(".trials").tBodies[0], pose = document.getElementById("pose");
  const label = (key) => key.replace("\t", ", repeat ").replace(", repeat 0", "");
  const show = () => {
    const own = data.trials[group.value];
    body.replaceChildren(...own.problems.flatMap((problem, i) => {
      const answer = own.methods[method.value][i];
      return answer === null ? [] : [line(problem, answer)];
    }));
  };
  const line = (problem, answer) => {
    const row = document.createElement("tr"), name = row.insertCell(), value = row.insertCell();
    name.className = "text";
    const ok = typeof answer === "number", text = document.createElement(ok && data.poses ? "button" : "span");
    text.textContent = problem;
    if (ok && data.poses) text.addEventListener("click", () => load(problem));
    name.append(text);
    value.textContent = answer;
    return row;
  };
  const load = (problem) => {
    const [name, repeat] = method.value.split("\t"), key = `${name}\t${problem}\t${repeat}`;
    const write = () => {
      const numbers = window.poses[key], rows = [0, 4, 8, 12].map((i) => numbers.slice(i, i + 4).join("  ")), text = document.createElement("pre");
      text.textContent = `${name} on ${problem}: pose, maps source points into the target's frame\n${rows.join("\n")}`;
      pose.replaceChildren(text);
    };
    if (window.poses) return write();
    const script = document.createElement("script");
    script.src = "poses.js";
    script.addEventListener("load", write);
    document.head.append(script);
  };
  const list = () => {
    const names = Object.keys(data.trials[group.value].methods);
    method.replaceChildren(...names.map((key) => new Option(label(key), key)));
  };
  group.replaceChildren(...Object.keys(data.trials).map((name) => new Option(name)));
  const [wantedGroup, wanted] = decodeURIComponent(location.hash.slice(1)).split("\t");
  if (wantedGroup in data.trials) group.value = wantedGroup;
  if (!group.value) return;
  list();
  if (wanted && data.trials[group.value].methods[`${wanted}\t0`]) method.value = `${wanted}\t0`;
  group.addEventListener("change", () => { list(); show(); });
  method.addEventListener("change", show);
  show();
}
