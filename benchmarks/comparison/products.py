"""Part 3: the matrix products that occur, attend against Eigen alone, OpenBLAS, and oneDNN or MKL through PyTorch."""

import math
import os
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from . import machine, report
from .settings import Ceiling, Settings
from .worker import Worker, WorkerError, python_worker, settle

LIBRARIES = ("attend", "eigen", "openblas", "pytorch")
PACKAGES = {"eigen": "libeigen3-dev, when attend_compare is compiled", "openblas": "libopenblas0"}
UNKNOWN = "Prescott"  # OpenBLAS's name for the oldest of 64 bits, for which it takes one that it does not know
CORES = {"avx512f": "SkylakeX", "avx2": "Haswell"}  # what it is told then, by the instructions that there are
OPERANDS = 16e6  # bytes: operands in rotation, as much as no second-level cache holds, and at most 16 sets of them

ROWS = 2048
HEAD = 10_000
# (in, out) of the linear layers of each size: q-k-v, output, keys and values of the memory, feed-forward, head.
LAYERS = {
    "tiny": ((128, 384), (128, 128), (128, 256), (256, 128), (128, HEAD)),
    "base": ((512, 1536), (512, 512), (512, 1024), (512, 2048), (2048, 512), (512, HEAD)),
    "notebook0": ((64, 192), (64, 64), (64, 256), (256, 64), (64, HEAD)),
}
DECODED_ROWS = (1, 4, 32, 128)
# (name, products, queries, keys, width of a head): one for each head of each sentence of a batch.
ATTENTION = (
    ("tiny", 320, 25, 25, 32),
    ("base", 640, 25, 25, 64),
    ("notebook0", 32, 256, 256, 16),
    ("notebook3", 240, 200, 200, 64),
    ("notebook4", 40, 128, 128, 64),
)


@dataclass(frozen=True)
class Product:
    """c [m, n] = op(a) op(b), `count` of them independently. A transposed operand is stored [k, m], or b [n, k]."""

    name: str
    m: int
    n: int
    k: int
    a_transposed: bool = False
    b_transposed: bool = False
    count: int = 1
    weights: bool = False  # b is a layer's weights, which attend's decoding copies once

    def flops(self) -> float:
        return 2.0 * self.m * self.n * self.k * self.count

    def request(self) -> dict[str, object]:
        size = 4 * self.count * (self.m * self.k + self.k * self.n + self.m * self.n)
        sets = max(1, min(16, math.ceil(OPERANDS / size)))
        names = ("m", "n", "k", "a_transposed", "b_transposed", "count", "weights")
        return {"sets": sets, **{name: getattr(self, name) for name in names}}


def linear(where: str, rows: int, width: int, out: int) -> Iterator[Product]:
    """Forward x W^T, dx = dy W, dW = dy^T x, with W [out, width]."""
    name = f"{where} {rows} × {width} → {out}"
    yield Product(f"{name} forward", rows, out, width, b_transposed=True)
    yield Product(f"{name} dx", rows, width, out)
    yield Product(f"{name} dW", out, width, rows, a_transposed=True)


def attention(where: str, count: int, queries: int, keys: int, width: int) -> Iterator[Product]:
    """Scores q k^T (and dy v^T), outputs w v (and ds k), dv = w^T dy (and dk = ds^T q)."""
    name = f"{where} attention {count} of {queries} × {keys} × {width}"
    yield Product(f"{name} scores", queries, keys, width, b_transposed=True, count=count)
    yield Product(f"{name} outputs", queries, width, keys, count=count)
    yield Product(f"{name} dv", keys, width, queries, a_transposed=True, count=count)


def products(quick: bool) -> list[Product]:
    """All, or a few of each kind."""
    found: list[Product] = []
    for where, layers in LAYERS.items():
        for width, out in layers:
            found += linear(where, ROWS, width, out)
    for where in ("tiny", "base"):
        for rows in DECODED_ROWS:
            for width, out in LAYERS[where]:
                name = f"{where} decoding {rows} × {width} → {out}"
                found.append(Product(name, rows, out, width, b_transposed=True, weights=True))
    for each in ATTENTION:
        found += attention(*each)
    return found[::7] if quick else found


def run(settings: Settings, ceiling: Ceiling) -> Iterator[list[str]]:
    """Measures with one thread, and with as many as were asked for; gives the lines of the result after each."""
    lines = ["## Products"]
    for threads in sorted({1, settings.threads}):
        ceiling_here = ceiling if threads == settings.threads else Ceiling(settings)
        lines += ["", f"### {threads} thread{'s' if threads > 1 else ''}", ""]
        lines += measure(settings, ceiling_here, threads)
        yield lines


def start(settings: Settings, threads: int) -> dict[str, Worker]:
    workers = {}
    for library in LIBRARIES:
        if library == "pytorch":
            if machine.version("torch"):
                workers[library] = Worker(python_worker("pytorch_products_worker"), threads)
            continue
        worker = Worker([settings.program, "products", library], threads)
        if worker.ready.get("core") == UNKNOWN and "OPENBLAS_CORETYPE" not in os.environ:
            if core := next((core for instructions, core in CORES.items() if machine.has(instructions)), None):
                worker.close()
                os.environ["OPENBLAS_CORETYPE"] = core  # read when the library is loaded
                worker = Worker([settings.program, "products", library], threads)
        if worker.ready["available"]:
            workers[library] = worker
        else:
            worker.close()
            settings.say(f"products: {library} is not installed (Debian: {PACKAGES[library]}); left out")
    return workers


def measure(settings: Settings, ceiling: Ceiling, threads: int) -> list[str]:
    times: dict[Product, dict[str, list[float]]] = {}
    workers = start(settings, threads)
    try:
        for r in range(settings.rounds):
            settings.say(f"products, {threads} threads: round {r + 1} of {settings.rounds}")
            ceiling.measure(threads)
            for product in products(settings.quick):
                sums = {}
                for library, worker in workers.items():
                    if threads > 1:
                        settle()
                    answer = worker.ask("time", seconds=settings.seconds(0.02 if settings.quick else 0.05), **product.request())
                    times.setdefault(product, {}).setdefault(library, []).append(answer[settings.clock])
                    sums[library] = answer["checksum"]
                if len(set(sums.values())) > 1:
                    raise WorkerError(f"{product.name}: the libraries' results differ: {sums}")
    finally:
        for worker in workers.values():
            worker.close()
    return document(ceiling, threads, times)


def document(ceiling: Ceiling, threads: int, times: dict[Product, dict[str, list[float]]]) -> list[str]:
    libraries = list(next(iter(times.values())))
    others = [library for library in libraries if library != "attend"]
    rows, shares = [], []  # the shares: attend over the best, and of what
    for product, of in times.items():
        median = {library: statistics.median(seconds) for library, seconds in of.items()}
        best = min(others, key=median.__getitem__)
        share = report.median_ratio(of[best], of["attend"])
        shares.append((share, product))
        speeds = [f"{product.flops() / median[library] / 1e9:.1f}" for library in libraries]
        of_ceiling = product.flops() / median["attend"] / ceiling.median()
        rows.append([product.name, *speeds, best, f"{share:.0%}", report.spread(of[best], of["attend"]), f"{of_ceiling:.0%}"])
    head = ["product", *(f"{library}, GFLOP/s" for library in libraries), "best other", "attend / best", "over the rounds"]
    lines = [f"Ceiling {ceiling.median() / 1e9:.0f} GFLOP/s. attend over the best of the others:", ""]
    for kind, weights in (("plain products", False), ("decoding, attend's weights copied once before", True)):
        if some := [(share, product.name) for share, product in shares if product.weights == weights]:
            worst, where = min(some)
            mean, below = report.geometric_mean(share for share, _ in some), sum(share < 0.9 for share, _ in some)
            text = f"geometric mean **{mean:.0%}**, least **{worst:.0%}** ({where}); below 90 % in {below} of {len(some)}"
            lines.append(f"- {kind}: {text}")
    if "openblas" in libraries and (core := os.environ.get("OPENBLAS_CORETYPE")):
        lines.append(f"- OpenBLAS was told to take the processor for one of its kind `{core}` (`OPENBLAS_CORETYPE`)")
    return [*lines, "", *report.table([*head, "share of the ceiling"], rows)]
