#!/usr/bin/env python3
"""Runs attend's benchmarks and PyTorch's alternately and prints, case by case, both medians and the ratio.

    python3 benchmarks/run.py [--rounds 5] [--threads 2] [--filter REGEX] [--name NAME]

Needs build/bin/attend_benchmarks (cmake --preset default && cmake --build --preset default --target attend_benchmarks) and,
for the other side, a Python with PyTorch (pip install -r benchmarks/pytorch/requirements.txt). Writes benchmarks/results/NAME.md.
"""

import argparse
import datetime
import json
import os
import platform
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
RATES = ("FLOP/s", "bytes/s", "items/s")
UNITS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}  # in milliseconds


def load(file, clock):
    """Milliseconds by name, and what was done in a second of it."""
    document = json.loads(Path(file).read_text(encoding="utf-8"))
    times, counters = {}, {}
    for row in document["benchmarks"]:
        if row.get("run_type", "iteration") != "iteration":
            continue
        if row.get("error_occurred"):
            raise SystemExit(f"{row['name']}: {row.get('error_message', 'failed')}")
        name = row["name"].removesuffix("/real_time")
        times[name] = row[clock + "_time"] * UNITS[row["time_unit"]]
        counters[name] = {key: row[key] * row["real_time"] / row[clock + "_time"] for key in RATES if key in row}
    return times, counters


def run_attend(program, arguments, out):
    command = [program, f"--benchmark_filter={arguments.filter or '.'}", f"--benchmark_min_time={arguments.min_time}"]
    command += [f"--benchmark_out={out}", "--benchmark_out_format=json"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(command, check=True, **quiet, env={**os.environ, "ATTEND_THREADS": str(arguments.threads)})
    return load(out, arguments.clock)


def run_pytorch(python, arguments, out):
    command = [python, HERE / "pytorch" / "bench.py", "--threads", str(arguments.threads), "--min-time", str(arguments.min_time)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(arguments.threads)}
    subprocess.run([*command, "--filter", arguments.filter, "--out", out], check=True, stderr=subprocess.DEVNULL, env=environment)
    return load(out, arguments.clock)


def pytorch_version(python):
    """None where there is no PyTorch."""
    try:
        found = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True)
    except OSError:
        return None
    return found.stdout.strip() if found.returncode == 0 else None


def processor():
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def cached(build, name):
    """A variable of the build folder's CMakeCache.txt."""
    try:
        text = (build / "CMakeCache.txt").read_text(encoding="utf-8")
    except OSError:
        return ""
    found = re.search(rf"^{name}:[^=]*=(.*)$", text, re.MULTILINE)
    return found.group(1) if found else ""


def compiler(build):
    program = cached(build, "CMAKE_CXX_COMPILER")
    if not program:
        return "unknown"
    text = subprocess.run([program, "--version"], capture_output=True, text=True).stdout.splitlines()
    flags = [cached(build, "CMAKE_CXX_FLAGS_RELEASE"), cached(build, "ATTEND_OPTIMISE_FLAGS").replace(";", " ")]
    return f"{text[0] if text else program}, {' '.join(f for f in flags if f)}"


def commit():
    found = subprocess.run(["git", "-C", HERE, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return found.stdout.strip() or "unknown"


def rate(counters):
    if "FLOP/s" in counters:
        return f"{counters['FLOP/s'] / 1e9:.1f} GFLOP/s"
    if "bytes/s" in counters:
        return f"{counters['bytes/s'] / 1e9:.1f} GB/s"
    if "items/s" in counters:
        return f"{counters['items/s']:.0f} tokens/s"
    return ""


def table(ours, theirs, work):
    """`ours`, `theirs`: a list of milliseconds by name, a number a round."""
    lines = ["| case | attend, ms | rate | PyTorch, ms | PyTorch / attend | over the rounds |", "|---|--:|--:|--:|--:|:-:|"]
    for name, times in ours.items():
        median = statistics.median(times)
        # The rate of the median: that of the one run which the counters are of, scaled.
        scale = times[0] / median
        speed = rate({key: value * scale for key, value in work[name].items()})
        if name in theirs:
            ratios = [b / a for a, b in zip(times, theirs[name])]
            other = f"{statistics.median(theirs[name]):.3f} | {statistics.median(ratios):.2f}"
            other += f" | {min(ratios):.2f}–{max(ratios):.2f}"
        else:
            other = "– | – | –"
        lines.append(f"| {name} | {median:.3f} | {speed} | {other} |")
    return lines


def document(arguments, version, ours, theirs, work, loads):
    """The lines of the result file."""
    places = {i for i, a in enumerate(sys.argv) if a in ("--python", "--build")}  # followed by a folder of this machine
    given = [a for i, a in enumerate(sys.argv) if i > 0 and i not in places and i - 1 not in places]
    clock = "processor time" if arguments.clock == "cpu" else "real time"
    threads = f"{arguments.threads} thread{'s' if arguments.threads > 1 else ''} each"
    rounds = f"Medians of {len(loads)} rounds; the ratio is the median of the rounds' ratios" if len(loads) > 1 else "One round"
    return [
        f"# attend{' and PyTorch' if version else ''}",
        "",
        f"- {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC, checkout at {commit()}",
        f"- {processor()}, {os.cpu_count()} processors; {threads}, float32, {clock}",
        f"- {compiler(arguments.build)}",
        f"- {'PyTorch ' + version + ', eager' if version else 'PyTorch not installed'}, Python {platform.python_version()}",
        f"- load average before each round: {', '.join(f'{x:.1f}' for x in loads)}",
        f"- `{shlex.join(['python3', 'benchmarks/run.py', *given])}`",
        "",
        f"{rounds}; above 1 attend is faster.",
        "",
        *table(ours, theirs, work),
    ]


def append(all_times, times):
    for name, value in times.items():
        all_times.setdefault(name, []).append(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--min-time", type=float, default=0.2, help="seconds a case and round at least")
    parser.add_argument("--clock", choices=("real", "cpu"), default="real", help="cpu: processor time, where the machine is busy")
    parser.add_argument("--filter", default="", help="regular expression of the cases' names")
    parser.add_argument("--name", default="pytorch", help="of the file in benchmarks/results")
    parser.add_argument("--build", type=Path, default=HERE.parent / "build", help="the build folder")
    parser.add_argument("--python", default=sys.executable, help="a Python that has PyTorch")
    arguments = parser.parse_args()
    if arguments.rounds < 1 or arguments.threads < 1 or arguments.min_time <= 0:
        parser.error("--rounds, --threads and --min-time must be positive")
    if arguments.clock == "cpu" and arguments.threads != 1:
        parser.error("--clock cpu needs --threads 1")

    program = arguments.build / "bin" / "attend_benchmarks"
    if not program.exists():
        build = "cmake --preset default && cmake --build --preset default --target attend_benchmarks"
        sys.exit(f"{program} is missing; build it with:\n  {build}")
    version = pytorch_version(arguments.python)
    if not version:
        print(f"PyTorch is missing in {arguments.python}, so attend runs alone. To compare, install it with\n"
              f"  {arguments.python} -m pip install -r {os.path.relpath(HERE / 'pytorch' / 'requirements.txt')}\n"
              "or name a Python that has it with --python.", file=sys.stderr)

    file = HERE / "results" / f"{arguments.name}.md"
    file.parent.mkdir(exist_ok=True)
    ours, theirs, work, loads = {}, {}, {}, []
    with tempfile.TemporaryDirectory() as folder:
        for r in range(arguments.rounds):
            loads.append(os.getloadavg()[0])
            print(f"round {r + 1} of {arguments.rounds}: attend", end="", file=sys.stderr, flush=True)
            times, counters = run_attend(program, arguments, f"{folder}/attend.json")
            append(ours, times)
            for name, value in counters.items():
                work.setdefault(name, value)
            if version:
                print(", PyTorch", end="", file=sys.stderr, flush=True)
                append(theirs, run_pytorch(arguments.python, arguments, f"{folder}/pytorch.json")[0])
            print(file=sys.stderr)
            # After every round, so that stopping early loses only the round that was running.
            lines = document(arguments, version, ours, theirs, work, loads)
            file.write_text("\n".join(lines) + "\n", encoding="utf-8")

    print("\n".join(lines))
    print(f"\nwritten to {os.path.relpath(file)}", file=sys.stderr)


if __name__ == "__main__":
    main()
