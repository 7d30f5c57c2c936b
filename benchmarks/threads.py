#!/usr/bin/env python3
"""How many times as fast two threads are as one: a training of each preset, and the translation of a file.

    python3 benchmarks/threads.py --translate build/bin/translate --source train.en --target train.de --lines test.en --rounds 3

One thread and as many as --threads says take turns; medians and the median of the rounds' ratios are printed. The network of the
first preset translates, as its short training leaves it, unless --model names another.
"""

import argparse
import pathlib
import re
import statistics
import subprocess
import tempfile
import time


def train(given, threads, preset, steps, out):
    """Target tokens per second."""
    command = [given.translate, "--threads", threads, "train", "--source", given.source, "--target", given.target, "--out", out,
               "--overwrite", "--preset", preset, "--vocabulary", 8000, "--validation-size", 0, "--tokens-per-batch", given.tokens,
               "--max-steps", steps]
    done = subprocess.run([*map(str, command)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    found = re.search(r"train: \d+ steps.*\(([0-9.]+)(k?) tokens/s\)", done.stderr)
    if done.returncode or not found:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stderr[-500:]}")
    return float(found[1]) * (1000 if found[2] else 1)


def run(given, threads, model, lines, beam):
    """Seconds that a whole process takes."""
    command = [given.translate, "--threads", threads, "run", "--model", model, "--beam", beam, "--precision", given.precision]
    begin = time.monotonic()
    done = subprocess.run([*map(str, command)], input="".join(lines), capture_output=True, text=True)
    if done.returncode or done.stdout.count("\n") != len(lines):
        raise SystemExit(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stderr[-500:]}")
    return time.monotonic() - begin


def in_turn(given, what, unit, measure):
    """`measure(threads)` is a speed. Prints a row of a table."""
    speeds = {1: [], given.threads: []}
    for _ in range(given.rounds):
        for threads in speeds:
            speeds[threads].append(measure(threads))
    ratios = [many / one for one, many in zip(speeds[1], speeds[given.threads])]
    one, many = (statistics.median(speeds[threads]) for threads in speeds)
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    print(f"| {what} | {one:,.0f} {unit} | {many:,.0f} {unit} | {statistics.median(ratios):.2f} | {spread} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--translate", type=pathlib.Path, default=pathlib.Path("build/bin/translate"))
    parser.add_argument("--source", required=True, help="sentences to train on, a line each")
    parser.add_argument("--target", required=True, help="their translations")
    parser.add_argument("--lines", required=True, help="a file to translate")
    parser.add_argument("--count", type=int, default=256, help="of its lines (256)")
    parser.add_argument("--model", help="the model that translates")
    parser.add_argument("--presets", default="tiny:40,base:6", help="presets, each with steps of training (tiny:40,base:6)")
    parser.add_argument("--tokens", type=int, default=2048, help="of a batch (2048)")
    parser.add_argument("--beams", default="1,4")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    given.translate = given.translate.resolve()
    lines = pathlib.Path(given.lines).read_text().splitlines(keepends=True)[:given.count]
    print(f"| | one thread | {given.threads} threads | ratio | of the rounds |\n|---|--:|--:|--:|--:|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        model = given.model
        for preset, steps in (part.split(":") for part in given.presets.split(",") if part):
            out = pathlib.Path(folder) / preset
            in_turn(given, f"training, `{preset}`, {given.tokens} tokens", "tokens/s",
                    lambda threads: train(given, threads, preset, steps, out))
            model = model or out
        for beam in given.beams.split(","):
            start = run(given, 1, model, lines[:1], beam)  # what one line takes is nearly all start
            in_turn(given, f"translating {len(lines)} lines, beam {beam}, {given.precision}", "lines/s",
                    lambda threads: (len(lines) - 1) / max(1e-9, run(given, threads, model, lines, beam) - start))


if __name__ == "__main__":
    main()
