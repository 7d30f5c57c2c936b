"""Processes that answer one JSON request a line with one JSON line: attend's side, PyTorch's, CTranslate2's."""

import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Answer = dict[str, Any]


class WorkerError(RuntimeError):
    """A worker stopped, or took too long. Its text is the end of what it wrote to standard error."""


def environment(threads: int) -> dict[str, str]:
    """This process's, with so many threads for whatever is started, and with this package where Python looks for modules."""
    limits = {f"{name}_THREADS": str(threads) for name in ("ATTEND", "OMP_NUM", "MKL_NUM", "OPENBLAS_NUM")}
    path = os.pathsep.join(filter(None, [str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH")]))
    return {**os.environ, **limits, "PYTHONPATH": path}


class Worker:
    """A process, from its first line, which says that it is ready, to `close`."""

    def __init__(self, command: Sequence[str | Path], threads: int, timeout: float | None = None):
        # Memory that the parent process holds would count as the child's until it starts its own program: keep this one small.
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=environment(threads),
        )
        self.ready = self._read(timeout)

    def ask(self, do: str, timeout: float | None = None, **request: Any) -> Answer:
        """Sends a request and waits for its answer. Throws WorkerError."""
        try:
            print(json.dumps({"do": do, **request}), file=self._process.stdin, flush=True)
        except OSError:
            pass  # it has stopped; why is told where the answer is missing
        return self._read(timeout)

    def close(self) -> None:
        """Ends the process and waits for it."""
        try:
            self._process.stdin.close()
        except OSError:
            pass
        self._process.wait()

    def _read(self, timeout: float | None) -> Answer:
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            self._process.kill()

        timer = threading.Timer(timeout or 0, expire)
        if timeout:
            timer.start()
        line = self._process.stdout.readline()
        timer.cancel()
        if line:
            return json.loads(line)
        self._process.wait()
        if expired.is_set():
            raise WorkerError(f"took longer than {timeout:.0f} s")
        self._errors.seek(0)
        lines = self._errors.read().strip().splitlines() or [f"ended with status {self._process.returncode}"]
        raise WorkerError("\n".join(lines[-8:]))


def settle() -> None:
    """Before a measurement: threads of OpenMP and OpenBLAS spin for a while when they have nothing more to do, and whoever is next
    would share the cores with them."""
    time.sleep(0.1)


def python_worker(module: str, *arguments: str | Path) -> list[str | Path]:
    """The command of a worker that is a module of this package."""
    return [sys.executable, "-m", f"comparison.{module}", *arguments]


def serve(ready: Answer, answer: Callable[[Answer], Answer]) -> None:
    """A worker's own side. What others print goes to standard error."""
    out, sys.stdout = sys.stdout, sys.stderr
    print(json.dumps(ready), file=out, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=out, flush=True)


class Stopwatch:
    """Real time and the processor time of all threads since it was made, in seconds."""

    def __init__(self) -> None:
        self._real, self._cpu = time.perf_counter(), time.process_time()

    def real(self) -> float:
        return time.perf_counter() - self._real

    def per(self, times: float) -> Answer:
        """Both, each divided by `times`."""
        return {"real": self.real() / times, "cpu": (time.process_time() - self._cpu) / times}


def in_a_child(work: Callable[[], None]) -> None:
    """Does something in a process of its own, so that its memory does not count as this one's. Throws WorkerError if it fails."""
    if (child := os.fork()) == 0:
        status = 1
        try:
            work()
            status = 0
        except Exception as e:
            print(e, file=sys.stderr, flush=True)
        finally:
            os._exit(status)
    if os.waitpid(child, 0)[1] != 0:
        raise WorkerError("the model could not be converted")


def serve_translations(idle: float, take: Callable[[list[int]], Any], translate: Callable[[list[Any], Answer], Answer]) -> None:
    """A translator's side, which held `idle` bytes before it loaded the model. `take` makes of a sentence's tokens what `translate`
    wants, which gets one batch in so many as the request has it, end to end."""
    sources: list[Any] = []

    def answer(request: Answer) -> Answer:
        if request["do"] == "sources":
            sources[:] = map(take, request["sources"])
            return {}
        if request["do"] == "memory":
            return {"idle": idle, "peak": resident("VmHWM")}
        batch, every = request["batch"], request["every"]
        starts = range(0, len(sources), batch * every)
        return translate([source for first in starts for source in sources[first : first + batch]], request)

    serve({}, answer)


def resident(key: str) -> float:
    """A line of /proc/self/status in bytes: VmRSS, what is resident now; VmHWM, the most there has been."""
    try:
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
            if line.startswith(key + ":"):
                return float(line.split()[1]) * 1024
    except OSError:
        pass
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * 1024
