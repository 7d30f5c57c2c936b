#!/usr/bin/env python3
"""Time from the start of `translate run` to its first translation, peak memory and size of the weights, for several models.

    python3 benchmarks/start.py --translate build/bin/translate model model:int8 model-int8 --rounds 7

FOLDER:PRECISION is a folder that is run with --precision PRECISION. The models take turns; medians are printed.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import time


def run_once(translate, folder, precision, threads, sentence):
    """Seconds to the first translation, those of the processor, and the peak of the resident memory in MiB."""
    command = [str(pathlib.Path(translate).resolve()), "run", "--model", folder, "--threads", str(threads), "--beam", "1"]
    if precision:
        command += ["--precision", precision]
    begin = time.monotonic()
    with subprocess.Popen(command + ["--stream"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        program.stdin.write(sentence + "\n")
        program.stdin.flush()
        program.stdout.readline()
        seconds = time.monotonic() - begin
        spent = pathlib.Path(f"/proc/{program.pid}/stat").read_text().rpartition(")")[2].split()[11:13]  # utime, stime
        status = pathlib.Path(f"/proc/{program.pid}/status").read_text()
        peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        program.stdin.close()
    if program.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {program.returncode}")
    return seconds, sum(map(int, spent)) / os.sysconf("SC_CLK_TCK"), int(peak.split()[1]) / 1024


def weights(folder):
    """The size of the weights in MiB, of a training its best model's."""
    best = pathlib.Path(folder) / "best"
    return sum(os.path.getsize(path) for path in (best if best.is_dir() else pathlib.Path(folder)).glob("*.safetensors")) / 2**20


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="FOLDER[:PRECISION]")
    parser.add_argument("--translate", default="build/bin/translate")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sentence", default="Where is the library?")
    flags = parser.parse_args()
    measured = {model: [] for model in flags.models}
    for _ in range(flags.rounds):
        for model, results in measured.items():
            folder, _, precision = model.partition(":")
            results.append(run_once(flags.translate, folder, precision, flags.threads, flags.sentence))
    print("| model | seconds | of the processor | MiB of memory | MiB of weights |\n|---|---|---|---|---|")
    for model, results in measured.items():
        seconds, processor, memory = (statistics.median(values) for values in zip(*results))
        spread = f"{min(r[0] for r in results):.2f}–{max(r[0] for r in results):.2f}"
        print(f"| {model} | {seconds:.2f} ({spread}) | {processor:.2f} | {memory:.0f} | {weights(model.partition(':')[0]):.0f} |")


if __name__ == "__main__":
    main()
