"""Part 2: translation with one trained model, attend against CTranslate2, Marian, and PyTorch with a key-value cache."""

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import sentencepiece

from . import machine, report
from .settings import Ceiling, Settings
from .worker import Answer, Worker, WorkerError, python_worker, settle

SETTINGS = ((1, 1), (1, 32), (4, 1), (4, 32))  # beam, batch
ALPHA = 0.6  # log-probabilities are divided by n ** ALPHA
MAX_LENGTH = 128
PRECISIONS = ("float32", "bfloat16", "int8")  # of attend
SAMPLE = 20  # one batch in so many, but SHARE at least for each worker, show which way suits another library best
SHARE = 4
TRIAL = 0.4  # seconds that each way is tried for at least
ROUNDING = 5e-3  # two scores, sums of up to a hundred numbers and more, that differ by less than this may change places


@dataclass(frozen=True)
class Way:
    """How a library uses the processor."""

    workers: int  # batches that are translated side by side
    threads: int  # of each of them
    numbers: str = ""  # what it computes in, where the library has several for one precision

    def __str__(self) -> str:
        return f"{self.workers} × {self.threads}" + (f", {self.numbers}" if self.numbers else "")


def ways(threads: int, side_by_side: bool, numbers: tuple[str, ...] = ("",)) -> list[Way]:
    """All that a library has: every thread in one batch; one alone, because threads that wait for each other at every operation can be
    slower; and a batch for each thread, if it translates batches side by side."""
    shapes = [(1, threads), *([(threads, 1)] if side_by_side else []), (1, 1)]
    return [Way(*shape, kind) for kind in numbers for shape in dict.fromkeys(shapes)]


@dataclass
class Measured:
    """One side in one setting."""

    times: list[float] = field(default_factory=list)  # seconds for all sentences, round by round
    outputs: list[list[int]] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    bleu: float | None = None
    way: Way = Way(1, 1)
    trial: dict[Way, float] = field(default_factory=dict)  # tokens a second of each way, if there are several


@dataclass
class Side:
    """A library in one precision, in all its ways; the fastest in a trial counts."""

    workers: dict[Way, Worker] = field(default_factory=dict)
    way: Way = Way(1, 1)  # the one that counts
    counted: set[Way] = field(default_factory=set)  # in any setting

    def ask(self, do: str, **request: object) -> Answer:
        return self.workers[self.way].ask(do, **request)

    def choose(self, settings: Settings, batches: int, request: dict[str, object]) -> dict[Way, float]:
        """By some of so many batches, which the ways take in turn, so that a slow moment of the machine is not one way's alone.
        Tokens a second of each way when it was fastest."""
        speeds: dict[Way, float] = {}
        if len(self.workers) > 1:
            least = SHARE * max(way.workers for way in self.workers)
            every = max(1, batches // max(least, batches // SAMPLE))
            times: dict[Way, list[float]] = {way: [] for way in self.workers}
            while any(len(own) < 3 or sum(own) < TRIAL for own in times.values()):
                for way, worker in self.workers.items():
                    settle()
                    answer = worker.ask("translate", scores=False, every=every, **request)
                    times[way].append(answer[settings.clock])
                    # Without the first time, when threads and memory wake up.
                    speeds[way] = sum(len(o) + 1 for o in answer["outputs"]) / min(times[way][1:] or times[way])
            self.way = max(speeds, key=speeds.__getitem__)
        self.counted.add(self.way)
        return speeds

    def memory(self) -> Answer:
        return max((self.workers[way].ask("memory") for way in self.counted), key=lambda answer: answer["peak"])

    def close(self) -> None:
        for worker in self.workers.values():
            worker.close()


class Text:
    """Sources in batches' order, references, and the model's subwords."""

    def __init__(self, settings: Settings, model: Path):
        self.subwords = sentencepiece.SentencePieceProcessor(model_file=str(model / "tokenizer.model"))
        folder, step = settings.data / "multi30k", 10 if settings.quick else 1

        def lines(language: str) -> list[str]:
            text = (folder / f"test_2016_flickr.{language}").read_text(encoding="utf-8")
            return [line.strip() for line in (text.lower() if settings.lowercase else text).splitlines()][::step]

        pairs = [(self.subwords.encode(s) + [self.subwords.eos_id()], t) for s, t in zip(lines("en"), lines("de"))]
        # The longest first, so that what stands in a batch is of like length, for all sides alike.
        pairs.sort(key=lambda pair: -len(pair[0]))
        self.sources, self.references = [s for s, _ in pairs], [t for _, t in pairs]

    def marks(self) -> dict[str, object]:
        s = self.subwords
        begin = s.bos_id() if s.bos_id() >= 0 else s.eos_id()
        never = sorted({mark for mark in (s.pad_id(), s.bos_id(), s.unk_id()) if mark >= 0} - {s.eos_id()})
        return {"bos": begin, "eos": s.eos_id(), "suppressed": never}

    def pieces(self) -> list[str]:
        return [self.subwords.id_to_piece(i) for i in range(self.subwords.get_piece_size())]

    def bleu(self, outputs: list[list[int]]) -> float | None:
        """sacreBLEU's figure, if it is installed."""
        if not machine.version("sacrebleu"):
            return None
        import sacrebleu

        return sacrebleu.corpus_bleu([self.subwords.decode(o) for o in outputs], [self.references]).score


def run(settings: Settings, ceiling: Ceiling) -> Iterator[list[str]]:
    """Measures and gives the lines of the result, after each setting again."""
    assert settings.model is not None
    results: dict[tuple[int, int], dict[str, Measured]] = {setting: {} for setting in SETTINGS}
    with tempfile.TemporaryDirectory(prefix="attend-compare-") as folder:
        # A copy: a training that still runs may put another model in its place.
        model = Path(shutil.copytree(settings.model, Path(folder) / "model"))
        text = Text(settings, model)
        sides: dict[str, Side] = {}
        notes: list[str] = []
        try:
            start(settings, text, model, Path(folder), sides, notes)
            for setting, measured in results.items():
                try:
                    check(settings, text, sides, setting, measured)
                except WorkerError as e:
                    measured.clear()
                    settings.fail(f"translate: {e}")
                    continue
                for r in range(settings.rounds):
                    settings.say(f"translate beam {setting[0]}, batch {setting[1]}: round {r + 1} of {settings.rounds}")
                    ceiling.measure()
                    for name, side in sides.items():
                        settle()
                        answer = side.ask("translate", scores=False, every=1, **request(text, setting))
                        measured[name].times.append(answer[settings.clock])
                yield document(text, results, {name: side.memory() for name, side in sides.items()}, notes)
        finally:
            for side in sides.values():
                side.close()


def start(settings: Settings, text: Text, model: Path, folder: Path, sides: dict[str, Side], notes: list[str]) -> None:
    """Adds all sides that there are, attend first. `notes`: what a reader has to know of them."""
    pieces = folder / "pieces.json"
    pieces.write_text(json.dumps(text.pieces()), encoding="utf-8")
    marian = marian_takes_part(settings, model, notes)
    for precision in PRECISIONS:
        if precision == "bfloat16" and not machine.has_bfloat16():
            continue
        commands = {way: [settings.program, "translate", model, precision, way.workers] for way in ways(settings.threads, True)}
        add(settings, text, sides, f"attend {precision}", commands)
    if machine.version("ctranslate2"):
        for precision, numbers in compute_types().items():
            commands = {}
            for way in ways(settings.threads, True, numbers):
                work = [model, pieces, folder / "ctranslate2", way.numbers or precision, way.workers]
                commands[way] = python_worker("ctranslate2_worker", *work)
            add(settings, text, sides, f"CTranslate2 {precision}", commands)
    if marian:
        packed = "packed8avx512" if machine.has("avx512bw") else "packed8avx2"
        for precision, numbers in {"float32": ("",), "int8": ("intgemm8", packed)}.items():
            commands = {}
            for way in ways(settings.threads, True, numbers):
                work = [model, pieces, folder / "marian", way.numbers or precision, way.workers]
                commands[way] = python_worker("marian_translate_worker", *work)
            add(settings, text, sides, f"Marian {precision}", commands)
    if machine.version("torch"):
        for precision in ("float32", "bfloat16") if machine.has_bfloat16() else ("float32",):
            command = python_worker("pytorch_translate_worker", model, precision)
            add(settings, text, sides, f"PyTorch {precision}", dict.fromkeys(ways(settings.threads, False), command))


def add(settings: Settings, text: Text, sides: dict[str, Side], name: str, commands: dict[Way, list[str | Path]]) -> None:
    """Starts the processes of a side, one for each of its ways. attend is told of all threads, others of each worker's."""
    settings.say(f"translate: loading {name}")
    side = sides[name] = Side()
    try:
        for way, command in commands.items():
            side.way = way
            side.workers[way] = Worker(command, way.workers * way.threads if name.startswith("attend") else way.threads)
            side.ask("sources", sources=text.sources)
    except WorkerError as e:
        raise WorkerError(f"{name}: {e}") from e


def compute_types() -> dict[str, tuple[str, ...]]:
    """CTranslate2's on this processor, by precision. Asked in a process of its own, which keeps this one small."""
    ask = "import ctranslate2; print(*ctranslate2.get_supported_compute_types('cpu'))"
    known = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True).stdout.split()
    types = {"float32": ("",), "int8": tuple(t for t in ("int8_float32", "int8_bfloat16") if t in known)}
    return types | ({"bfloat16": ("",)} if "bfloat16" in known else {})


def marian_takes_part(settings: Settings, model: Path, notes: list[str]) -> bool:
    """If it is there and has a place for all of the model."""
    if not machine.version("pymarian"):
        return False
    from . import marian_model

    obstacles = marian_model.obstacles(model)
    if obstacles:
        notes.append(f"Marian is left out: it has no place for {'; '.join(obstacles)}.")
        settings.say(f"translate: {notes[-1]}")
    return not obstacles


def request(text: Text, setting: tuple[int, int]) -> dict[str, object]:
    beam, batch = setting
    return {**text.marks(), "beam": beam, "batch": batch, "alpha": ALPHA if beam > 1 else 0.0, "max_length": MAX_LENGTH}


def check(
    settings: Settings, text: Text, sides: dict[str, Side], setting: tuple[int, int], measured: dict[str, Measured]
) -> None:
    """What each side says, before any of it is timed. Throws WorkerError if float32 sides differ by more than rounding."""
    settings.say(f"translate beam {setting[0]}, batch {setting[1]}: outputs")
    for name, side in sides.items():
        trial = side.choose(settings, -(-len(text.sources) // setting[1]), request(text, setting))
        answer = side.ask("translate", scores=True, every=1, **request(text, setting))
        outputs = answer["outputs"]
        measured[name] = Measured([], outputs, answer["scores"], text.bleu(outputs), side.way, trial)
    ours = measured["attend float32"]
    for name, theirs in measured.items():
        same = [abs(a - b) for a, b, x, y in zip(ours.scores, theirs.scores, ours.outputs, theirs.outputs) if x == y]
        if name.endswith("float32") and (len(same) < 0.9 * len(ours.outputs) or max(same) > ROUNDING):
            raise WorkerError(
                f"beam {setting[0]}, batch {setting[1]}: attend and {name} agree in {len(same)} of {len(ours.outputs)} "
                f"sentences, whose scores differ by up to {max(same, default=0.0):.2g}"
            )


def differences(ours: Measured, theirs: Measured) -> str:
    """How many sentences differ, how many of these by rounding alone, and how far apart the others are."""
    pairs = zip(ours.outputs, theirs.outputs, ours.scores, theirs.scores)
    gaps = [b - a for x, y, a, b in pairs if x != y]
    if not gaps:
        return "0"
    close = sum(abs(gap) < ROUNDING for gap in gaps)
    rest = [gap for gap in gaps if abs(gap) >= ROUNDING]
    text = f"{len(gaps)} ({close} by rounding"
    return text + (f"; the others score {min(rest):+.2f} to {max(rest):+.2f})" if rest else ")")


def counterpart(side: str, sides: dict[str, Measured]) -> str:
    """What attend does in the same precision, if it can; else in float32."""
    same = f"attend {side.split()[-1]}"
    return same if same in sides else "attend float32"


def document(
    text: Text, results: dict[tuple[int, int], dict[str, Measured]], memory: dict[str, dict[str, float]], notes: list[str]
) -> list[str]:
    rows, trials = [], []
    for (beam, batch), sides in results.items():
        setting = f"{'greedy' if beam == 1 else f'beam {beam}'}, batch {batch}"
        for side, m in sides.items():
            ours = sides[counterpart(side, sides)]
            words = sum(len(o) + 1 for o in m.outputs) / statistics.median(m.times)
            ratio = ["–", "–"] if side.startswith("attend") else [
                f"{report.median_ratio(m.times, ours.times):.2f} ({counterpart(side, sides).split()[-1]})",
                report.spread(m.times, ours.times),
            ]
            differ = "–" if side == "attend float32" else differences(sides["attend float32"], m)
            bleu = f"{m.bleu:.2f}" if m.bleu is not None else "–"
            rows.append([setting, side, str(m.way), f"{statistics.median(m.times):.3f}", f"{words:.0f}", *ratio, bleu, differ])
            if m.trial:
                fastest_first = sorted(m.trial.items(), key=lambda item: -item[1])
                trials.append([setting, side, "; ".join(f"{way}: {speed:.0f}" for way, speed in fastest_first)])
    count = len(text.sources)
    lines = ["## Translation", "", f"{count} sentences of Multi30k's test 2016 (English to German), from tokens to tokens."]
    lines += ["Workers × threads: so many batches side by side, with so many threads for each.", *notes, ""]
    head = ["setting", "side", "workers × threads", "seconds", "tokens/s", "ratio to attend", "over the rounds", "BLEU"]
    head.append("sentences unlike attend's")
    lines += report.table(head, rows)
    if trials:
        lines += ["", "The ways that the sides have, and their tokens a second in a trial on some of the batches; the first counts:"]
        lines += ["", *report.table(["setting", "side", "workers × threads: tokens/s"], trials)]
    lines += ["", "Peak memory of the process in MB, whole and without what it held before it loaded the model:", ""]
    sizes = [[side, report.megabytes(m["peak"]), report.megabytes(m["peak"] - m["idle"])] for side, m in memory.items()]
    return lines + report.table(["side", "whole", "net"], sizes)
