#pragma once

namespace report {

/// The style sheet of the page: one column, light or dark as the reader's system is.
inline constexpr const char* style = R"css(
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --text: #1b2130; --muted: #667085; --line: #e3e7ee; --soft: #f1f4f8;
  --a: #2563eb; --b: #d9480f; --good: #15803d; --bad: #b42318; --good-soft: #e8f6ed; --bad-soft: #fdeceb;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0e1116; --card: #171b23; --text: #e7eaf0; --muted: #98a2b3; --line: #2a313d; --soft: #1f2530;
    --a: #6ea8fe; --b: #ff9a57; --good: #5fd08a; --bad: #ff8a80; --good-soft: #14291d; --bad-soft: #331a1a;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 16px/1.5 system-ui, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 40px 24px 64px; }
h1 { font-size: 30px; line-height: 1.2; margin: 0 0 4px; letter-spacing: -0.01em; }
h2 { font-size: 20px; margin: 44px 0 4px; }
h3 { font-size: 14px; font-weight: 600; margin: 0 0 10px; color: var(--muted); }
p { margin: 0 0 14px; color: var(--muted); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 18px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 24px 0 12px; }
.tile b { display: block; font-size: 26px; line-height: 1.2; font-variant-numeric: tabular-nums; letter-spacing: -0.01em; }
.tile span { color: var(--muted); font-size: 14px; }
.tile.first b { color: var(--a); }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(220px, 1fr)); gap: 6px 28px; margin: 0; font-size: 14px; }
dl div { display: flex; justify-content: space-between; gap: 12px; border-bottom: 1px solid var(--line); padding: 3px 0; }
dt { color: var(--muted); }
dd { margin: 0; text-align: right; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 430px), 1fr)); gap: 12px; }
.charts .wide { grid-column: 1 / -1; overflow-x: auto; }
.wide svg { min-width: 700px; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--text); font: 13px system-ui, "Segoe UI", Roboto, sans-serif; }
svg .chart-title { font-weight: 600; font-size: 14px; }
svg .tick, svg .label { fill: var(--muted); font-size: 12px; font-variant-numeric: tabular-nums; }
svg .tick.y { text-anchor: end; }
svg .tick.x, svg .label, svg .empty { text-anchor: middle; }
svg .empty, svg .legend { fill: var(--muted); }
svg .last { text-anchor: middle; font-weight: 600; font-size: 12px; }
svg .grid { stroke: var(--line); }
svg .axis { stroke: var(--muted); stroke-opacity: 0.6; }
svg .line { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
svg .line.a { stroke: var(--a); }
svg .line.b { stroke: var(--b); }
svg .dot { stroke: var(--card); stroke-width: 1.5; }
svg .dot.a { fill: var(--a); }
svg .dot.b { fill: var(--b); }
svg .touch { fill: transparent; }
svg .touch:hover.a { fill: var(--a); }
svg .touch:hover.b { fill: var(--b); }
svg .piece { font-size: 13px; }
svg .piece.end { text-anchor: end; }
svg .cell { fill: var(--a); }
svg .ground { fill: var(--soft); }
svg .cell:hover { stroke: var(--text); }
.maps { display: flex; flex-wrap: wrap; gap: 12px; }
.maps figure { margin: 0; flex: 1 1 300px; overflow-x: auto; }
.scale { display: flex; align-items: center; gap: 8px; font-size: 13px; color: var(--muted); margin: 10px 2px 0; }
.scale i { width: 120px; height: 10px; border-radius: 5px; background: linear-gradient(to right, var(--soft), var(--a)); }
.sample + .sample { margin-top: 12px; }
.sample p { margin: 0; color: var(--text); display: flex; gap: 12px; align-items: baseline; }
.sample p span { color: var(--muted); flex: 0 0 72px; font-size: 14px; }
table { border-collapse: collapse; width: 100%; font-size: 15px; }
.sample table { margin-top: 10px; }
th { text-align: left; color: var(--muted); font-size: 13px; font-weight: 600; }
th, td { padding: 6px 10px; border-bottom: 1px solid var(--line); vertical-align: top; overflow-wrap: anywhere; }
tr:last-child td { border-bottom: 0; }
.number { text-align: right; color: var(--muted); width: 90px; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.mark { width: 40px; text-align: center; font-weight: 700; }
.right .mark { color: var(--good); }
.wrong .mark { color: var(--bad); }
.right .output { background: var(--good-soft); }
.wrong .output { background: var(--bad-soft); }
.scroll { overflow-x: auto; padding: 8px; }
footer { margin-top: 40px; color: var(--muted); font-size: 13px; }
@media print { body { background: none; } .card { break-inside: avoid; } }
)css";

}  // namespace report
