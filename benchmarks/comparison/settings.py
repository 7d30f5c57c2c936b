"""What the user asked for, and the machine's ceiling."""

import json
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from .worker import Worker

NOTEBOOKS = ("notebook0", "notebook1", "notebook2", "notebook3", "notebook4")
NETWORKS = (*NOTEBOOKS, "tiny", "base")
ATTEND = {"attend": "float", "attend bfloat16": "bf16", "attend double": "double"}  # sides of a step, and what the program calls them
PYTORCH = ("eager", "compile", "eager-bfloat16", "compile-bfloat16")
MARIAN = "Marian"
OPTIONAL = ("attend bfloat16", *PYTORCH[1:], MARIAN)  # sides that may be left out


@dataclass
class Settings:
    program: Path  # attend_compare
    data: Path
    threads: int
    rounds: int
    min_time: float | None  # seconds of a timing at least; None: what the part thinks right
    clock: str  # "real" or "cpu"
    quick: bool
    networks: tuple[str, ...]
    tokens: int  # target tokens of a batch of Multi30k
    without: tuple[str, ...]  # sides of a training step that are left out
    compile_timeout: float
    model: Path | None
    lowercase: bool
    filter: str | None
    failures: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def fail(self, text: str) -> None:
        """Something is left out; the result says so."""
        self.say(text)
        self.failures.append(text)

    def seconds(self, usual: float) -> float:
        """Of a timing at least."""
        return self.min_time or usual

    def call(self, *words: str | Path) -> None:
        """Runs attend's program to its end."""
        subprocess.run([str(self.program), *map(str, words)], check=True, stdout=subprocess.DEVNULL)


@dataclass
class Ceiling:
    """Multiply-adds in all threads at once, measured in every round."""

    settings: Settings
    rates: list[float] = field(default_factory=list)  # FLOP/s, of all threads together
    loaded: list[float] = field(default_factory=list)  # the same after half a second of products

    def measure(self, threads: int | None = None) -> None:
        worker = Worker([self.settings.program, "ceiling"], threads or self.settings.threads)
        worker.close()
        self.rates.append(worker.ready["flops"] / worker.ready[self.settings.clock])
        self.loaded.append(worker.ready["flops"] / worker.ready["loaded"][self.settings.clock])

    def median(self) -> float:
        return statistics.median(self.rates)
