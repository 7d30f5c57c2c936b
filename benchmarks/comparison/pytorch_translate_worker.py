"""PyTorch's side of translation: MODEL float32|bfloat16, which is what its weights are."""

import json
import os
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

from . import networks, search
from .worker import Answer, Stopwatch, resident, serve_translations


def main() -> None:
    folder = Path(sys.argv[1])
    idle = resident("VmRSS")
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    model = networks.saved_transformer(json.loads((folder / "config.json").read_text(encoding="utf-8"))).eval()
    networks.load(model, load_file(folder / "model.safetensors"))
    model.to(getattr(torch, sys.argv[2]))

    @torch.inference_mode()
    def translate(sources: list[list[int]], request: Answer) -> Answer:
        names = ("bos", "eos", "suppressed", "max_length", "alpha", "beam")
        options = search.Request(**{name: request[name] for name in names})
        found: list[search.Found] = []
        watch = Stopwatch()
        for first in range(0, len(sources), request["batch"]):
            batch = sources[first : first + request["batch"]]
            if options.beam > 1:
                found += search.beam_search(model, batch, options)
            else:
                found += search.greedy(model, batch, options, request["scores"])
        return {**watch.per(1), "outputs": [tokens for tokens, _ in found], "scores": [score for _, score in found]}

    serve_translations(idle, list, translate)


if __name__ == "__main__":
    main()
