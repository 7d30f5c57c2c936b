#!/usr/bin/env python3
"""How many times as fast two threads are as one: a training of each preset, and the translation of a file.

    python3 benchmarks/threads.py --translate build/bin/translate --source train.en --target train.de --lines test.en --rounds 3

One thread, as many as --threads says, and as many programs side by side of one thread each take turns; medians and the medians of
the rounds' ratios are printed. What programs that share nothing gain side by side is about all that the machine has to give. The
network of the first preset translates, as its short training leaves it, unless --model names another.
"""

import argparse
import concurrent.futures
import csv
import itertools
import pathlib
import statistics
import subprocess
import tempfile
import time


def train(given, threads, preset, steps, out):
    """Target tokens per second from the tenth step on: the first ones also take pages of memory, which is not shared out."""
    curve = pathlib.Path(f"{out}.csv")
    command = [given.translate, "--threads", threads, "train", "--source", given.source, "--target", given.target, "--out", out,
               "--overwrite", "--csv", curve, "--preset", preset, "--vocabulary", 8000, "--validation-size", 0,
               "--tokens-per-batch", given.tokens, "--max-steps", steps]
    done = subprocess.run([*map(str, command)], stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8")
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stderr[-500:]}")
    with curve.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["tokens"]]  # a row each ten steps
    return (float(rows[-1]["tokens"]) - float(rows[0]["tokens"])) / (float(rows[-1]["seconds"]) - float(rows[0]["seconds"]))


def seconds(given, threads, model, lines, beam):
    """What a whole process takes."""
    command = [given.translate, "--threads", threads, "run", "--model", model, "--beam", beam, "--precision", given.precision]
    begin = time.monotonic()
    done = subprocess.run([*map(str, command)], input=b"".join(lines), capture_output=True)
    found = done.stdout.count(b"\n")
    if done.returncode or found != len(lines):
        raise SystemExit(f"{' '.join(map(str, command))} ended with {done.returncode} and {found} of {len(lines)} lines: "
                         f"{done.stderr[-500:].decode(errors='replace')}")
    return time.monotonic() - begin


def translate(given, threads, model, lines, beam):
    """Lines per second without the start of the program, which is nearly all that one line takes."""
    start = seconds(given, threads, model, lines[:1], beam)
    work = seconds(given, threads, model, lines, beam) - start
    if work <= 0:
        raise SystemExit(f"{len(lines)} lines take no longer than one: there is nothing to measure")
    return (len(lines) - 1) / work


def side_by_side(programs, measure):
    """The speeds of that many programs of one thread, added."""
    with concurrent.futures.ThreadPoolExecutor(programs) as pool:
        return sum(pool.map(lambda place: measure(1, place), range(programs)))


def in_turn(given, what, unit, measure):
    """`measure(threads, place)` is a speed; programs that run at one time have places of their own. Prints a row of a table."""
    ways = [lambda: measure(1, 0), lambda: measure(given.threads, 0), lambda: side_by_side(given.threads, measure)]
    rounds = [[way() for way in ways] for _ in range(given.rounds)]
    one, many, _ = (statistics.median(speeds) for speeds in zip(*rounds))
    row = [what, f"{one:,.0f} {unit}", f"{many:,.0f} {unit}"]
    for way in 1, 2:
        ratios = [speeds[way] / speeds[0] for speeds in rounds]
        row.append(f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    print(f"| {' | '.join(row)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--translate", type=pathlib.Path, default=pathlib.Path("build/bin/translate"))
    parser.add_argument("--source", required=True, help="sentences to train on, a line each")
    parser.add_argument("--target", required=True, help="their translations")
    parser.add_argument("--lines", required=True, help="a file to translate")
    parser.add_argument("--count", type=int, default=1000, help="of its lines (1000)")
    parser.add_argument("--model", help="the model that translates")
    parser.add_argument("--presets", default="tiny:60,base:20", help="presets, each with steps of training (tiny:60,base:20)")
    parser.add_argument("--tokens", type=int, default=2048, help="of a batch (2048)")
    parser.add_argument("--beams", default="1,4")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    given.translate = given.translate.resolve()
    trainings = [(preset, int(steps)) for preset, steps in (part.split(":") for part in given.presets.split(",") if part)]
    if any(steps < 20 for _, steps in trainings):
        parser.error(f"--presets {given.presets}: expected at least 20 steps, since the first ten are not counted")
    if not trainings and not given.model:
        parser.error("nothing is trained, so --model must say what translates")
    with open(given.lines, "rb") as file:
        lines = list(itertools.islice(file, given.count))
    if len(lines) < 2:
        parser.error(f"{given.lines}: {len(lines)} lines, expected at least 2")
    print(f"| | one thread | {given.threads} threads | over one | {given.threads} programs over one |")
    print("|---|--:|--:|--:|--:|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        model = given.model
        for preset, steps in trainings:
            out = pathlib.Path(folder) / preset
            in_turn(given, f"training, `{preset}`, {given.tokens} tokens", "tokens/s",
                    lambda threads, place: train(given, threads, preset, steps, f"{out}.{place}"))
            model = model or f"{out}.0"
        for beam in given.beams.split(","):
            in_turn(given, f"translating {len(lines)} lines, beam {beam}, {given.precision}", "lines/s",
                    lambda threads, _: translate(given, threads, model, lines, beam))


if __name__ == "__main__":
    main()
