"""PyTorch's side of the products, which are oneDNN's or MKL's."""

import os
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from .worker import Answer, Stopwatch, serve


def fractions(shape: tuple[int, ...], factor: int, modulus: int) -> Tensor:
    """The numbers of ../comparison/products.cpp."""
    size = torch.Size(shape).numel()
    return (((torch.arange(size) * factor + 1) % modulus - modulus // 2) / 8).float().reshape(shape)


def multiplication(request: Answer) -> tuple[Callable[[], Tensor], Tensor]:
    """A product into memory that is there already, and that memory."""
    m, n, k, count = (request[key] for key in ("m", "n", "k", "count"))
    many = (count,) if count > 1 else ()
    a = fractions((*many, k, m) if request["a_transposed"] else (*many, m, k), 7, 13)
    b = fractions((*many, n, k) if request["b_transposed"] else (*many, k, n), 5, 11)
    c = torch.empty((*many, m, n))
    op_a, op_b = (a.mT if request["a_transposed"] else a), (b.mT if request["b_transposed"] else b)
    return partial(torch.bmm if many else torch.mm, op_a, op_b, out=c), c


def checksum(c: Tensor) -> float:
    return float((c.flatten().double() * (torch.arange(c.numel()) % 7 + 1)).sum())


@torch.inference_mode()
def time(request: Answer) -> Answer:
    sets = [multiplication(request) for _ in range(request["sets"])]
    warm = Stopwatch()
    while warm.real() < request["seconds"] / 2:
        for call, _ in sets:
            call()
    watch, calls = Stopwatch(), 0
    while calls == 0 or watch.real() < request["seconds"]:
        for call, _ in sets:
            call()
        calls += len(sets)
    return {**watch.per(calls), "checksum": checksum(sets[-1][1])}


def main() -> None:
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    serve({}, time)


if __name__ == "__main__":
    main()
