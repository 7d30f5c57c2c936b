"""Medians, ratios and tables."""

import math
import statistics
from collections.abc import Iterable, Sequence


def median_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> float:
    """The median of the rounds' ratios, which is less noisy than the ratio of the medians: the machine's mood cancels."""
    return statistics.median(a / b for a, b in zip(numerators, denominators))


def geometric_mean(values: Iterable[float]) -> float:
    logs = [math.log(v) for v in values]
    return math.exp(sum(logs) / len(logs))


def spread(numerators: Sequence[float], denominators: Sequence[float]) -> str:
    """The smallest and the largest of the rounds' ratios."""
    ratios = [a / b for a, b in zip(numerators, denominators)]
    return f"{min(ratios):.2f}–{max(ratios):.2f}"


def milliseconds(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds) * 1e3:.4g}" if seconds else "–"


def megabytes(size: float) -> str:
    return f"{size / 1e6:.0f}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a Markdown table; the first column is text, the others are numbers."""
    lines = ["| " + " | ".join(head) + " |", "|---" + "|--:" * (len(head) - 1) + "|"]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]
