"""What the scripts of this folder share: the command line, a small training, and what must hold after a fault."""

import argparse
import hashlib
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LINES = "I see tea.\nAna wants a cat.\n"
INTERVAL = 2  # steps between checkpoints


class Fault(Exception):
    """The program did what it must not do."""


def arguments(doc: str, runs: int) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("program", type=Path, help="the program translate: build/bin/translate")
    parser.add_argument("--runs", type=int, default=runs, help=f"faults to make ({runs})")
    parser.add_argument("--seed", type=int, default=1, help="of the faults, as far as they do not go by the clock")
    parser.add_argument("--steps", type=int, default=60, help="of the training, an even number")
    given = parser.parse_args()
    given.program = given.program.resolve()
    if not os.access(given.program, os.X_OK):
        parser.error(f"{given.program} is no program")
    if given.steps < 12 or given.steps % 2 or given.runs < 1:
        parser.error("--steps is an even number of 12 or more, --runs 1 or more")
    return given


def pairs() -> str:
    """Sentences in words that are learnt within some dozen steps."""
    subjects = (("I", "yo"), ("Ana", "Ana"), ("we", "nosotros"), ("she", "ella"))
    verbs = (("see", "vemos"), ("want", "queremos"), ("have", "tenemos"))
    objects = (("tea", "te"), ("bread", "pan"), ("books", "libros"), ("a cat", "un gato"), ("a house", "una casa"), ("water", "agua"))
    return "".join(f"{a} {b} {c}.\t{x} {y} {z}.\n" for a, x in subjects for b, y in verbs for c, z in objects)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "missing"


class Work:
    """A folder of its own for all that a script writes, and the program at work in it. If a fault is found, the folder stays."""

    def __init__(self, given: argparse.Namespace):
        self.program, self.steps = given.program, given.steps
        self.random = random.Random(given.seed)
        self.folder = Path(tempfile.mkdtemp(prefix="attend-faults-"))
        self.pairs = self.folder / "pairs.tsv"
        self.pairs.write_text(pairs())

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, words: list, **options) -> subprocess.Popen:
        """Starts the program on one thread. Its messages go to a pipe, which no limit of files concerns."""
        options.setdefault("stdout", subprocess.DEVNULL)
        options.setdefault("stdin", subprocess.DEVNULL)
        words = [str(self.program), "--threads", "1", *map(str, words)]
        return subprocess.Popen(words, stderr=subprocess.PIPE, text=True, errors="replace", **options)

    def finish(self, words: list, **options) -> tuple[int, str]:
        """Runs the program to its end: the exit code, negative for a signal, and its messages."""
        process = self.start(words, **options)
        _, messages = process.communicate()
        return process.returncode, messages

    def succeed(self, words: list, **options) -> str:
        code, messages = self.finish(words, **options)
        if code != 0:
            raise Fault(f"translate {' '.join(map(str, words))} ended with {code}: {messages.strip()[-500:]}")
        return messages

    def training(self, out: Path) -> list:
        return ["train", "--pairs", self.pairs, "--out", out, "--d-model", 16, "--heads", 2, "--layers", 1, "--vocabulary", 60,
                "--tokens-per-batch", 120, "--validation-size", 6, "--epochs", 0, "--max-steps", self.steps, "--validate-every", 3,
                "--checkpoint-every", INTERVAL, "--keep-checkpoints", 3, "--learning-rate", 0.003, "--warmup", 10]

    def going_on(self, out: Path) -> list:
        """The command line that goes on with the run in that folder, or begins anew if it left no checkpoint."""
        if has_state(out):
            return ["train", "--resume", "--out", out]
        return [*self.training(out), "--overwrite"]

    def check_models(self, folder: Path) -> bool:
        """Whether there is a model in that folder of a run. It, and each that the run has written, must then translate."""
        for part in folder.iterdir() if folder.is_dir() else ():
            if part.is_dir():
                self.has_good_model(part)
        return self.has_good_model(folder)

    def has_good_model(self, folder: Path) -> bool:
        """Whether there is a model. It must then translate."""
        process = self.start(["run", "--model", folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        output, messages = process.communicate(LINES)
        if process.returncode == 0 and output.count("\n") == LINES.count("\n") and not messages:
            return True
        if process.returncode == 1 and "is no model" in messages and not has_state(folder):
            return False
        raise Fault(f"{folder} holds no good model: {process.returncode}, {messages.strip()[-500:]}")


class Reference:
    """The same training without any fault: what it comes to, and the time and the room that it takes."""

    def __init__(self, work: Work):
        self.folder = work.folder / "reference"
        begin = time.monotonic()
        work.succeed(work.training(self.folder))
        self.seconds = time.monotonic() - begin
        self.last, self.best = (digest(self.folder / name / "model.safetensors") for name in ("last", "best"))
        self.files = [path for path in self.folder.rglob("*") if path.is_file()]
        self.largest = max(path.stat().st_size for path in self.files)
        self.bytes = sum(path.stat().st_size for path in self.files)

    def check(self, folder: Path, best: bool = True) -> None:
        """The run in that folder has come to the same bits."""
        for name, expected in (("last", self.last), *((("best", self.best),) if best else ())):
            if digest(folder / name / "model.safetensors") != expected:
                raise Fault(f"{folder / name} has other bits than the run without a fault")


class Lost:
    """What kills cost a training: the steps it had told of and does not go on from."""

    def __init__(self):
        self.seen = self.step = self.most = 0

    def check(self, folder: Path, words: list, messages: str) -> bool:
        """Whether the run of these words and messages went on from a checkpoint. It must be no earlier one than the last went on
        from, and no more than the steps of one interval may be lost."""
        going_on = re.search(r"going on from step (\d+)", messages)
        if not going_on and "--resume" in words:  # killed before it said so
            return False
        step = int(going_on[1]) if going_on else 0
        if step < self.step:
            raise Fault(f"{folder}: goes on from step {step}, after it went on from {self.step}")
        self.most = max(self.most, self.seen - step)
        if self.most > INTERVAL:
            raise Fault(f"{folder}: goes on from step {step}, with a checkpoint every {INTERVAL}, though step {self.seen} was over")
        self.step, self.seen = step, max(map(int, re.findall(r"\bstep (\d+)", messages)), default=0)
        return going_on is not None


def has_state(folder: Path) -> bool:
    return any((folder / "last" / part / "training.safetensors").is_file() for part in ("", ".attend-pending"))


def leftovers(folder: Path) -> int:
    """Files and folders that only a killed program leaves behind, and the next that writes there takes away."""
    return sum(".tmp-" in path.name or path.name.startswith(".attend-") for path in folder.rglob("*"))


def check_failure(code: int, messages: str, reasons: tuple[str, ...]) -> None:
    """The program has failed as it should: exit code 1, and in the last line why."""
    last = messages.strip().splitlines()[-1:] or [""]
    if code != 1 or not last[0].startswith("translate: ") or not any(reason in last[0] for reason in reasons):
        raise Fault(f"it ended with {code} and {last[0]!r}, expected 1 and one of {reasons}")


def main(name: str, given: argparse.Namespace, script, kind=Work) -> None:
    """Runs the script, which gives a line of what it counted."""
    work = kind(given)
    begin = time.monotonic()
    try:
        text = script(work, Reference(work), given.runs)
    except Fault as fault:
        print(f"{name}: FAULT: {fault}\n{name}: see {work.folder}", file=sys.stderr)
        sys.exit(1)
    except BaseException:
        work.close()
        raise
    work.close()
    print(f"{name}: {text}; no fault in {time.monotonic() - begin:.0f} s")
