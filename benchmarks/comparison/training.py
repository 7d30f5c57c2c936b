"""Part 1: a training step of each network, attend against PyTorch and Marian."""

import statistics
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from . import data, machine, report
from .settings import ATTEND, MARIAN, PYTORCH, Ceiling, Settings
from .worker import Worker, WorkerError, python_worker, settle

EXACT = 1e-9  # in double precision: of losses, and of gradients in the norm of each tensor, relative
TOLERANCE = 2e-5  # the same in float32
LENIENCE = 3.0  # times PyTorch's own worst error in float32, where a network makes more of rounding

OF_MARIAN = ("tiny", "base")  # the networks that Marian has too

Clock = list[float]  # seconds, one a round
Gradients = dict[str, np.ndarray]


@dataclass
class Sides:
    """What was measured of one network."""

    times: dict[str, Clock] = field(default_factory=dict)  # of ATTEND, PYTORCH and MARIAN: seconds a step, round by round
    memory: dict[str, dict[str, float]] = field(default_factory=dict)  # bytes: "idle", "peak"
    flops: float = 0.0  # useful, of a step
    tokens: float = 0.0
    errors: tuple[float, float] = (0.0, 0.0)  # of attend's and PyTorch's gradients, the worst tensor
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Case:
    """A network and its files."""

    name: str
    weights: Path
    batches: Path
    checked: Path  # the batches of which gradients are compared, as far as need be
    checks: int  # how many these are

    def command(self, settings: Settings, side: str, check: bool = False) -> list[str | Path]:
        """Of the worker of a side: of ATTEND, of PYTORCH, MARIAN, or "double" (PyTorch's). With `check` it has the batches for that."""
        files = (self.name, self.weights, self.checked if check else self.batches)
        if side == MARIAN:
            return python_worker("marian_step_worker", self.name, self.batches)
        if side in ATTEND:
            return [settings.program, "step", *files, ATTEND[side]]
        return python_worker("pytorch_step_worker", *files, side)


def run(settings: Settings, ceiling: Ceiling) -> Iterator[list[str]]:
    """Measures and gives the lines of the result, after each network again."""
    results: dict[str, Sides] = {}
    with tempfile.TemporaryDirectory(prefix="attend-compare-") as folder:
        for name in settings.networks:
            try:
                results[name] = measure(settings, ceiling, prepare(settings, name, Path(folder)))
            except (OSError, WorkerError) as e:
                settings.fail(f"step {name}: {e}")
            if results:
                yield document(settings, ceiling, results)


def prepare(settings: Settings, name: str, folder: Path) -> Case:
    """Writes the weights and the batches of a network. Throws OSError if its data are missing."""
    weights, file, count = folder / f"{name}.weights", folder / f"{name}.batches", 2
    checked, checks = None, 1  # the first of those batches
    if name == "notebook0":
        data.random_pairs(file, count, (8, 256, 128), (20000, 10000))
    elif name == "notebook1":
        data.random_pairs(file, count, (16, 25, 25), (10000, 10000))
    elif name == "notebook2":
        data.random_vectors(file, 4, ("x", "first", "second", "dy"), (2, 5, 16))
    elif name == "notebook3":
        data.random_vectors(file, 1 if settings.quick else count, ("x", "y", "dy"), (30, 200, 512))
    elif name == "notebook4":
        shape, vocabularies = (5, 128, 128), (100, 52)
        data.random_pairs(file, count, shape, vocabularies)
        # Of its 16 million units one or two lie so near the bend of their ReLU that rounding decides, in most batches.
        checked, checks = folder / f"{name}.checked", 16
        data.random_pairs(checked, checks, shape, vocabularies)
    else:
        file = folder / "multi30k.batches"  # tiny and base have the same
        if not file.exists():
            data.multi30k(settings.data / "multi30k", file, 3 if settings.quick else 8, settings.tokens)
    settings.call("weights", name, weights)
    return Case(name, weights, file, checked or file, checks)


def measure(settings: Settings, ceiling: Ceiling, case: Case) -> Sides:
    name = case.name
    settings.say(f"step {name}: losses and gradients")
    sides = Sides()
    compare(settings, sides, case)
    workers: dict[str, Worker] = {}
    try:
        for side in sides_of(settings, name):
            settings.say(f"step {name}: warming {side}")
            start(settings, sides, workers, side, case)
        for r in range(settings.rounds):
            settings.say(f"step {name}: round {r + 1} of {settings.rounds}")
            ceiling.measure()
            for side, worker in workers.items():
                settle()
                answer = worker.ask("time", seconds=settings.seconds(0.2 if settings.quick else 1.0))
                sides.times.setdefault(side, []).append(answer[settings.clock])
        sides.memory = {side: worker.ask("memory") for side, worker in workers.items() if side != MARIAN}
    finally:
        for worker in workers.values():
            worker.close()
    return sides


def sides_of(settings: Settings, network: str) -> list[str]:
    """The libraries' ways to take a step on this processor. Where it has no instructions for bfloat16, nobody would choose that."""
    sides = ["attend", "attend bfloat16", *PYTORCH]
    if not machine.has_bfloat16():
        sides = [side for side in sides if not side.endswith("bfloat16")]
    if machine.version("pymarian") and network in OF_MARIAN and settings.clock == "real":  # it tells real time alone
        sides.append(MARIAN)
    return [side for side in sides if side not in settings.without]


def start(settings: Settings, sides: Sides, workers: dict[str, Worker], side: str, case: Case) -> None:
    """A worker with all its batches behind it once. torch.compile may fail or take for ever, Marian may not run here: then it is left
    out, and said so."""
    limit = settings.compile_timeout if side.startswith("compile") else None
    try:
        worker = Worker(case.command(settings, side), settings.threads, limit)
        workers[side] = worker
        warm = worker.ask("warm", timeout=limit)
    except WorkerError as e:
        if limit is None and side != MARIAN:
            raise
        if side in workers:
            workers.pop(side).close()
        sides.notes.append(f"{side} left out: {str(e).splitlines()[-1][:160]}")
        settings.say(f"step {case.name}: {sides.notes[-1]}")
        return
    if side == MARIAN:
        sides.notes.append(f"Marian trains with {warm['way']} workers × threads, which was its fastest way in a trial")
    if side == "attend":
        sides.flops, sides.tokens = worker.ready["flops"], worker.ready["tokens"]


def compare(settings: Settings, sides: Sides, case: Case) -> None:
    """Loss and gradients, from the same weights, dropout off. PyTorch in double precision is the judge: attend's code in double
    precision must agree, which no wrong formula does, and attend in float32 must be as close to it as rounding goes, or about as
    close as PyTorch's float32: units near the bend of a ReLU fall to either side. Where they are few it is chance in whose float32
    one falls, so gradients in float32 need agree in one batch, the first if there is one alone. Throws WorkerError if they do not."""
    for batch in range(case.checks):
        wrong = compare_batch(settings, sides, case, batch)
        if not wrong:
            return
        settings.say(f"step {case.name}, batch {batch + 1} of {case.checks}: {wrong}")
    raise WorkerError(wrong)


def compare_batch(settings: Settings, sides: Sides, case: Case, batch: int) -> str:
    """What is wrong with attend's gradients in float32, or "". Throws WorkerError if anything else is wrong."""
    found: dict[str, tuple[float, Gradients]] = {}
    for side in ("attend", "attend double", "eager", "double"):
        out = case.weights.with_suffix(f".{side.replace(' ', '_')}.gradients")
        worker = Worker(case.command(settings, side, check=True), settings.threads)
        loss = worker.ask("gradients", batch=batch, out=str(out))["loss"]
        worker.close()
        found[side] = (loss, load_file(out))
        out.unlink()
    loss, gradients = found.pop("double")
    losses = {side: abs(of[0] - loss) / max(1.0, abs(loss)) for side, of in found.items()}
    # A key's bias has no gradient but rounding, so a tensor counts with at least a thousandth of the whole gradient's norm.
    least = 1e-3 * norm(np.array([norm(g) for g in gradients.values()]))
    errors = {
        side: {key: norm(g - gradients[key]) / max(norm(gradients[key]), least) for key, g in of[1].items()}
        for side, of in found.items()
    }
    sides.errors = max(errors["attend"].values()), max(errors["eager"].values())
    for side, bound in (("attend double", EXACT), ("attend", max(TOLERANCE, LENIENCE * losses["eager"]))):
        if not losses[side] <= bound:
            raise WorkerError(f"the loss of {side} is {found[side][0]}, PyTorch's in double precision {loss}")
    if wrong := beyond(errors["attend double"], EXACT):
        raise WorkerError(f"attend double: {wrong}")
    wrong = beyond(errors["attend"], max(TOLERANCE, LENIENCE * sides.errors[1]))
    return f"attend: {wrong}" if wrong else ""


def beyond(errors: dict[str, float], bound: float) -> str:
    """The first tensor whose gradient is off by more, or is not a number; "" if none is."""
    for key, off in errors.items():
        if not off <= bound:
            return f"the gradient of {key} is off by {off:.1e} of its norm, expected {bound:.1e}"
    return ""


def norm(x: np.ndarray) -> float:
    return float(np.linalg.norm(x.astype(np.float64)))


def fastest(sides: Sides, among: Iterable[str], float32: bool = False) -> str:
    """Of some sides, or of those of them that are in float32."""
    found = [side for side in among if side in sides.times and not (float32 and side.endswith("bfloat16"))]
    return min(found, key=lambda side: statistics.median(sides.times[side]))


def net(memory: dict[str, float]) -> float:
    """Peak memory less what the process had before it built anything: Python and its libraries, or our program."""
    return memory["peak"] - memory["idle"]


def document(settings: Settings, ceiling: Ceiling, results: dict[str, Sides]) -> list[str]:
    rows, shares, memory, ratios, notes = [], [], [], {}, []
    others = (*PYTORCH, MARIAN)
    columns = [side for side in (*ATTEND, *others) if any(side in s.times for s in results.values())]
    for name, s in results.items():
        best = fastest(s, PYTORCH, float32=True)
        pairs = [(fastest(s, others, float32=True), "attend"), (fastest(s, others), fastest(s, ATTEND))]
        ratios[name] = [report.median_ratio(s.times[theirs], s.times[ours]) for theirs, ours in pairs]
        compared = [f"{r:.2f} ({report.spread(s.times[a], s.times[b])}), {a} over {b}" for r, (a, b) in zip(ratios[name], pairs)]
        rows.append([name, *(report.milliseconds(s.times.get(side, [])) for side in columns), *compared])
        ours = s.flops / statistics.median(s.times["attend"])
        theirs = s.flops / statistics.median(s.times[best]) / ceiling.median()
        share, loaded = (ours / statistics.median(rates) for rates in (ceiling.rates, ceiling.loaded))
        shares.append(
            [name, f"{s.flops / 1e9:.3g}", f"{share:.0%}", f"{loaded:.0%}", f"{theirs:.0%}", f"{s.errors[0]:.0e}, {s.errors[1]:.0e}"]
        )
        sizes = [report.megabytes(value) for side in ("attend", best) for value in (s.memory[side]["peak"], net(s.memory[side]))]
        memory.append([name, *sizes, f"{net(s.memory['attend']) / net(s.memory[best]):.2f}"])
        notes += [f"- {name}: {note}" for note in s.notes]
    lines = ["## Training step", ""]
    lines += ["Milliseconds. bfloat16: products alone; eager and compile are PyTorch's, in bfloat16 by autocast. A ratio is of the fastest"]
    lines += ["other side to attend in float32, and of the fastest of all to attend's faster one.", ""]
    lines += report.table(["network", *columns, "ratio, float32", "ratio, each at its best"], rows)
    small = [ratios[n] for n in results if n != "base"]
    if small:
        means = [f"**{report.geometric_mean(list(ratio)):.2f}**" for ratio in zip(*small)]
        lines += ["", f"Geometric mean of the ratios without base: {means[0]} in float32, {means[1]} each at its best."]
    lines += ["", "In float32, of the ceiling of multiply-adds:", ""]
    head = ["network", "useful GFLOP", "attend's share", "of that under load", "PyTorch's share", "error of gradients, attend, PyTorch"]
    lines += report.table(head, shares)
    lines += ["", "In float32, peak memory of the process in MB, whole and without what it held before it built the network:", ""]
    lines += report.table(["network", "attend", "net", "PyTorch", "net", "attend / PyTorch, net"], memory)
    return lines + ([""] + notes if notes else [])
