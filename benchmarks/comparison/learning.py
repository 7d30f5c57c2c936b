"""The whole job: from pairs to a translator, attend beside PyTorch and Marian."""

import argparse
import csv
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import curves, machine, report
from .worker import environment

VALIDATIONS = 12  # of a run, evenly over its time


@dataclass
class Point:
    """A validation."""

    minutes: float
    updates: int
    bleu: float


@dataclass
class Learnt:
    """What one side did."""

    name: str
    curve: list[Point] = field(default_factory=list)
    tokens: float = 0.0  # target tokens in all
    seconds: float = 0.0  # of training
    memory: float = 0.0  # bytes, the most that the process had
    test: list[str] = field(default_factory=list)  # translations of the test part
    note: str = ""

    def best(self) -> float:
        return max((p.bleu for p in self.curve), default=float("nan"))

    def minutes_to(self, bleu: float) -> float | None:
        """When a validation first had that BLEU."""
        return next((p.minutes for p in self.curve if p.bleu >= bleu), None)


def lines_of(text: str) -> list[str]:
    """Lines as `translate` and Marian have them: str.splitlines knows more ends of lines than they do."""
    return text.removesuffix("\n").split("\n") if text else []


def end_of(log: Path, status: int | None) -> str:
    """The last line of a log, for a message."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1][:300] if lines else f"ended with status {status}"


def read_pairs(file: Path) -> tuple[list[str], list[str]]:
    lines = [line.split("\t") for line in lines_of(file.read_text(encoding="utf-8")) if "\t" in line]
    return [x[0].strip() for x in lines], [x[1].strip() for x in lines]


def bleu(translations: Sequence[str], references: Sequence[str]) -> float:
    """sacreBLEU's, with 13a tokens, case-sensitive."""
    import sacrebleu

    return sacrebleu.corpus_bleu(list(translations), [list(references)], force=True).score


def peak_memory(process: subprocess.Popen) -> float:
    """Of a process that this waits for, in bytes."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_maxrss * 1024.0


class Comparison:
    def __init__(self, given: argparse.Namespace, program: Path, folder: Path):
        self.given, self.program, self.folder = given, program, folder
        self.test_sources, self.test_references = read_pairs(given.test)
        self.failures: list[str] = []

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def fail(self, text: str) -> None:
        self.failures.append(text)
        self.say(f"quality: {text}")

    def all(self, sides: Sequence[str], results: Path) -> int:
        """Runs all sides and writes the result after each. 1 if one of them failed."""
        jobs: list[tuple[str, Callable[[], Learnt]]] = []
        if "attend" in sides:
            for place, minutes in enumerate(self.given.attend_minutes or [self.given.minutes]):
                name = "attend" if minutes == self.given.minutes else f"attend, {minutes:g} minutes"
                options, home = ["--minutes", f"{minutes:g}"], "attend" if place == 0 else f"attend-{minutes:g}-minutes"
                jobs.append((name, lambda name=name, options=options, home=home: self.attend(name, options, home)))
        if "pytorch" in sides:
            jobs.append(("PyTorch", self.pytorch))
        if "marian" in sides:
            jobs.append(("Marian", self.marian))
        if self.given.updates and "attend" in sides:
            jobs.append(("attend, updates", self.attend_updates))
        if self.given.updates and "pytorch" in sides:
            jobs.append(("PyTorch, updates", self.pytorch_updates))
        learnt: list[Learnt] = []
        load = machine.load()
        for name, job in jobs:
            self.say(f"quality: {name}")
            try:
                learnt.append(job())
            except subprocess.CalledProcessError as e:
                self.fail(f"{name}: {Path(str(e.cmd[0])).name} ended with status {e.returncode}: {(e.stderr or '').strip()[-300:]}")
            except (OSError, subprocess.SubprocessError, ValueError) as e:
                self.fail(f"{name}: {e}")
            self.write(results, learnt, load)
        return 1 if self.failures or not learnt else 0

    # attend

    def train(self, name: str, options: Sequence[str], out: Path) -> Learnt:
        """`translate train` with these options."""
        table = out.with_name(f"{out.name}.csv")
        command = [self.program, "train", "--pairs", self.given.train, "--validation-pairs", self.given.validation]
        # If an option is given twice, the last one counts.
        command += ["--out", out, "--overwrite", "--csv", table, "--seed", self.given.seed, *shlex.split(self.given.attend), *options]
        log = out.with_name(f"{out.name}.log")
        with log.open("w") as told:
            process = subprocess.Popen([str(w) for w in command], stderr=told, env=environment(self.given.threads))
            learnt = Learnt(name, memory=peak_memory(process))
        if process.returncode != 0:
            raise OSError(end_of(log, process.returncode))
        with table.open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if row["validation_bleu"]:
                    learnt.curve.append(Point(float(row["seconds"]) / 60, int(row["step"]), float(row["validation_bleu"])))
                if row["tokens"]:
                    learnt.tokens = float(row["tokens"])
                learnt.seconds = float(row["seconds"])
        return learnt

    def attend(self, name: str, options: Sequence[str], home: str) -> Learnt:
        """The first run's model, in the folder attend, gives the others its subwords and sizes."""
        out = self.folder / home
        learnt = self.train(name, options, out)
        learnt.test = self.translate(out / "best")
        learnt.note = "`" + " ".join(["translate train", *options, self.given.attend]).strip() + "`"
        return learnt

    def translate(self, model: Path) -> list[str]:
        done = subprocess.run(
            [self.program, "run", "--model", model, "--beam", str(self.given.beam)],
            input="\n".join(self.test_sources) + "\n",
            capture_output=True,
            text=True,
            check=True,
            env=environment(self.given.threads),
        )
        return lines_of(done.stdout)

    def attend_updates(self) -> Learnt:
        """The same network and recipe as PyTorch's: Adam, the same schedule, as many tokens in an update."""
        config = json.loads((self.folder / "attend" / "best" / "config.json").read_text(encoding="utf-8"))
        sizes, target = config["encoder"], config["decoder"]
        options = ["--max-steps", self.given.updates, "--optimizer", "adam", "--learning-rate", self.given.rate]
        options += ["--warmup", self.given.warmup, "--tokens-per-batch", self.given.tokens]
        options += ["--encoder-layers", sizes["layers"], "--decoder-layers", target["layers"], "--d-model", sizes["d_model"]]
        options += ["--d-ff", sizes["d_ff"], "--heads", sizes["heads"], "--dropout", sizes["dropout"]["residual"]]
        options += ["--vocabulary", sizes["vocabulary"]]
        return self.attend("attend, updates", [str(o) for o in options], "attend-updates")

    # PyTorch

    def worker(self, name: str, way: str, limit: Sequence[str], trial: bool = False) -> Learnt:
        """Trains in one of PyTorch's ways. A trial stops after some seconds and translates nothing."""
        model = self.folder / "attend" / "best"
        if not model.exists():
            raise ValueError("PyTorch learns on attend's subwords and sizes: run the side attend too, or --keep a folder with it")
        out = self.folder / f"{name}.json"
        command = [sys.executable, "-m", "comparison.pytorch_train_worker", model, self.given.train, self.given.validation]
        command += [self.given.test, out, "--way", way, "--tokens", self.given.tokens, "--rate", self.given.rate, *limit]
        command += ["--warmup", self.given.warmup, "--beam", self.given.beam, "--seed", self.given.seed]
        command += ["--validations", 0 if trial else VALIDATIONS] + (["--trial"] if trial else [])
        command += [] if self.given.dropout is None or "updates" in name else ["--dropout", self.given.dropout]
        log = self.folder / f"{name}.log"
        with log.open("w") as told:
            process = subprocess.Popen([str(w) for w in command], stderr=told, stdout=told, env=environment(self.given.threads))
            memory = peak_memory(process)
        if process.returncode != 0:
            raise OSError(end_of(log, process.returncode))
        told = json.loads(out.read_text(encoding="utf-8"))
        curve = [Point(p["seconds"] / 60, p["updates"], p["bleu"]) for p in told["curve"]]
        return Learnt(name, curve, told["tokens"], told["seconds"], memory, told["test"], way)

    def way(self) -> str:
        """The way with the most tokens a second, from half a minute of each."""
        ways = self.given.ways.split(",") if self.given.ways else ["eager", "bf16", "compile", "compile-bf16"]
        if len(ways) == 1:
            return ways[0]
        speeds = {}
        for way in ways:
            try:
                trial = self.worker(f"pytorch-trial-{way}", way, ["--minutes", "0.5"], trial=True)
                speeds[way] = trial.tokens / trial.seconds
                self.say(f"quality: PyTorch, {way}: {speeds[way]:.0f} target tokens a second")
            except OSError as e:
                self.say(f"quality: PyTorch, {way}, left out: {e}")
        self.speeds = speeds
        if not speeds:
            raise OSError("PyTorch trains in none of its ways")
        return max(speeds, key=lambda way: speeds[way])

    def pytorch(self) -> Learnt:
        learnt = self.worker("pytorch", self.way(), ["--minutes", str(self.given.minutes)])
        tried = ", ".join(f"{way} {speed:.0f}" for way, speed in getattr(self, "speeds", {}).items())
        learnt.name, learnt.note = "PyTorch", learnt.note + (f" (tokens a second in a trial: {tried})" if tried else "")
        learnt.note += "" if self.given.dropout is None else f", dropout {self.given.dropout:g}"
        return learnt

    def pytorch_updates(self) -> Learnt:
        learnt = self.worker("pytorch-updates", (self.given.ways or "eager").split(",")[0], ["--updates", str(self.given.updates)])
        learnt.name = "PyTorch, updates"
        return learnt

    # Marian

    def marian(self) -> Learnt:
        """Marian saves a checkpoint now and then, and they are translated when its time is over."""
        model, home = self.folder / "attend" / "best", self.folder / "marian"
        if not model.exists():
            raise ValueError("Marian learns on attend's subwords and sizes: run the side attend too, or --keep a folder with it")
        home.mkdir(exist_ok=True)
        told, saved = home / "train.log", home / "model.npz"
        for old in (told, saved):
            old.unlink(missing_ok=True)
        sizes = json.loads((model / "config.json").read_text(encoding="utf-8"))
        options, decoder_layers = sizes["encoder"], sizes["decoder"]["layers"]
        vocabulary = home / "joint.spm"
        vocabulary.write_bytes((model / "tokenizer.model").read_bytes())
        for side, lines in zip(("source", "target"), read_pairs(self.given.train)):
            (home / f"train.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
        every = max(1.0, 60 * self.given.minutes / VALIDATIONS)
        dropout = options["dropout"]["residual"] if self.given.dropout is None else self.given.dropout
        command = ["train", "--type", "transformer", "-t", home / "train.source", home / "train.target"]
        command += ["-v", vocabulary, vocabulary, "-m", saved, "--cpu-threads", self.given.threads]
        command += ["--enc-depth", options["layers"], "--dec-depth", decoder_layers, "--dim-emb", options["d_model"]]
        command += ["--transformer-dim-ffn", options["d_ff"], "--transformer-heads", options["heads"]]
        # Without depth scaling of its initial values a post-norm Marian hardly learns in a short run (results/quality.md).
        command += ["--transformer-dropout", dropout, "--transformer-ffn-activation", "relu", "--transformer-depth-scaling"]
        command += ["--tied-embeddings-all", "--label-smoothing", 0.1, "--max-length", 200, "--sync-sgd"]
        command += ["--mini-batch-words", self.given.tokens, "--maxi-batch", 500, "--mini-batch", 1000]
        command += ["--optimizer-params", 0.9, 0.98, 1e-9, "--learn-rate", self.given.rate, "--clip-norm", 1]
        command += ["--lr-warmup", self.given.warmup, "--lr-decay-inv-sqrt", self.given.warmup, "--cost-type", "ce-mean-words"]
        command += ["--disp-freq", 50, "--disp-first", 1, "--save-freq", 50, "--seed", self.given.seed, "--overwrite", "--no-reload", "--after", "0e"]
        command += ["--exponential-smoothing", 1e-3, "--shuffle-in-ram", "-w", 2000, "--log", told, *shlex.split(self.given.marian)]
        run = [str(w) for w in (Path(sys.executable).with_name("pymarian"), *command)]
        started, taken = time.time(), []
        # One thread of its library of products for each of Marian's own.
        process = subprocess.Popen(run, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment(1))
        first: float | None = None  # when the first update was reported: what comes before is reading and packing
        due, written = every, 0.0  # when the next checkpoint is wanted, and when Marian wrote the last that was taken
        while True:
            time.sleep(0.2)
            if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                raise OSError(end_of(told, None))
            log = told.read_text(encoding="utf-8", errors="replace") if told.exists() else ""
            if first is None and "Up." in log:
                first = time.time()
            passed = time.time() - (first or started)
            if passed >= due and saved.exists() and saved.stat().st_mtime > written:
                copy = home / f"taken-{len(taken)}.npz"
                written = saved.stat().st_mtime
                copy.write_bytes(saved.read_bytes())
                if zipfile.is_zipfile(copy):  # Marian may be writing it just now: then the next time
                    taken.append((passed, copy, marian_progress(log)[0]))
                    due = every * (passed // every + 1)
            if passed >= 60 * self.given.minutes:
                break
        passed = time.time() - (first or started)
        process.send_signal(signal.SIGKILL)
        memory = peak_memory(process)
        updates, tokens = marian_progress(told.read_text(encoding="utf-8", errors="replace"))
        if not taken:
            raise OSError("Marian saved nothing in that time")
        learnt = Learnt("Marian", tokens=tokens, seconds=passed, memory=memory, note="pymarian " + marian_options(command, home))
        sources, references = read_pairs(self.given.validation)
        for seconds, copy, step in taken:
            score = bleu(self.marian_translate(copy, vocabulary, sources, 1), references)
            learnt.curve.append(Point(seconds / 60, step, score))
        best = max(range(len(taken)), key=lambda i: learnt.curve[i].bleu)
        learnt.test = self.marian_translate(taken[best][1], vocabulary, self.test_sources, self.given.beam)
        return learnt

    def marian_translate(self, model: Path, vocabulary: Path, sources: Sequence[str], beam: int) -> list[str]:
        run = [Path(sys.executable).with_name("pymarian"), "decode", "-m", model, "-v", vocabulary, vocabulary, "-b", beam]
        run += ["--normalize", 0.6, "--cpu-threads", self.given.threads, "--mini-batch", 32, "--maxi-batch", 100, "--quiet"]
        run += ["--max-length", 200, "--max-length-factor", 3]
        done = subprocess.run(
            [str(w) for w in run], input="\n".join(sources) + "\n", capture_output=True, text=True, check=True,
            env=environment(1),
        )
        return lines_of(done.stdout)

    # What came of it

    def write(self, results: Path, learnt: Sequence[Learnt], load: float) -> None:
        given = self.given
        results.mkdir(exist_ok=True)
        here = {"--train", "--validation", "--test", "--build", "--keep"}  # followed by a path of this machine
        words, skip = [], False
        for word in sys.argv[1:]:
            if word.split("=")[0] in here and "=" in word:
                words.append(f"{word.split('=')[0]}={Path(word.split('=', 1)[1]).name}")
                continue
            if skip:
                words.append(Path(word).name)
                skip = False
                continue
            words.append(word)
            skip = word in here
        lines = [
            "# Learning compared",
            "",
            f"- {machine.now()}, checkout at {machine.commit()}",
            f"- {machine.processor()}, {os.cpu_count()} processors, {given.threads} threads each side; load before: {load:.1f}",
            f"- {machine.compiler(given.build)}",
            "- " + ", ".join(f"{p} {machine.version(p)}" for p in ("torch", "pymarian", "sacrebleu") if machine.version(p)),
            f"- {len(read_pairs(given.train)[0])} pairs to learn from, {len(read_pairs(given.validation)[0])} for validation, "
            f"{len(self.test_sources)} for the test",
            f"- `{shlex.join(['benchmarks/quality', *words])}`",
            "",
            f"Validation BLEU is of greedy translations, test BLEU of beam {given.beam} with the checkpoint that validation chose; "
            "both sacreBLEU's, 13a tokens.",
            "",
        ]
        rows = []
        for side in learnt:
            score = bleu(side.test, self.test_references) if side.test else float("nan")
            updates = side.curve[-1].updates if side.curve else 0
            rows.append(
                [side.name, f"{side.seconds / 60:.1f}", f"{updates:,}", f"{side.tokens / max(side.seconds, 1e-9):,.0f}"]
                + [f"{side.memory / 1e6:.0f}", f"{side.best():.2f}", f"{score:.2f}"]
            )
        lines += report.table(["", "minutes", "updates", "target tokens/s", "peak MB", "validation BLEU", "test BLEU"], rows)
        lines += ["", "Minutes until a validation had the best BLEU of another side:", ""] + self.overtaken(learnt)
        lines += ["", f"![validation BLEU over minutes]({given.name}.svg)", "", "| | BLEU (minutes, updates) |", "|---|---|"]
        for side in learnt:
            lines.append(f"| {side.name} | " + ", ".join(f"{p.bleu:.1f} ({p.minutes:.1f}, {p.updates:,})" for p in side.curve) + " |")
        lines += [""] + [f"- {side.name}: {side.note}" for side in learnt if side.note]
        lines += ["", "## Failed", "", *(f"- {failure}" for failure in self.failures)] if self.failures else []
        (results / f"{given.name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
        timed = [side for side in learnt if "updates" not in side.name]
        drawing = curves.draw([(s.name, [(p.minutes, p.bleu) for p in s.curve]) for s in timed], "minutes", "BLEU, validation")
        (results / f"{given.name}.svg").write_text(drawing, encoding="utf-8")
        (self.folder / f"{given.name}.translations.json").write_text(
            json.dumps({side.name: side.test for side in learnt}, ensure_ascii=False, indent=0), encoding="utf-8"
        )

    @staticmethod
    def overtaken(learnt: Sequence[Learnt]) -> list[str]:
        timed = [side for side in learnt if "updates" not in side.name]
        rows = []
        for other in timed:
            row = [f"{other.name}'s {other.best():.1f}"]
            for side in timed:
                minutes = side.minutes_to(other.best())
                row.append("–" if minutes is None else f"{minutes:.1f}")
            rows.append(row)
        return report.table(["", *(side.name for side in timed)], rows)


def marian_progress(log: str) -> tuple[int, float]:
    """Updates, and target tokens in all, by the lines `Up. 100 : Sen. 5,000 : Cost 7.1 : Time 9.5s : 2102.4 words/s`."""
    told = re.findall(r"Up\. ([\d,]+) :.* Time ([\d.]+)s : ([\d.]+) words/s", log)
    return int(told[-1][0].replace(",", "")) if told else 0, sum(float(seconds) * float(speed) for _, seconds, speed in told)


def marian_options(command: Sequence[object], home: Path) -> str:
    return " ".join(Path(w).name if isinstance(w, Path) else str(w) for w in command)
