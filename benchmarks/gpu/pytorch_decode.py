"""Greedy and beam search in PyTorch for a GPU: arrays that keep their places, so that a step can be a CUDA graph. All
translations get one length, as they must with weights that have learnt nothing."""

import math
from collections.abc import Callable

import torch
from comparison.networks import Attention, Transformer
from torch import Tensor

from . import pytorch_clock as clock
from .batches import BOS, EOS, PAD


class Search:
    """Batches of equally many sentences, `beam` rows side by side for each. What has been said is in two copies: a step reads
    one and leaves the other, its rows in the order of the beams."""

    def __init__(self, model: Transformer, sources: list[Tensor], length: int, beam: int):
        self.model, self.sources, self.length, self.beam = model, sources, length, beam
        self.sentences, attention = len(sources[0]), model.decoder.layers[0].self_attention
        if any(len(source) != self.sentences for source in sources):
            raise ValueError("batches of different sizes")
        rows, longest = self.sentences * beam, max(source.shape[1] for source in sources)

        def zeros(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=clock.DEVICE)

        def keys_values(count: int, steps: int) -> list[tuple[Tensor, Tensor]]:
            shape = (count, attention.heads, steps, attention.d_k)
            return [(zeros(*shape), zeros(*shape)) for _ in model.decoder.layers]

        self.caches = [keys_values(rows, length + 1) for _ in range(2 if beam > 1 else 1)]
        self.said = [zeros(rows, length + 1, dtype=torch.long) for _ in self.caches]
        self.memories = keys_values(self.sentences, longest)
        self.mask = zeros(self.sentences, 1, 1, longest, dtype=torch.bool)
        self.tokens, self.origins = zeros(rows, dtype=torch.long), zeros(rows, dtype=torch.long)
        self.rows = torch.arange(rows, device=clock.DEVICE)
        self.first_rows = self.rows[::beam, None]
        self.sums = zeros(self.sentences, beam, dtype=torch.float32)
        self.position = zeros(1, dtype=torch.long)
        self.steps = torch.arange(length + 1, device=clock.DEVICE)

    def begin(self, source: Tensor) -> None:
        """Encodes a batch's sources, [sentences, longest] in the host's memory."""
        tokens = source.to(clock.DEVICE, non_blocking=True)
        mask = (tokens != PAD)[:, None, None]
        memory = self.model.encoder(tokens, mask)
        self.mask.fill_(False)[..., : tokens.shape[1]] = mask
        for layer, (keys, values) in zip(self.model.decoder.layers, self.memories):
            k, v = layer.cross[0].keys_values(memory)
            keys[:, :, : k.shape[2]] = k
            values[:, :, : v.shape[2]] = v
        self.tokens.fill_(BOS)
        self.position.zero_()
        self.sums.fill_(-math.inf)[:, 0] = 0
        self.origins.copy_(self.rows)

    def step(self, copy: int) -> None:
        """One token more for each row."""
        before, now = copy, (copy + 1) % len(self.caches)
        decoder, width = self.model.decoder, self.model.head.in_features
        x = decoder.embedding(self.tokens[:, None]) * decoder.scale + decoder.positions[self.position]  # [rows, 1, d_model]
        seen = (self.steps <= self.position)[None, None, None]
        if before != now:
            torch.index_select(self.said[before], 0, self.origins, out=self.said[now])
        self.said[now].index_copy_(1, self.position, self.tokens[:, None])
        for i, layer in enumerate(decoder.layers):
            cache, memory = self.caches[now][i], self.memories[i]
            if before != now:
                for old, new in zip(self.caches[before][i], cache):
                    torch.index_select(old, 0, self.origins, out=new)

            def attend_to_self(z: Tensor, attention: Attention = layer.self_attention) -> Tensor:
                q, k, v = attention.queries_keys_values(z)
                for place, what in zip(cache, (k, v)):
                    place.index_copy_(2, self.position, what)
                return attention.attend(q, *cache, seen)

            def attend_to_source(z: Tensor, attention: Attention = layer.cross[0]) -> Tensor:
                q = attention.split(attention.q(z.view(self.sentences, self.beam, width)))
                return attention.attend(q, *memory, self.mask).reshape(-1, 1, width)

            x = layer.around(0, x, attend_to_self)
            x = layer.around(1, x, attend_to_source)
            x = layer.around(2, x, layer.feed_forward)
        values = torch.log_softmax(self.model.head(decoder.final_norm(x)).squeeze(1), -1, dtype=torch.float32)
        values[:, EOS] = -math.inf
        self._choose(values)
        self.position += 1

    def _choose(self, values: Tensor) -> None:
        """The most probable next token of each row, or the best continuations of each sentence; values [rows, vocabulary]."""
        if self.beam == 1:
            best, tokens = values.max(-1)
            self.sums += best[:, None]
            self.tokens.copy_(tokens)
            return
        vocabulary = values.shape[1]
        totals = (values.view(self.sentences, self.beam, vocabulary) + self.sums[..., None]).flatten(1)
        best, places = totals.topk(2 * self.beam)  # half of them could end
        places = places[:, : self.beam]
        self.sums.copy_(best[:, : self.beam])
        self.origins.copy_((self.first_rows + places // vocabulary).flatten())
        self.tokens.copy_((places % vocabulary).flatten())

    def passes(self, mode: str) -> Callable[[], None]:
        """A search of all batches. After each step the host sees the tokens, as it must to know who has ended."""
        step = torch.compile(self.step) if "compile" in mode else self.step
        calls = [lambda copy=copy: step(copy) for copy in range(len(self.caches))]
        if "graph" in mode:
            self.begin(self.sources[0])
            for copy, call in enumerate(calls):
                self.position.zero_()
                calls[copy] = clock.captured(call)

        def run() -> None:
            for source in self.sources:
                self.begin(source)
                for i in range(self.length + 1):
                    calls[i % len(calls)]()
                    self.tokens.tolist()

        return run
