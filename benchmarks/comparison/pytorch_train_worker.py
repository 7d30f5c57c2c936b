"""PyTorch's side of a whole training: MODEL TRAIN VALIDATION TEST OUT, the first a model folder of attend, whose sizes and subwords
are taken and whose weights are not: the network begins with the initial values of PyTorch's own modules."""

import argparse
import json
import math
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import sacrebleu
import sentencepiece
import torch
from torch import Tensor

from . import networks, search
from .learning import read_pairs

PAD, BOS, EOS, UNK = 0, 1, 2, 3
LONGEST = 200
Pair = tuple[list[int], list[int]]


def begin(model: networks.Transformer) -> None:
    """nn.Linear keeps its own values, packed q, k and v are Xavier's as nn.MultiheadAttention has them, and embeddings that are
    also the head have a deviation of 1 / sqrt(width)."""
    for module in model.modules():
        if isinstance(module, networks.Attention):
            inner, width = module.heads * module.d_k, module.out.out_features
            for linear in (getattr(module, name) for name in ("qkv", "q", "kv") if hasattr(module, name)):
                bound = math.sqrt(6 / (width + 3 * inner))
                torch.nn.init.uniform_(linear.weight, -bound, bound)
                if linear.bias is not None:
                    torch.nn.init.zeros_(linear.bias)
            torch.nn.init.zeros_(module.out.bias)
        if isinstance(module, torch.nn.Embedding):
            torch.nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
    if model.head.bias is not None:
        torch.nn.init.zeros_(model.head.bias)


def cut(pairs: list[Pair], tokens: int, order: random.Random) -> list[list[Pair]]:
    """An epoch: batches of at most so many tokens on either side, as attend's, of similar lengths, in random order, padded as little
    as that allows."""
    pairs = pairs[:]
    order.shuffle(pairs)
    pairs.sort(key=lambda p: (len(p[1]), len(p[0])))
    batches: list[list[Pair]] = [[]]
    source = target = 0
    for pair in pairs:
        source, target = source + len(pair[0]) + 1, target + len(pair[1]) + 1
        if batches[-1] and max(source, target) > tokens:
            batches.append([])
            source, target = len(pair[0]) + 1, len(pair[1]) + 1
        batches[-1].append(pair)
    order.shuffle(batches)
    return batches


def padded(batch: list[Pair]) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    def rows(sentences: list[list[int]]) -> Tensor:
        return torch.nn.utils.rnn.pad_sequence([torch.tensor(s) for s in sentences], batch_first=True)

    source = rows([s + [EOS] for s, _ in batch])
    lengths = torch.tensor([len(s) + 1 for s, _ in batch])
    mask = None
    if bool((lengths != source.shape[1]).any()):
        mask = (torch.arange(source.shape[1]) < lengths[:, None])[:, None, None]
    return source, rows([[BOS] + t for _, t in batch]), rows([t + [EOS] for _, t in batch]), mask


class Translator:
    def __init__(self, model: networks.Transformer, pieces: sentencepiece.SentencePieceProcessor):
        self.model, self.pieces = model, pieces

    @torch.no_grad()
    def __call__(self, sentences: list[str], beam: int) -> list[str]:
        self.model.eval()
        sources = [self.pieces.encode(s) + [EOS] for s in sentences]
        order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
        out = [""] * len(sources)
        for begin_at in range(0, len(order), 64):
            part = order[begin_at : begin_at + 64]
            request = search.Request(BOS, EOS, [PAD, BOS, UNK], 100, 0.6, beam)
            batch = [sources[i] for i in part]
            found = search.greedy(self.model, batch, request, False) if beam == 1 else search.beam_search(self.model, batch, request)
            for i, (tokens, _) in zip(part, found):
                out[i] = self.pieces.decode(tokens)
        self.model.train()
        return out


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("model", "train", "validation", "test", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--way", choices=("eager", "compile", "bf16", "compile-bf16"), default="eager")
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--updates", type=int, default=0)
    for name, of in (("tokens", int), ("rate", float), ("warmup", int), ("beam", int), ("seed", int), ("validations", int)):
        parser.add_argument(f"--{name}", type=of, required=True)
    parser.add_argument("--dropout", type=float, help="of embeddings and residuals; as the folder's network where not given")
    parser.add_argument("--trial", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.manual_seed(given.seed)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(given.model / "tokenizer.model"))
    sources, targets = read_pairs(given.train)
    pairs = [(s, t) for s, t in zip(pieces.encode(sources), pieces.encode(targets)) if max(len(s), len(t)) < LONGEST]
    validation, test = read_pairs(given.validation), read_pairs(given.test)
    config = json.loads((given.model / "config.json").read_text(encoding="utf-8"))
    if given.dropout is not None:
        for side in ("encoder", "decoder"):
            config[side]["dropout"] |= {"embedding": given.dropout, "residual": given.dropout}
    model = networks.saved_transformer(config)
    begin(model)
    model.train()
    loss_of: Callable[..., Tensor] = model.loss
    if given.way.startswith("compile"):
        loss_of = torch.compile(loss_of, dynamic=True)
    adam = torch.optim.Adam(model.parameters(), lr=given.rate, betas=(0.9, 0.98), eps=1e-9, fused=True)
    translate, order = Translator(model, pieces), random.Random(given.seed)

    def step(batch: list[Pair], rate: float) -> float:
        source, target, labels, mask = padded(batch)
        adam.param_groups[0]["lr"] = rate
        adam.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=given.way.endswith("bf16")):
            loss = loss_of(source, target, labels, mask)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        return float(loss)

    def graphs() -> int:
        return torch._dynamo.utils.counters["stats"]["unique_graphs"] if given.way.startswith("compile") else 0

    if given.way.startswith("compile"):  # compiling is no training: it happens at a rate of 0
        for batch in cut(pairs, given.tokens, random.Random(0))[:6]:
            step(batch, 0.0)
        adam.state.clear()
        torch.manual_seed(given.seed)
    warmup = min(given.warmup, given.updates // 2) if given.updates else given.warmup  # as attend cuts it
    seconds, updates, tokens, curve, done, epoch, best = 0.0, 0, 0, [], 0.0, [], None
    while done < 1:
        if not epoch:
            epoch = cut(pairs, given.tokens, order)
        batch = epoch.pop()
        began, compiled = time.perf_counter(), graphs()
        fallen = done
        if given.updates:  # as attend's rate falls if the number of updates is known: from the end of the warm-up
            fallen = max(0.0, (updates + 1 - warmup) / (given.updates + 1 - warmup))
        step(batch, given.rate * min(1.0, (updates + 1) / max(1, warmup)) * (1 - fallen))
        if graphs() == compiled:  # else it compiled for a new shape: the step then costs PyTorch no time
            seconds += time.perf_counter() - began
        updates, tokens = updates + 1, tokens + sum(len(t) + 1 for _, t in batch)
        done = updates / given.updates if given.updates else seconds / (60 * given.minutes)
        if given.validations and done * given.validations >= len(curve) + 1:
            score = sacrebleu.corpus_bleu(translate(validation[0], 1), [validation[1]], force=True).score
            if not curve or score > max(p["bleu"] for p in curve):
                best = {name: value.clone() for name, value in model.state_dict().items()}
            curve.append({"seconds": seconds, "updates": updates, "bleu": score})
            print(f"{seconds:.0f} s, {updates} updates, {tokens / seconds:.0f} tokens/s, BLEU {score:.2f}", flush=True)
    if best:
        model.load_state_dict(best)
    out = [] if given.trial else translate(test[0], given.beam)
    given.out.write_text(json.dumps({"curve": curve, "seconds": seconds, "tokens": tokens, "test": out}), encoding="utf-8")


if __name__ == "__main__":
    main()
