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

// Pairs of clouds: three views that rotate together, by pointer or arrow keys.
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
  const source = unpacked(cloud.source, cloud.unit), target = moved(cloud.up, unpacked(cloud.target, cloud.unit));
  const middle = [0, 1, 2].map(a => target.reduce((sum, p) => sum + p[a], 0) / Math.max(target.length, 1));
  const shift = points => points.map(p => p.map((v, a) => v - middle[a]));
  view.pair = { target: shift(target), sources: [null, pair.T, cloud.T].map(T => shift(moved(cloud.up, moved(T, source)))) };
  view.size = Math.max(...[view.pair.target, ...view.pair.sources.slice(0, 2)].flat().map(p => Math.hypot(...p)), 1e-9);
  for (const name of ["problem", "object", "error", "command", "show"])
    for (const place of $$(`[data-show=${name}]`, viewer)) place.textContent = pair[name];
  paint();
}
function paint() {
  if (!viewer || !view.pair) return;
  const colours = [cssVar("--target"), cssVar("--source")], [cy, sy, cp, sp] = [Math.cos(view.yaw), Math.sin(view.yaw), Math.cos(view.pitch), Math.sin(view.pitch)];
  $$("canvas", viewer).forEach((canvas, i) => {
    const width = canvas.width = canvas.clientWidth * devicePixelRatio, height = canvas.height = canvas.clientHeight * devicePixelRatio;
    const pen = canvas.getContext("2d"), scale = 0.48 * Math.min(width, height) / view.size * view.zoom, dot = Math.max(width / 120, 2);
    const points = [...view.pair.target.map(p => [p, 0]), ...view.pair.sources[i].map(p => [p, 1])].map(([[x, y, z], c]) => {
      const u = cy * x + sy * z, w = cy * z - sy * x;
      return [u, cp * y - sp * w, sp * y + cp * w, c];
    }).sort((a, b) => a[2] - b[2]);
    for (const [u, v, w, c] of points) {
      pen.globalAlpha = 0.7 + 0.3 * Math.max(-1, Math.min(1, w / view.size));
      pen.fillStyle = colours[c];
      pen.fillRect(width / 2 + scale * u, height / 2 - scale * v, dot, dot);
    }
  });
}
function turn(yaw, pitch) {
  view.yaw += yaw;
  view.pitch = Math.max(-1.57, Math.min(1.57, view.pitch + pitch));
  requestAnimationFrame(paint);
}
function listen() {
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
}
