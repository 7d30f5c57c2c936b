"""Time and memory on the GPU as PyTorch has them. If there is no GPU, everything runs on the processor, to be tried out."""

import itertools
import statistics
import time
from collections.abc import Callable, Sequence

import torch

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ON_GPU = DEVICE.type == "cuda"


def synchronize() -> None:
    if ON_GPU:
        torch.cuda.synchronize()


def host_seconds(seconds: float, call: Callable[[], object]) -> float:
    """Of one call by the host's clock: from when the device has nothing to do, so many calls in a row that it takes about
    `seconds`, until the device has done them all. Called once before."""

    def run(calls: int) -> float:
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        synchronize()
        return time.perf_counter() - begin

    synchronize()
    calls = max(1, min(10_000, round(seconds / max(run(1), 1e-6))))
    return run(calls) / calls


def device_seconds(rounds: int, seconds: float, call: Callable[[], object]) -> float:
    """Of one call by the device's clock, the median of rounds of about `seconds`."""
    call()
    if not ON_GPU:
        return statistics.median(host_seconds(seconds, call) for _ in range(rounds))

    def marked(calls: int) -> torch.cuda.Event:
        for _ in range(calls):
            call()
        mark = torch.cuda.Event(enable_timing=True)
        mark.record()
        return mark

    def between(marks: Sequence[torch.cuda.Event]) -> list[float]:
        torch.cuda.synchronize()
        return [a.elapsed_time(b) / 1e3 for a, b in itertools.pairwise(marks)]

    torch.cuda.synchronize()
    once = between([marked(0), marked(1)])[0]
    calls = max(1, min(1000, int(seconds / max(once, 1e-7))))
    return statistics.median(between([marked(0), *(marked(calls) for _ in range(rounds))])) / calls


def reset_memory() -> None:
    synchronize()
    if ON_GPU:
        torch.cuda.reset_peak_memory_stats()


def peak_memory() -> float:
    """The most bytes that tensors have had since `reset_memory`."""
    return float(torch.cuda.max_memory_allocated()) if ON_GPU else 0.0


def captured(call: Callable[[], object], prepare: Callable[[], object] = lambda: None) -> Callable[[], object]:
    """The same call as a CUDA graph: what it reads and writes must stay where it is. `prepare` is called right before it is
    captured. Throws RuntimeError without a GPU."""
    if not ON_GPU:
        raise RuntimeError("CUDA graphs need a GPU")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    prepare()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay
