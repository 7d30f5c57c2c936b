"""PyTorch's side of compare_gpu.py, bfloat16 on a GPU:

    ceilings [small]
    step NETWORK FILE SECONDS MODE...      modes: eager, compile, graph, compile+graph
    decode NETWORK FILE LENGTH BEAM MODE...

The same parts as attend_gpu_benchmark has, with the same arguments; a measurement names one of the modes that could be made."""

import sys
from collections.abc import Callable
from dataclasses import replace

import torch
from comparison import networks
from comparison.worker import Answer, serve
from torch import Tensor, nn

from . import pytorch_clock as clock
from . import pytorch_decode
from .batches import BOS, EOS, FIRST_WORD, PAD, Pairs, read

Batch = dict[str, Tensor]
Call = Callable[[], object]


def transformer(name: str) -> networks.Transformer:
    """As attend_gpu_benchmark's network of that name."""
    if name.startswith("notebook"):
        return networks.network(name)
    o = networks.Stack(vocabulary=32_000, dropout=networks.Dropout(embedding=0.1, residual=0.1))
    if name == "big":
        o = replace(o, d_model=1024, heads=16, d_ff=4096)
    elif name == "small":
        o = replace(o, vocabulary=100, d_model=32, heads=2, d_ff=64, layers=1)
    model = networks.Transformer(o, o, share_embeddings=True, tie_head=True)
    nn.init.normal_(model.head.weight, std=o.d_model**-0.5)  # PyTorch's own would make far too large logits
    return model


def words(length: int, vocabulary: int, random: torch.Generator) -> Tensor:
    """A few of them often, most of them seldom, as attend_gpu_benchmark draws them."""
    u = torch.rand(length, generator=random, dtype=torch.float64)
    return FIRST_WORD + ((vocabulary - FIRST_WORD) * u**3).long()


def padded(pairs: Pairs, model: networks.Transformer, random: torch.Generator) -> Batch:
    """Random tokens of these lengths in the host's memory, [sentences, longest], and if need be the mask that leaves padding
    out, [sentences, 1, 1, longest]."""
    vocabularies = (model.encoder.options.vocabulary, model.decoder.options.vocabulary)
    sources, targets, labels = [], [], []
    for source, target in pairs:
        sources.append(torch.cat((words(source, vocabularies[0], random), torch.tensor([EOS]))))
        said = words(target, vocabularies[1], random)
        targets.append(torch.cat((torch.tensor([BOS]), said)))
        labels.append(torch.cat((said, torch.tensor([EOS]))))
    batch = {
        name: nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
        for name, rows in (("source", sources), ("target", targets), ("labels", labels))
    }
    if len({source for source, _ in pairs}) > 1:
        batch["source_mask"] = (batch["source"] != PAD)[:, None, None]
    return {name: x.pin_memory() if clock.ON_GPU else x for name, x in batch.items()}


def vectors(name: str) -> Batch:
    """The inputs of the two networks without a vocabulary, and the gradient of what they give."""
    names, shape = (("x", "first", "second"), (2, 5, 16)) if name == "notebook2" else (("x", "y"), (30, 200, 512))
    batch = {name: torch.randn(shape, device=clock.DEVICE, dtype=torch.bfloat16) for name in names}
    batch["dy"] = torch.randn(shape, device=clock.DEVICE)
    if name == "notebook3":
        mask = torch.full((shape[1], shape[1]), -torch.inf, device=clock.DEVICE, dtype=torch.bfloat16)
        batch["mask"] = mask.triu(1)
    return batch


class Training:
    """A network, its batches, and a step with each of them."""

    def __init__(self, name: str, file: str):
        self.name = name
        random = torch.Generator().manual_seed(1)
        if name in ("notebook2", "notebook3"):
            self.model, self.batches = networks.network(name), [vectors(name)]
        else:
            self.model = transformer(name)
            self.batches = [padded(pairs, self.model, random) for pairs in read(file)]
        self.model.to(clock.DEVICE).train()
        self.adam = torch.optim.Adam(self.model.parameters(), lr=1e-5, fused=True, capturable=clock.ON_GPU)

    def forward(self, batch: Batch) -> Tensor:
        if self.name == "notebook2":
            return self.model(batch["x"], memories=(batch["first"], batch["second"]))
        if self.name == "notebook3":
            return self.model(batch["x"], batch["y"], batch["mask"])
        return self.model.loss(batch["source"], batch["target"], batch["labels"], batch.get("source_mask"))

    def on_device(self, batch: Batch) -> Batch:
        return {name: x.to(clock.DEVICE, non_blocking=True) for name, x in batch.items()}

    def step(self, forward: Callable[[Batch], Tensor], batch: Batch) -> None:
        self.adam.zero_grad(set_to_none=True)
        with torch.autocast(clock.DEVICE.type, torch.bfloat16):
            result = forward(batch)
        result.backward(batch.get("dy"))
        self.adam.step()

    def passes(self, mode: str) -> Call:
        """A step with each batch. Throws what PyTorch throws if it cannot do it in that mode."""
        forward = self.forward
        if "compile" in mode:
            shapes = {tuple(b[name].shape for name in sorted(b)) for b in self.batches}
            forward = torch.compile(forward, dynamic=len(shapes) > 1)
        if "graph" not in mode:
            return lambda: [self.step(forward, self.on_device(batch)) for batch in self.batches]
        (batch,) = self.batches  # a graph has one shape
        place = self.on_device(batch)
        # The gradients are then the graph's own, written anew each time.
        replay = clock.captured(lambda: self.step(forward, place), lambda: self.adam.zero_grad(set_to_none=True))

        def copy_and_replay() -> None:
            for name, x in batch.items():
                if x.device != place[name].device:
                    place[name].copy_(x, non_blocking=True)
            replay()

        return copy_and_replay


def serve_modes(ready: Answer, modes: list[str], make: Callable[[str], Call], measure: Callable[[Call], Answer]) -> None:
    """Warms what can be made, says which modes that are, and then measures whichever is asked for. Memory is reported if no
    captured graph holds some."""
    calls: dict[str, Call] = {}
    notes: list[str] = []
    for mode in modes:
        try:
            call = make(mode)
            for _ in range(3):
                call()
            clock.synchronize()
            calls[mode] = call
        except Exception as e:  # whatever PyTorch may throw: the other modes are measured all the same
            lines = str(e).strip().splitlines() or [type(e).__name__]
            notes.append(f"{mode} left out: {lines[0][:160]}")

    def answer(request: Answer) -> Answer:
        clock.reset_memory()
        result = measure(calls[request["mode"]])
        if not any("graph" in mode for mode in calls):
            result["peak"] = clock.peak_memory()
        return result

    serve({**ready, "modes": list(calls), "notes": notes}, answer)


def step(network: str, file: str, seconds: str, *modes: str) -> None:
    training = Training(network, file)

    def measure(call: Call) -> Answer:
        return {"seconds": clock.host_seconds(float(seconds), call) / len(training.batches)}

    serve_modes({}, list(modes), training.passes, measure)


def decode(network: str, file: str, length: str, beam: str, *modes: str) -> None:
    model = transformer(network).to(clock.DEVICE, torch.bfloat16).eval()
    batches = [padded(pairs, model, torch.Generator().manual_seed(1))["source"] for pairs in read(file)]
    with torch.inference_mode():
        search = pytorch_decode.Search(model, batches, int(length), int(beam))
        serve_modes({}, list(modes), search.passes, lambda call: {"seconds": clock.host_seconds(0, call)})


def ceilings(size: str = "") -> None:
    """What PyTorch's copy moves, and its product of large matrices does."""
    count, n, seconds = (1 << 15, 64, 0.0) if size else (1 << 30, 8192, 0.05)
    x, y = (torch.randn(count, device=clock.DEVICE, dtype=torch.bfloat16) for _ in range(2))
    a, b = (torch.randn(n, n, device=clock.DEVICE, dtype=torch.bfloat16) for _ in range(2))
    c = torch.empty_like(a)

    def answer(request: Answer) -> Answer:
        copying = clock.device_seconds(5, seconds, lambda: y.copy_(x))
        multiplying = clock.device_seconds(5, seconds, lambda: torch.mm(a, b.t(), out=c))
        return {"copy": 4 * count / copying, "product": 2 * n**3 / multiplying}

    serve({"torch": torch.__version__, "cuda": torch.version.cuda}, answer)


if __name__ == "__main__":
    torch.manual_seed(1)
    {"step": step, "decode": decode, "ceilings": ceilings}[sys.argv[1]](*sys.argv[2:])
