"""Curves as an SVG picture."""

import html
from collections.abc import Sequence

COLOURS = ("#1f6feb", "#d1570a", "#2e8b57", "#8250df", "#b8860b", "#5f6b7a")
Curve = tuple[str, Sequence[tuple[float, float]]]


def ticks(largest: float) -> list[float]:
    """About five round numbers from 0 to `largest`."""
    step = 1.0
    while largest / step > 6:
        step *= 2 if str(step)[0] in "15" else 2.5
    while largest / step < 3:
        step /= 2
    return [i * step for i in range(int(largest / step) + 1)]


def draw(curves: Sequence[Curve], x_name: str, y_name: str) -> str:
    width, height, left, bottom, top, right = 760, 420, 56, 44, 18, 120
    largest_x = max((x for _, points in curves for x, _ in points), default=1.0) or 1.0
    largest_y = max((y for _, points in curves for _, y in points), default=1.0) or 1.0

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            left + x / largest_x * (width - left - right),
            height - bottom - y / (1.05 * largest_y) * (height - bottom - top),
        )

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for value in ticks(largest_y):
        x, y = place(0, value)
        parts.append(f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{width - right}" y2="{y:.1f}" stroke="#e3e6ea"/>')
        parts.append(f'<text x="{x - 8:.1f}" y="{y + 4:.1f}" text-anchor="end" fill="#444">{value:g}</text>')
    for value in ticks(largest_x):
        x, y = place(value, 0)
        parts.append(f'<text x="{x:.1f}" y="{y + 18:.1f}" text-anchor="middle" fill="#444">{value:g}</text>')
    parts.append(f'<text x="{(left + width - right) / 2}" y="{height - 6}" text-anchor="middle" fill="#444">{html.escape(x_name)}</text>')
    parts.append(f'<text x="14" y="{top + 4}" fill="#444">{html.escape(y_name)}</text>')
    labels: list[tuple[float, float, str, str]] = []
    for i, (name, points) in enumerate(curves):
        colour = COLOURS[i % len(COLOURS)]
        places = [place(x, y) for x, y in points]
        parts.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="2.2" points="'
            + " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            + '"/>'
        )
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        if places:
            labels.append((places[-1][1] + 4, places[-1][0] + 8, colour, name))
    # A label stands at the end of its curve, below another that is in its way; a rim keeps it legible where a curve crosses it.
    labels.sort()
    for i, (y, x, colour, name) in enumerate(labels):
        y = max([y, *(before[0] + 15 for before in labels[:i] if abs(before[1] - x) < 150)])
        labels[i] = (y, x, colour, name)
        parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" stroke="#ffffff" stroke-width="4" paint-order="stroke">'
            f"{html.escape(name)}</text>"
        )
    return "\n".join([*parts, "</svg>", ""])
