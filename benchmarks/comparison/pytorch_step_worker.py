"""PyTorch's side of training steps: NETWORK WEIGHTS BATCHES MODE.

MODE: eager or compile, in float32; eager-bfloat16 or compile-bfloat16, under autocast; double, the judge (eager, in double precision).
"""

import argparse
import os
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from . import networks
from .worker import Answer, Stopwatch, resident, serve

Batch = dict[str, Tensor]
Pass = Callable[[Batch], Tensor]  # forward and backward; gives the loss


def read_batches(file: Path) -> list[Batch]:
    """The batches of a file, tokens padded: sources and targets [sentences, length], and the mask that leaves padding out."""
    tensors = load_file(file)
    batches: dict[int, Batch] = {}
    for key, value in tensors.items():
        number, name = key.split(".", 1)
        batches.setdefault(int(number), {})[name] = value
    ordered = [batches[i] for i in sorted(batches)]
    return [pad(b) if "labels" in b else b for b in ordered]


def pad(batch: Batch) -> Batch:
    def rows(name: str, lengths: Tensor) -> Tensor:
        sentences = batch[name].long().split(lengths.tolist())
        return torch.nn.utils.rnn.pad_sequence(list(sentences), batch_first=True)

    source_lengths, target_lengths = batch["source_lengths"], batch["target_lengths"]
    padded = {"source": rows("source", source_lengths)}
    padded |= {name: rows(name, target_lengths) for name in ("target", "labels")}
    longest = padded["source"].shape[1]
    if bool((source_lengths != longest).any()):
        # True at real tokens, [batch, 1, 1, length], as scaled_dot_product_attention takes it.
        padded["source_mask"] = (torch.arange(longest) < source_lengths[:, None])[:, None, None]
    return padded


def make_pass(name: str, model: torch.nn.Module, batches: list[Batch], compiled: bool, bfloat16: bool) -> Pass:
    # Several shapes: sizes that vary are symbols from the first, so that it compiles once.
    shapes = {tuple(b[key].shape for key in sorted(b)) for b in batches}

    def wrap(f: Pass) -> Pass:
        forward = torch.compile(f, dynamic=len(shapes) > 1) if compiled else f

        def run(b: Batch) -> Tensor:
            with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):  # of the forward pass: the backward follows it
                return forward(b)

        return run

    if name == "notebook2":
        forward = wrap(lambda b: model(b["x"], memories=(b["first"], b["second"])))
    elif name == "notebook3":
        mask = torch.full([batches[0]["x"].shape[1]] * 2, -torch.inf, dtype=batches[0]["x"].dtype).triu(1)
        forward = wrap(lambda b: model(b["x"], b["y"], mask))
    else:
        loss = wrap(lambda b: model.loss(b["source"], b["target"], b["labels"], b.get("source_mask")))

        def tokens(b: Batch) -> Tensor:
            value = loss(b)
            value.backward()
            return value

        return tokens

    def vectors(b: Batch) -> Tensor:
        y = forward(b)
        y.backward(b["dy"].to(y.dtype))
        return y

    return vectors


def loss_of(name: str, batch: Batch, result: Tensor) -> float:
    """Networks that end in vectors have a given weighting of these as their loss."""
    return float((result.double() * batch["dy"]).sum() if name in ("notebook2", "notebook3") else result)


def write_gradients(model: torch.nn.Module, file: str) -> None:
    save_file({p.name: p.parameter.grad[p.rows].contiguous().clone() for p in networks.parts(model)}, file)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("network")
    parser.add_argument("weights", type=Path)
    parser.add_argument("batches", type=Path)
    parser.add_argument("mode", choices=("eager", "compile", "eager-bfloat16", "compile-bfloat16", "double"))
    arguments = parser.parse_args()
    idle = resident("VmRSS")
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.manual_seed(1)

    if arguments.mode == "double":
        torch.set_default_dtype(torch.float64)
    model, batches = networks.network(arguments.network), read_batches(arguments.batches)
    networks.load(model, load_file(arguments.weights))
    if arguments.mode == "double":
        batches = [{name: x.double() if x.is_floating_point() else x for name, x in b.items()} for b in batches]
    mode = arguments.mode
    run = make_pass(arguments.network, model, batches, mode.startswith("compile"), mode.endswith("bfloat16"))
    adam = torch.optim.Adam(model.parameters(), lr=1e-5, fused=True)  # the fastest that there is

    def steps() -> None:
        for batch in batches:
            adam.zero_grad()
            run(batch)
            adam.step()

    def answer(request: Answer) -> Answer:
        if request["do"] == "gradients":
            batch = batches[request["batch"]]
            model.eval()
            adam.zero_grad()
            loss = loss_of(arguments.network, batch, run(batch))
            write_gradients(model, request["out"])
            model.train()
            return {"loss": loss}
        if request["do"] == "warm":
            steps()
            return {}
        if request["do"] == "memory":
            return {"idle": idle, "peak": resident("VmHWM")}
        watch, passes = Stopwatch(), 0
        while passes == 0 or watch.real() < request["seconds"]:
            steps()
            passes += 1
        return watch.per(passes * len(batches))

    serve({}, answer)


if __name__ == "__main__":
    main()
