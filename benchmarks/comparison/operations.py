"""Single operations, attend's of attend_benchmarks against the same in PyTorch: where a step's time is lost or won."""

import json
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from . import machine, report
from .settings import Ceiling, Settings
from .worker import WorkerError, environment, python_worker

FILTER = "^(attention|linear|matmul|linear_cross_entropy|softmax|log_softmax|relu|gelu|dropout|layer_norm|embedding|adam)/"
RATES = {"FLOP/s": ("GFLOP/s", 1e9), "bytes/s": ("GB/s", 1e9), "items/s": ("thousand tokens/s", 1e3)}
Row = dict[str, float]


def run(settings: Settings, ceiling: Ceiling) -> Iterator[list[str]]:
    """Measures and gives the lines of the result."""
    program = settings.program.with_name("attend_benchmarks")
    if not program.exists():
        raise WorkerError(f"{program} is missing; build the target attend_benchmarks")
    wanted = settings.filter or FILTER
    seconds = settings.seconds(0.02 if settings.quick else 0.2)
    ours: dict[str, list[Row]] = {}
    theirs: dict[str, list[Row]] = {}
    with tempfile.TemporaryDirectory(prefix="attend-compare-") as folder:
        out = Path(folder) / "times.json"
        attend = [program, f"--benchmark_filter={wanted}", f"--benchmark_min_time={seconds}"]
        attend += [f"--benchmark_out={out}", "--benchmark_out_format=json"]
        pytorch = python_worker("pytorch_operations", "--threads", str(settings.threads), "--min-time", str(seconds))
        pytorch += ["--filter", wanted, "--out", out]
        for r in range(settings.rounds):
            settings.say(f"operations: round {r + 1} of {settings.rounds}")
            ceiling.measure()
            add(ours, attend, out, settings.threads)
            if machine.version("torch"):
                add(theirs, pytorch, out, settings.threads)
    clock = f"{settings.clock}_time"
    rows = []
    for name, results in ours.items():
        times, other = [row[clock] for row in results], [row[clock] for row in theirs.get(name, [])]
        ratio = [f"{report.median_ratio(other, times):.2f}", report.spread(other, times)] if other else ["–", "–"]
        rows.append([name, milliseconds(times), rate(results, clock), milliseconds(other), *ratio])
    head = ["operation", "attend, ms", "rate", "PyTorch, ms", "ratio", "over the rounds"]
    yield ["## Operations", "", *report.table(head, rows)]


def add(results: dict[str, list[Row]], command: list[str | Path], out: Path, threads: int) -> None:
    """Runs one side, adds a row to each name. Times are in milliseconds. Throws WorkerError."""
    done = subprocess.run([str(w) for w in command], capture_output=True, text=True, env=environment(threads), check=False)
    if done.returncode:
        raise WorkerError("\n".join(done.stderr.splitlines()[-8:]))
    for row in json.loads(out.read_text(encoding="utf-8"))["benchmarks"]:
        results.setdefault(row["name"].removesuffix("/real_time"), []).append(row)


def milliseconds(times: list[float]) -> str:
    return f"{statistics.median(times):.4g}" if times else "–"


def rate(rows: list[Row], clock: str) -> str:
    """Of the median time: that of one run, which goes by real time, scaled."""
    for key, (unit, size) in RATES.items():
        if key in rows[0]:
            return f"{rows[0][key] * rows[0]['real_time'] / statistics.median(row[clock] for row in rows) / size:.1f} {unit}"
    return "–"
