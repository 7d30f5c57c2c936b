"""Part 2: translation with one trained model, attend against CTranslate2 and against PyTorch with a key-value cache."""

import json
import shutil
import statistics
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
PRECISIONS = ("float32", "int8")  # of attend
SAMPLE = 20  # one batch in so many, but two at least, show which number of threads suits another library best
ROUNDING = 5e-3  # two scores, sums of up to a hundred numbers and more, that differ by less than this may change places


@dataclass
class Measured:
    """One side in one setting."""

    times: list[float] = field(default_factory=list)  # seconds for all sentences, round by round
    outputs: list[list[int]] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    bleu: float | None = None
    threads: int = 1


@dataclass
class Side:
    """A library in one precision. Others than attend come with one thread and with as many as were asked for; the faster counts."""

    workers: dict[int, Worker]  # by their threads
    threads: int  # of the worker that counts

    def ask(self, do: str, **request: object) -> Answer:
        return self.workers[self.threads].ask(do, **request)

    def choose(self, settings: Settings, batches: int, request: dict[str, object]) -> None:
        """By some of so many batches."""
        if len(self.workers) < 2:
            return
        every, seconds = max(1, batches // max(2, batches // SAMPLE)), {}
        for threads, worker in self.workers.items():
            for _ in range(2):  # the first time, threads and memory wake up
                settle()
                seconds[threads] = worker.ask("translate", scores=False, every=every, **request)[settings.clock]
        self.threads = min(seconds, key=seconds.__getitem__)

    def memory(self) -> Answer:
        return max((worker.ask("memory") for worker in self.workers.values()), key=lambda answer: answer["peak"])

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
        try:
            start(settings, text, model, Path(folder), sides)
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
                yield document(text, results, {name: side.memory() for name, side in sides.items()})
        finally:
            for side in sides.values():
                side.close()


def start(settings: Settings, text: Text, model: Path, folder: Path, sides: dict[str, Side]) -> None:
    """Adds all sides that there are, attend first."""
    pieces = folder / "pieces.json"
    pieces.write_text(json.dumps(text.pieces()), encoding="utf-8")
    commands: dict[str, list[str | Path]] = {
        f"attend {precision}": [settings.program, "translate", model, precision] for precision in PRECISIONS
    }
    if machine.version("ctranslate2"):
        for precision in ("float32", "int8"):
            work = [model, pieces, folder / "ctranslate2", precision]
            commands[f"CTranslate2 {precision}"] = python_worker("ctranslate2_worker", *work)
    if machine.version("torch"):
        commands["PyTorch float32"] = python_worker("pytorch_translate_worker", model)
    for name, command in commands.items():
        settings.say(f"translate: loading {name}")
        side = sides[name] = Side({}, settings.threads)
        try:
            for threads in {settings.threads} if name.startswith("attend") else {settings.threads, 1}:
                side.workers[threads] = Worker(command, threads)
                side.workers[threads].ask("sources", sources=text.sources)
        except WorkerError as e:
            raise WorkerError(f"{name}: {e}") from e


def request(text: Text, setting: tuple[int, int]) -> dict[str, object]:
    beam, batch = setting
    return {**text.marks(), "beam": beam, "batch": batch, "alpha": ALPHA if beam > 1 else 0.0, "max_length": MAX_LENGTH}


def check(
    settings: Settings, text: Text, sides: dict[str, Side], setting: tuple[int, int], measured: dict[str, Measured]
) -> None:
    """What each side says, before any of it is timed. Throws WorkerError if float32 sides differ by more than rounding."""
    settings.say(f"translate beam {setting[0]}, batch {setting[1]}: outputs")
    for name, side in sides.items():
        side.choose(settings, -(-len(text.sources) // setting[1]), request(text, setting))
        answer = side.ask("translate", scores=True, every=1, **request(text, setting))
        outputs = answer["outputs"]
        measured[name] = Measured([], outputs, answer["scores"], text.bleu(outputs), side.threads)
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


def document(text: Text, results: dict[tuple[int, int], dict[str, Measured]], memory: dict[str, dict[str, float]]) -> list[str]:
    count, rows = len(text.sources), []
    for (beam, batch), sides in results.items():
        for side, m in sides.items():
            ours = sides[counterpart(side, sides)]
            words = sum(len(o) + 1 for o in m.outputs) / statistics.median(m.times)
            is_ours = side.startswith("attend")
            ratio = ["–", "–"] if is_ours else [
                f"{report.median_ratio(m.times, ours.times):.2f} ({counterpart(side, sides).split()[-1]})",
                report.spread(m.times, ours.times),
            ]
            differ = "–" if side == "attend float32" else differences(sides["attend float32"], m)
            bleu = f"{m.bleu:.2f}" if m.bleu is not None else "–"
            setting = f"{'greedy' if beam == 1 else f'beam {beam}'}, batch {batch}"
            rows.append([setting, side, str(m.threads), f"{statistics.median(m.times):.3f}", f"{words:.0f}", *ratio, bleu, differ])
    lines = ["## Translation", "", f"{count} sentences of Multi30k's test 2016 (English to German), from tokens to tokens.", ""]
    head = ["setting", "side", "threads", "seconds", "tokens/s", "ratio to attend", "over the rounds", "BLEU"]
    head.append("sentences unlike attend's")
    lines += report.table(head, rows)
    lines += ["", "Peak memory of the process in MB, whole and without what it held before it loaded the model:", ""]
    sizes = [[side, report.megabytes(m["peak"]), report.megabytes(m["peak"] - m["idle"])] for side, m in memory.items()]
    return lines + report.table(["side", "whole", "net"], sizes)
