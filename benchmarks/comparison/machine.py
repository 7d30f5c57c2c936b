"""What a result has to say about the machine, the programs and the packages it was made with."""

import datetime
import functools
import importlib.metadata
import os
import platform
import re
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]


def processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def has(*instructions: str) -> bool:
    """Whether the processor has one of these sets of instructions, by their names in /proc/cpuinfo."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False
    return bool(re.search(rf"^(flags|Features)\b.*\b({'|'.join(instructions)})\b", text, re.MULTILINE))


def has_bfloat16() -> bool:
    """Whether the processor multiplies bfloat16 by instructions of its own."""
    return has("avx512_bf16", "amx_bf16", "bf16")


def _cached(build: Path, name: str) -> str:
    """A variable of the build folder's CMakeCache.txt."""
    try:
        text = (build / "CMakeCache.txt").read_text(encoding="utf-8")
    except OSError:
        return ""
    found = re.search(rf"^{name}:[^=]*=(.*)$", text, re.MULTILINE)
    return found.group(1) if found else ""


def compiler(build: Path) -> str:
    """The compiler of a build folder and its flags."""
    program = _cached(build, "CMAKE_CXX_COMPILER")
    if not program:
        return "compiler unknown"
    text = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout.splitlines()
    flags = [_cached(build, "CMAKE_CXX_FLAGS_RELEASE"), _cached(build, "ATTEND_OPTIMISE_FLAGS").replace(";", " ")]
    return f"{text[0] if text else program}, {' '.join(f for f in flags if f)}"


@functools.cache
def commit() -> str:
    """As it was when this was first asked for: the table that is then written is no change."""

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", HERE, *words], capture_output=True, text=True, check=False).stdout.strip()

    return (git("rev-parse", "--short", "HEAD") or "unknown") + (" with changes" if git("status", "--porcelain", "-uno") else "")


def version(package: str) -> str:
    """The version of a Python package; empty if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def now() -> str:
    return f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC"


def load() -> float:
    return os.getloadavg()[0]
