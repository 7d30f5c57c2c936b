#!/usr/bin/env python3
"""How long a ten-line program with attend.hpp compiles, next to one with Eigen/Dense.

Compiles the programs of compile_time/ in turn, several rounds, and prints the median processor time of each with its ratio to
Eigen's. `attend` is headers alone; `attend::compiled` is the program's own file where two others are compiled beside it, once:
compiled.cpp, and attend.hpp, which CMake precompiles; `without CMake` is the same without the latter.
"""

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PRECOMPILED = "precompiled.hpp"  # in the folder of what is made; compilers find what they made of it beside it
PROGRAMS = {  # name: source, flags
    "Eigen/Dense": (HERE / "compile_time/eigen.cpp", []),
    "attend": (HERE / "compile_time/attend.cpp", []),
    "attend/attend.hpp precompiled, once": (PRECOMPILED, ["-DATTEND_COMPILED", "-x", "c++-header"]),
    "attend::compiled": (HERE / "compile_time/attend.cpp", ["-DATTEND_COMPILED", "-include", PRECOMPILED]),
    "attend::compiled, without CMake": (HERE / "compile_time/attend.cpp", ["-DATTEND_COMPILED"]),
    "attend/compiled.cpp, once": (HERE.parent / "include/attend/compiled.cpp", ["-DATTEND_COMPILED", "-include", PRECOMPILED]),
}


def seconds(command):
    """The processor time of a command and all that it starts."""
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"compile_time: failed: {' '.join(command)}")
    return usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compilers", nargs="+", default=["g++", "clang++"])
    parser.add_argument("--flags", nargs="+", default=["-O0", "-O3 -march=native"], help="each a string of its own")
    parser.add_argument("--eigen", default="/usr/include/eigen3", help="where Eigen's headers are")
    parser.add_argument("--rounds", type=int, default=5)
    o = parser.parse_args()
    compilers = [c for c in o.compilers if shutil.which(c)]
    for c in set(o.compilers) - set(compilers):
        print(f"compile_time: there is no {c}, it is left out", file=sys.stderr)
    programs = dict(PROGRAMS)
    if not (pathlib.Path(o.eigen) / "Eigen/Dense").exists():
        del programs["Eigen/Dense"]
        print(f"compile_time: there is no Eigen/Dense in {o.eigen}, it is left out; --eigen names its folder", file=sys.stderr)

    print("| compiler | flags | program | seconds | over Eigen's |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        own = pathlib.Path(folder)
        (own / PRECOMPILED).write_text("#include <attend/attend.hpp>\n")
        for compiler in compilers:
            for flags in o.flags:
                times = {name: [] for name in programs}
                for _ in range(o.rounds):
                    for name, (source, own_flags) in programs.items():
                        header = f"{PRECOMPILED}.pch" if "clang" in compiler else f"{PRECOMPILED}.gch"
                        here = [str(own / word) if word == PRECOMPILED else word for word in map(str, [*own_flags, "-c", source])]
                        times[name].append(
                            seconds([compiler, "-std=c++20", *flags.split(), "-isystem", o.eigen, "-I", str(HERE.parent / "include"),
                                     *here, "-o", str(own / (header if source == PRECOMPILED else "program.o"))]))
                eigen = times.get("Eigen/Dense")
                for name, values in times.items():
                    ratio = f"{statistics.median(a / b for a, b in zip(values, eigen)):.2f}" if eigen else ""
                    print(f"| {compiler} | `{flags}` | {name} | {statistics.median(values):.2f} | {ratio} |", flush=True)


if __name__ == "__main__":
    main()
