#!/usr/bin/env python3
"""Sets attend on a GPU against PyTorch, on the same work in one run, and writes benchmarks/results/compare_gpu.md.

    benchmarks/gpu/compare_gpu.py [--rounds 5] [--seconds 1] [--only ceilings|kernels|step|decode|notebooks] [--limit SECONDS]

It needs attend_gpu_benchmark (cmake --preset cuda && cmake --build --preset cuda --target attend_gpu_benchmark), and PyTorch
for CUDA; without PyTorch attend's side is measured alone. Each round runs every side once, in turn, in processes that stay. It
installs nothing. What fails or is left out stands below the table."""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from comparison import machine  # noqa: E402
from comparison.worker import Worker, WorkerError, environment  # noqa: E402
from gpu import batches  # noqa: E402
from gpu.results import Measured, Table  # noqa: E402

PARTS = ("ceilings", "kernels", "step", "decode", "notebooks")
TOKENS, SENTENCES, BATCH, LENGTH = 25_000, 3_000, 500, 20
CORPORA = {"multi30k": 29_000, "tatoeba": 117_000}  # pairs that they have
Task = tuple[str, list[str], list[str]]  # a measurement's name, its arguments, and PyTorch's modes
NOTEBOOKS = {  # sentences, source and target length; those without a vocabulary have inputs of their own
    "notebook0": (8, 256, 128),
    "notebook1": (16, 25, 25),
    "notebook2": None,
    "notebook3": None,
    "notebook4": (5, 128, 128),
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, action="append", help="this part; may be given again for another")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a measurement of training steps, about")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds after which nothing new is begun")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--prepare", action="store_true", help="measure nothing, fill the cache of torch.compile")
    parser.add_argument("--small", action="store_true", help="little work, to see that everything runs")
    parser.add_argument("--program", type=Path, default=HERE.parents[1] / "build-cuda" / "bin" / "attend_gpu_benchmark")
    parser.add_argument("--out", type=Path, default=HERE.parent / "results" / "compare_gpu.md")
    given = parser.parse_args()
    if given.rounds < 1 or given.seconds < 0:
        parser.error("--rounds must be positive, --seconds not negative")
    return given


class Comparison:
    def __init__(self, given: argparse.Namespace, folder: Path):
        self.given, self.folder, self.began = given, folder, time.monotonic()
        self.threads = os.cpu_count() or 1
        self.torch = bool(machine.version("torch"))
        self.preparing: list[subprocess.Popen] = []
        self.table = Table()
        self.device = "device unknown"
        self.versions: list[str] = []
        if not self.torch:
            self.table.notes.append(f"{Path(sys.executable).name} has no torch: attend alone is measured")

    def left(self) -> float:
        return self.began + self.given.limit - time.monotonic()

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self.began:4.0f} s  {text}", file=sys.stderr, flush=True)

    def start(self, side: str, words: list[str]) -> Worker:
        command = [self.given.program, *words] if side == "attend" else [sys.executable, "-m", "gpu.pytorch_gpu", *words]
        return Worker(command, self.threads, max(60.0, self.left()))

    def measure(self, tasks: list[Task]) -> Iterator[tuple[str, Measured]]:
        """Each task's name and what was measured, both sides in turn. The workers of all tasks get ready at once, before anything
        is timed. A side that fails is left out, and said so."""
        if self.given.prepare:
            for _, words, modes in tasks:
                self.prepare(words, [mode for mode in modes if "compile" in mode])
            return
        warmed: list[dict[str, Worker]] = [{} for _ in tasks]
        with ThreadPoolExecutor() as pool:
            try:
                if self.left() > 0:
                    warmed = list(pool.map(lambda task: self.warm(*task), tasks))
                for (name, _, _), workers in zip(tasks, warmed):
                    if self.left() > 0:
                        yield name, self.rounds(name, workers)
                    else:
                        self.table.notes.append(f"{name}: left out, the time was up")
            finally:
                list(pool.map(Worker.close, [worker for workers in warmed for worker in workers.values()]))

    def rounds(self, name: str, workers: dict[str, Worker]) -> Measured:
        """What these workers answer, each asked in turn. One that fails is closed and taken out."""
        measured = Measured({side: worker.ready for side, worker in workers.items()})
        self.table.notes += [f"{name}: {note}" for note in measured.ready.get("PyTorch", {}).get("notes", [])]
        for _ in range(self.given.rounds):
            self.say(f"{name}: a round")
            for side, worker in list(workers.items()):
                for mode in worker.ready.get("modes", [side]):
                    try:
                        measured.add(mode, worker.ask("time", max(60.0, self.left()), mode=mode))
                    except WorkerError as e:
                        self.failed(name, f"{side} {mode}", e)
                        workers.pop(side).close()
                        break
        return measured

    def warm(self, name: str, words: list[str], modes: list[str]) -> dict[str, Worker]:
        """Both sides' workers, as far as they can be had. They begin at once: nothing is timed yet."""
        self.say(f"{name}: warming")
        plain = [mode for mode in modes if "compile" not in mode]
        if self.given.no_compile:
            modes = plain
        wanted = {"attend": words} | ({"PyTorch": [*words, *modes]} if self.torch else {})
        workers: dict[str, Worker] = {}
        with ThreadPoolExecutor() as pool:
            starting = {side: pool.submit(self.start, side, arguments) for side, arguments in wanted.items()}
        for side, worker in starting.items():
            try:
                try:
                    workers[side] = worker.result()
                except WorkerError as e:
                    if side == "attend" or plain == modes:
                        raise
                    self.table.notes.append(f"{name}: torch.compile left out, {str(e).splitlines()[-1]}")
                    workers[side] = self.start(side, [*words, *plain])
            except (OSError, WorkerError) as e:
                self.failed(name, side, e)
        return workers

    def prepare(self, words: list[str], modes: list[str]) -> None:
        """Begins to compile what will be measured, and leaves it in the cache of torch.compile."""
        if not modes or not self.torch:
            return
        limits = {**environment(self.threads), "TORCHINDUCTOR_COMPILE_THREADS": "4"}
        command = [sys.executable, "-m", "gpu.pytorch_gpu", *words, *modes]
        self.preparing.append(subprocess.Popen(command, env=limits, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL))

    def failed(self, name: str, side: str, error: Exception) -> None:
        text = f"{name}, {side}: {' / '.join(str(error).splitlines()[-3:])}"
        self.say(text)
        self.table.failures.append(text)

    def ceilings(self) -> None:
        for _, measured in self.measure([("ceilings", ["ceilings", *(["small"] if self.given.small else [])], [])]):
            self.devices(measured)
            self.table.ceilings(measured)

    def devices(self, measured: Measured) -> None:
        """What the table's head says of the device and of the versions."""
        ready = measured.ready.get("attend", {})
        self.device = ready.get("device", self.device)
        self.versions = [f"CUDA {ready['cuda']}, driver for CUDA {ready['driver']}"] if ready else []
        if "PyTorch" in measured.ready:
            self.versions.append(f"PyTorch {measured.ready['PyTorch']['torch']} with CUDA {measured.ready['PyTorch']['cuda']}")

    def kernels(self) -> None:
        if self.given.prepare:
            return
        if self.left() <= 0:
            self.table.notes.append("kernels: left out, the time was up")
            return
        self.say("kernels")
        command = [str(self.given.program), "kernels", *(["small"] if self.given.small else [])]
        limit, words = max(60.0, self.left()), environment(self.threads)
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit, env=words, check=False)
            self.table.kernels(done.stdout)
            if done.returncode:
                raise WorkerError(done.stderr)
        except (OSError, subprocess.TimeoutExpired, WorkerError) as e:
            self.failed("kernels", "attend", e)

    def step(self) -> None:
        for network in ("small",) if self.given.small else ("base", "big"):
            for corpus, pairs in list(CORPORA.items())[: 1 if self.given.prepare else None]:  # compiled alike
                tokens, count = (60, 2) if self.given.small else (TOKENS, 4)
                file = self.file(f"{corpus}.step", batches.training(self.sample(corpus), pairs, tokens, count))
                words = ["step", network, str(file), str(self.given.seconds)]
                # One at a time: several would not find room beside each other.
                for name, measured in self.measure([(f"training step, {network}, {corpus}", words, ["eager", "compile"])]):
                    self.table.steps(name, measured)
                    self.write()

    def notebooks(self) -> None:
        tasks = []
        for network, shape in NOTEBOOKS.items():
            if self.given.small and network != "notebook2":
                continue
            # The begin and the end token are added to each.
            file = self.file(network, [[(shape[1] - 1, shape[2] - 1)] * shape[0]] if shape else [])
            words = ["step", network, str(file), str(self.given.seconds)]
            tasks.append((f"training step, {network}", words, ["eager", "graph", "compile+graph"]))
        for name, measured in self.measure(tasks):
            self.table.steps(name, measured)
            self.write()

    def decode(self) -> None:
        network, sentences, size, length = ("small", 6, 3, 4) if self.given.small else ("base", SENTENCES, BATCH, LENGTH)
        file = self.file("decode", batches.decoding(self.sample("multi30k"), sentences, size))
        tasks = []
        for beam, search in ((1, "greedy"), (4, "beam of 4")):
            name = f"{search}, {network}, {sentences} sentences of {length} tokens"
            tasks.append((name, ["decode", network, str(file), str(length), str(beam)], ["eager", "graph", "compile+graph"]))
        for name, measured in self.measure(tasks):
            self.table.decoding(name, measured)
            self.write()

    def sample(self, corpus: str) -> batches.Pairs:
        return [pair for (pair,) in batches.read(HERE / f"lengths_{corpus}.txt")]

    def file(self, name: str, content: list[batches.Pairs]) -> Path:
        batches.write(self.folder / name, content)
        return self.folder / name

    def head(self) -> list[str]:
        here = {"--program", "--out"}  # followed by a path of this machine
        words = [word for i, word in enumerate(sys.argv[1:], 1) if not {sys.argv[i - 1], word} & here]
        return [
            "# attend and PyTorch on a GPU",
            "",
            f"- {machine.now()}, checkout at {machine.commit() if shutil.which('git') else 'unknown'}",
            f"- {self.device}, driver {driver()}",
            f"- {', '.join(self.versions)}",
            f"- {machine.processor()}, {self.threads} processors",
            f"- `{shlex.join(['benchmarks/gpu/compare_gpu.py', *words])}`",
            "",
            f"bfloat16. Medians of {self.given.rounds} rounds; a ratio is PyTorch's time over attend's, so above 1 attend is",
            "faster, the median of the rounds' ratios. benchmarks/README.md says what is measured, and what is counted.",
            "",
            *(["**Little work, to see that everything runs: the times mean nothing.**", ""] if self.given.small else []),
        ]

    def write(self) -> None:
        self.given.out.parent.mkdir(parents=True, exist_ok=True)
        self.given.out.write_text("\n".join([*self.head(), *self.table.lines()]) + "\n", encoding="utf-8")


def driver() -> str:
    if not shutil.which("nvidia-smi"):
        return "unknown"
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return (subprocess.run(query, capture_output=True, text=True, check=False).stdout.splitlines() or ["unknown"])[0]


def main() -> None:
    given = arguments()
    if not given.program.exists() and not given.prepare:
        sys.exit(
            f"{given.program} is missing; build it with:\n"
            "  cmake --preset cuda && cmake --build --preset cuda --target attend_gpu_benchmark"
        )
    with tempfile.TemporaryDirectory(prefix="attend-gpu-") as folder:
        comparison = Comparison(given, Path(folder))
        for part in given.only or PARTS:
            getattr(comparison, part)()
            if not given.prepare:
                comparison.write()
        if given.prepare:
            sys.exit(max((process.wait() for process in comparison.preparing), default=0))
    print(given.out.read_text(encoding="utf-8"))
    sys.exit(1 if comparison.table.failures or not comparison.table.rows else 0)


if __name__ == "__main__":
    main()
