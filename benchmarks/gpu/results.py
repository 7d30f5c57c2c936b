"""What was measured, and the table that it makes."""

import json
import statistics
from dataclasses import dataclass, field

from comparison import report
from comparison.worker import Answer

HEAD = ["", "counted", "attend, ms", "PyTorch, ms", "PyTorch by", "ratio", "over the rounds", "attend", "PyTorch"]
HEAD += ["of the ceiling, attend", "of the ceiling, PyTorch", "peak MB, attend", "peak MB, PyTorch"]
NOTHING = "–"


@dataclass
class Measured:
    """What both sides said when they were ready, and their answers, a list a side; PyTorch's sides are its modes."""

    ready: dict[str, Answer]
    answers: dict[str, list[Answer]] = field(default_factory=dict)

    def add(self, side: str, answer: Answer) -> None:
        self.answers.setdefault(side, []).append(answer)

    def values(self, side: str, key: str = "seconds") -> list[float]:
        return [answer[key] for answer in self.answers.get(side, [])]

    def best(self) -> str | None:
        """PyTorch's fastest mode."""
        modes = [side for side in self.answers if side != "attend" and self.values(side)]
        return min(modes, key=lambda mode: statistics.median(self.values(mode)), default=None)

    def peak(self, side: str | None) -> str:
        peaks = [answer["peak"] for answer in self.answers.get(side or "", []) if "peak" in answer]
        return report.megabytes(max(peaks)) if peaks else NOTHING


class Table:
    """Rows as they come; `notes` and `failures` go below."""

    def __init__(self) -> None:
        self.rows: list[list[str]] = []
        self.notes: list[str] = []
        self.failures: list[str] = []
        self.copy = self.product = 0.0  # ceilings: bytes and FLOP a second, of whichever side does more

    def ceilings(self, measured: Measured) -> None:
        for name, key, unit in (("copy of 2 GiB", "copy", "B/s"), ("product, 8,192 cubed", "product", "FLOP/s")):
            rates = {side: [a[key] for a in answers] for side, answers in measured.answers.items()}
            ours, theirs = rates.get("attend", []), rates.get("PyTorch", [])
            medians = [scaled(statistics.median(r), unit) if r else NOTHING for r in (ours, theirs)]
            # The ratio of rates is the other way round than that of times.
            self.rows.append([name, *[NOTHING] * 4, *ratio(ours, theirs), *medians, *[NOTHING] * 4])
        self.copy, self.product = (
            max((statistics.median(a[key] for a in answers) for answers in measured.answers.values()), default=0.0)
            for key in ("copy", "product")
        )

    def kernels(self, lines: str) -> None:
        for line in lines.splitlines():
            k = json.loads(line)
            counted = scaled(k["bytes"], "B") + (f", {scaled(k['flops'], 'FLOP')}" if k["flops"] else "")
            shares = [share(k["bytes"] / k["seconds"], self.copy, "copy")]
            if k["flops"]:
                shares.append(share(k["flops"] / k["seconds"], self.product, "product"))
            row = [k["kernel"], counted, f"{k['seconds'] * 1e3:.4g}", NOTHING, NOTHING, NOTHING, NOTHING]
            self.rows.append([*row, scaled(k["bytes"] / k["seconds"], "B/s"), NOTHING, ", ".join(shares), *[NOTHING] * 3])

    def steps(self, name: str, measured: Measured) -> None:
        ready = measured.ready.get("attend", {})
        self._times(name, measured, ready.get("flops", 0.0), ready.get("tokens", 0.0))

    def decoding(self, name: str, measured: Measured) -> None:
        self._times(name, measured, 0.0, measured.ready.get("attend", {}).get("tokens", 0.0))

    def _times(self, name: str, measured: Measured, flops: float, tokens: float) -> None:
        """A row of times: of a step or a search that does so many operations for so many tokens."""
        best = measured.best()
        sides = [measured.values("attend"), measured.values(best) if best else []]
        medians = [statistics.median(times) if times else None for times in sides]
        self.rows.append(
            [name, scaled(flops, "FLOP") if flops else NOTHING, *(report.milliseconds(times) for times in sides), best or NOTHING]
            + ratio(sides[1], sides[0])
            + [scaled(tokens / m, "tokens/s") if m else NOTHING for m in medians]
            + [share(flops / m, self.product, "product") if m and flops else NOTHING for m in medians]
            + [measured.peak("attend"), measured.peak(best)]
        )
        others = [mode for mode in measured.answers if mode not in ("attend", best)]
        self.notes += [f"{name}: PyTorch {mode} {report.milliseconds(measured.values(mode))} ms" for mode in others]

    def lines(self) -> list[str]:
        lines = report.table(HEAD, self.rows)
        for title, texts in (("Besides", self.notes), ("Failed", self.failures)):
            if texts:
                lines += ["", f"{title}:", "", *(f"- {text}" for text in texts)]
        return lines


def ratio(numerators: list[float], denominators: list[float]) -> list[str]:
    """The median of the rounds' ratios, and the smallest and the largest; of rounds that both have."""
    if not numerators or not denominators:
        return [NOTHING, NOTHING]
    return [f"{report.median_ratio(numerators, denominators):.2f}", report.spread(numerators, denominators)]


def share(rate: float, ceiling: float, name: str) -> str:
    return f"{rate / ceiling:.0%} of {name}" if ceiling else NOTHING


def scaled(value: float, unit: str) -> str:
    for factor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"
