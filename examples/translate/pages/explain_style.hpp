#pragma once

namespace report {

/// What the page of `translate explain` adds to the style sheet of the report.
inline constexpr const char* explain_style = R"css(
.unseen { position: absolute; width: 1px; height: 1px; margin: -1px; overflow: hidden; clip-path: inset(50%); border: 0; padding: 0; }
.small { font-size: 14px; }
.pair { margin-top: 20px; }
.pair p { margin: 0; font-size: 18px; color: var(--muted); overflow-wrap: anywhere; }
.pair .answer { font-size: 24px; line-height: 1.35; font-weight: 600; color: var(--text); margin-top: 4px; }
:focus-visible { outline: 2px solid var(--a); outline-offset: 2px; }

.links { margin-top: 12px; padding: 18px; }
.links svg { width: auto; max-width: none; margin: 0 auto; }
.links + p { margin: 8px 2px 0; }
.links rect { fill: var(--soft); stroke: var(--line); }
.links text { font-size: 15px; text-anchor: middle; }
.links .mark { font-style: italic; fill: var(--muted); }
.threads path { fill: none; stroke: var(--a); }
.threads path:hover { stroke: var(--b); stroke-opacity: 1; }

.pieces { display: flex; flex-wrap: wrap; gap: 10px 9px; }
.pieces + h3 { margin-top: 20px; }
.word { display: inline-flex; flex-wrap: wrap; }
.chip { display: inline-flex; flex-direction: column; align-items: center; min-width: 30px; padding: 3px 7px 2px; background: var(--soft);
  border: 1px solid var(--line); font-size: 15px; line-height: 1.35; white-space: pre; }
.chip + .chip { margin-inline-start: -1px; }
.chip:first-child { border-start-start-radius: 7px; border-end-start-radius: 7px; }
.chip:last-child { border-start-end-radius: 7px; border-end-end-radius: 7px; }
.chip small { width: 100%; text-align: center; color: var(--muted); font-size: 12px; font-variant-numeric: tabular-nums; }
.chip small i { display: block; height: 4px; margin: 1px 0 2px; background: var(--a); min-width: 1px; border-radius: 2px; }
.chip.mark bdi { color: var(--muted); font-style: italic; }
.chip.byte { border-style: dashed; border-color: var(--muted); font-family: ui-monospace, monospace; font-size: 13px; }
.chip.unknown { border-color: var(--b); background: repeating-linear-gradient(135deg, var(--soft) 0 5px, var(--line) 5px 7px); }
p .chip { padding: 0 6px; border-radius: 6px; font-size: 14px; }
.list { list-style: none; padding: 0; margin: 0; display: grid; gap: 12px; }
.list .answer { display: flex; gap: 12px; font-size: 17px; font-weight: 600; overflow-wrap: anywhere; }
.list .answer b { color: var(--a); min-width: 14px; }
.scores { color: var(--muted); font-size: 14px; margin: 2px 0 10px 26px; font-variant-numeric: tabular-nums; }
.scores b { color: var(--text); font-weight: 600; }
.list .pieces { margin-left: 26px; gap: 8px 6px; }

.beam { padding: 16px 10px; }
svg.tree { width: auto; max-width: none; }
.tree .step { fill: var(--muted); font-size: 12px; text-anchor: middle; }
.tree .middle, .tree .rank { text-anchor: middle; }
.tree .mark { font-style: italic; }
.tree .edge { fill: none; stroke: var(--muted); stroke-width: 1.5; }
.tree .edge.dropped { stroke: var(--line); stroke-dasharray: 3 3; }
.tree .edge.best { stroke: var(--a); stroke-width: 4; }
.tree .node rect { fill: var(--card); stroke: var(--muted); }
.tree .node.dropped rect { fill: transparent; stroke: none; }
.tree .node.dropped text { fill: var(--muted); font-size: 12px; }
.tree .node.best rect { stroke: var(--a); stroke-width: 3; fill: var(--card); }
.tree .node.best .piece { font-weight: 600; fill: var(--text); font-size: 13px; }
.tree .ended rect { fill: var(--soft); }
.tree .score, .tree .chance { font-size: 12px; fill: var(--muted); font-variant-numeric: tabular-nums; }
.tree .chance, .tree .node.dropped .score { text-anchor: end; }
.tree circle { fill: var(--a); }
.tree .rank { fill: var(--card); font-size: 12px; font-weight: 700; }
.tree .edge.trail { stroke: var(--b); stroke-width: 3; stroke-dasharray: none; }
.tree .node.trail rect { stroke: var(--b); stroke-width: 2.5; }
details { margin-top: 10px; }
summary { cursor: pointer; color: var(--muted); font-size: 14px; }
details table { font-size: 13px; }
details th, details td { padding: 3px 8px; white-space: nowrap; }
tr.best td { background: var(--soft); font-weight: 600; }

.kind-title { margin: 28px 0 2px; font-size: 16px; color: var(--text); }
.kind { display: flex; gap: 24px; align-items: flex-start; }
.kind.stacked { flex-direction: column; align-items: stretch; }
.thumbs { display: grid; grid-template-columns: 44px repeat(var(--columns), minmax(30px, 110px)); gap: 6px; border: 0; margin: 0;
  padding: 4px; min-width: 0; align-items: center; flex: 1 1 46%; overflow-x: auto; }
.kind.stacked .thumbs { flex: none; }
.thumbs span { font-size: 12px; color: var(--muted); text-align: center; white-space: nowrap; }
.thumbs .layer, .thumbs .corner { text-align: right; padding-right: 4px; }
.thumbs label { display: block; border: 2px solid var(--line); border-radius: 6px; overflow: hidden; cursor: pointer; position: relative;
  aspect-ratio: var(--shape); }
.thumbs svg { position: absolute; inset: 0; width: 100%; height: 100%; }
.thumbs label:hover { border-color: var(--muted); }
.thumbs label:has(:checked) { border-color: var(--b); }
.thumbs label:has(:focus-visible) { outline: 2px solid var(--a); outline-offset: 1px; }
.thumbs input { position: absolute; opacity: 0; inset: 0; margin: 0; width: 100%; height: 100%; cursor: pointer; }
.larges { flex: 1 1 54%; min-width: 0; }
.large { display: none; margin: 0; }
@supports not selector(:has(a)) { .large:last-child { display: block; } }
.large figcaption { display: flex; justify-content: space-between; gap: 12px; flex-wrap: wrap; font-size: 14px; min-height: 22px; }
.large figcaption b { font-weight: 600; }
.large output { color: var(--muted); font-variant-numeric: tabular-nums; }
.large svg, .kind:not(.fine) .thumbs svg { image-rendering: pixelated; }
.axes text { fill: var(--text); font-size: inherit; }
.axes .down text { text-anchor: end; }
.axes .mark { font-style: italic; fill: var(--muted); }
.gaps { fill: none; stroke: var(--card); stroke-width: 1.5; }
.ink { flood-color: var(--a); }
.cells path { fill: transparent; }
.cursor { fill: none; stroke: var(--b); stroke-width: 2; vector-effect: non-scaling-stroke; pointer-events: none; }
.depth { position: relative; height: 34px; width: 260px; margin: 18px 12px 8px; font-size: 12px; color: var(--muted); }
.depth i { display: block; height: 12px; border-radius: 3px; background: linear-gradient(to right, var(--soft), var(--a)); }
.depth span { position: absolute; top: 14px; transform: translateX(-50%); }
@media (max-width: 720px) {
  main { padding: 24px 12px 40px; }
  .card { padding: 12px; }
  .kind { flex-direction: column; align-items: stretch; }
  .thumbs { grid-template-columns: 34px repeat(var(--columns), minmax(26px, 1fr)); gap: 4px; padding: 0; }
  .scores, .list .pieces { margin-left: 0; }
}
)css";

/// What the page can do beyond showing: the weight under the mouse, arrow keys in a large picture, the path to a node of the
/// tree.
inline constexpr const char* explain_script = R"js(
"use strict";
// The weights stand in the pictures: grey PNGs of 8 or 16 bits whose rows are not compressed; grey is the root of the weight.
const weightsOf = image => {
  const bytes = Uint8Array.from(atob(image.getAttribute("href").split(",")[1]), c => c.charCodeAt(0));
  const columns = new DataView(bytes.buffer).getUint32(16), wide = bytes[24] / 8, rows = [];
  for (let at = 43, last = 0; !last;) {
    last = bytes[at];
    const size = bytes[at + 1] | bytes[at + 2] << 8;
    for (const byte of bytes.subarray(at + 5, at + 5 + size)) rows.push(byte);
    at += 5 + size;
  }
  return (row, column) => {
    const at = row * (columns * wide + 1) + 1 + column * wide;
    const grey = wide === 2 ? (rows[at] << 8 | rows[at + 1]) / 65535 : rows[at] / 255;
    return grey * grey;
  };
};
for (const svg of document.querySelectorAll(".large svg")) {
  const { map, kind } = svg.dataset, axes = document.getElementById(kind + "-axes");
  const cells = svg.querySelector(".cells"), output = svg.parentNode.querySelector("output");
  const down = axes.querySelectorAll(".down text"), across = axes.querySelectorAll(".across text");
  let weight = null, cursor = null, row = -1, column = -1;
  const show = (r, c) => {
    if (r < 0 || c < 0 || r >= down.length || c >= across.length || (r === row && c === column)) return;
    weight = weight || weightsOf(document.getElementById(map));
    row = r, column = c;
    if (!cursor) {
      cursor = cells.appendChild(document.createElementNS(svg.namespaceURI, "rect"));
      cursor.setAttribute("class", "cursor"), cursor.setAttribute("width", 1), cursor.setAttribute("height", 1);
    }
    cursor.setAttribute("x", c), cursor.setAttribute("y", r);
    output.textContent = `${down[r].textContent} \u2192 ${across[c].textContent}: ${weight(r, c).toFixed(3)}`;
  };
  svg.tabIndex = 0;
  svg.addEventListener("pointermove", event => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(cells.getScreenCTM().inverse());
    show(Math.floor(at.y), Math.floor(at.x));
  });
  svg.addEventListener("keydown", event => {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step) return;
    event.preventDefault();
    if (row < 0) show(0, 0);
    else show(row + step[0], column + step[1]);
  });
}
for (const tree of document.querySelectorAll(".tree")) {
  const nodes = new Map([...tree.querySelectorAll("[data-node]")].map(node => [node.dataset.node, node]));
  const trail = [];
  tree.addEventListener("pointerover", event => {
    for (const each of trail.splice(0)) each.classList.remove("trail");
    for (let node = event.target.closest("[data-node]"); node; node = nodes.get(node.dataset.parent))
      trail.push(node, document.getElementById("e" + node.dataset.node));
    for (const each of trail) each.classList.add("trail");
  });
}
)js";

}  // namespace report
