"""Greedy and beam search in PyTorch, batched, with a key-value cache; the choices are those of attend's searches."""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from .networks import Transformer

Found = tuple[list[int], float]  # the tokens without begin and end, and the score


@dataclass
class Request:
    bos: int
    eos: int
    suppressed: list[int]
    max_length: int
    alpha: float = 0.0  # of the length penalty n ** alpha, the end counted
    beam: int = 1


class State:
    """The rows under way, `group` side by side for each sentence, with the keys and values of what they have said."""

    ROOM = 16  # tokens that the cache grows by

    def __init__(self, model: Transformer, sources: list[list[int]]):
        self.model, self.group, self.length = model, 1, 0
        tokens = torch.nn.utils.rnn.pad_sequence([torch.tensor(s) for s in sources], batch_first=True)
        lengths = torch.tensor([len(s) for s in sources])
        self.mask: Tensor | None = None  # [sentences, 1, 1, source length], True at tokens
        if bool((lengths != tokens.shape[1]).any()):
            self.mask = (torch.arange(tokens.shape[1]) < lengths[:, None])[:, None, None]
        memory = model.encoder(tokens, self.mask)
        self.layers = model.decoder.layers
        self.memories = [layer.cross[0].keys_values(memory) for layer in self.layers]  # [sentences, heads, source length, d_k]
        attention = self.layers[0].self_attention
        empty = memory.new_empty(len(sources), attention.heads, 0, attention.d_k)
        self.caches = [(empty, empty) for _ in self.layers]  # [rows, heads, room, d_k]

    def step(self, tokens: Tensor) -> Tensor:
        """Logits [rows, vocabulary], in float32 whatever the model is in, after one token more for each row, tokens [rows]."""
        decoder = self.model.decoder
        if self.length == self.caches[0][0].shape[2]:
            self.caches = [(self._grown(k), self._grown(v)) for k, v in self.caches]
        x = decoder.embed(tokens[:, None], self.length)  # [rows, 1, d_model]
        self.length += 1
        for layer, (k, v), memory in zip(self.layers, self.caches, self.memories):
            x = layer.around(0, x, lambda z: self._attend_to_self(layer.self_attention, k, v, z))
            x = layer.around(1, x, lambda z: self._attend_to_source(layer.cross[0], memory, z))
            x = layer.around(2, x, layer.feed_forward)
        return self.model.head(decoder.final_norm(x)).squeeze(1).float()

    def reorder(self, rows: Tensor) -> None:
        """Row i from now on continues what was row rows[i], of the same sentence."""
        self.caches = [(k.index_select(0, rows), v.index_select(0, rows)) for k, v in self.caches]

    def keep(self, sentences: Tensor) -> None:
        """Leaves the other sentences out; their rows go by `reorder`."""
        self.memories = [(k.index_select(0, sentences), v.index_select(0, sentences)) for k, v in self.memories]
        self.mask = None if self.mask is None else self.mask.index_select(0, sentences)

    def _grown(self, x: Tensor) -> Tensor:
        rows, heads, room, width = x.shape
        wider = x.new_empty(rows, heads, room + self.ROOM, width)
        wider[:, :, :room] = x
        return wider

    def _attend_to_self(self, attention, keys: Tensor, values: Tensor, x: Tensor) -> Tensor:
        q, k, v = attention.queries_keys_values(x)
        keys[:, :, self.length - 1 : self.length] = k
        values[:, :, self.length - 1 : self.length] = v
        return attention.attend(q, keys[:, :, : self.length], values[:, :, : self.length])

    def _attend_to_source(self, attention, memory, x: Tensor) -> Tensor:
        """The rows of a sentence are queries to the same keys."""
        width = x.shape[-1]
        q = attention.split(attention.q(x.view(-1, self.group, width)))  # [sentences, heads, group, d_k]
        return attention.attend(q, *memory, self.mask).reshape(-1, 1, width)


def greedy(model: Transformer, sources: list[list[int]], request: Request, scores: bool) -> list[Found]:
    """The most probable token again and again; a sentence that has ended leaves the batch. Scores only if they are wanted."""
    state = State(model, sources)
    under_way = torch.arange(len(sources))
    said: list[list[int]] = [[] for _ in sources]
    sums = [0.0] * len(sources)
    tokens = torch.full((len(sources),), request.bos)
    for _ in range(request.max_length + 1):
        logits = state.step(tokens)
        values = torch.log_softmax(logits, -1) if scores else logits
        values[:, request.suppressed] = -math.inf
        best, tokens = values.max(-1)
        live = []
        for row, (sentence, token, value) in enumerate(zip(under_way.tolist(), tokens.tolist(), best.tolist())):
            if token != request.eos and len(said[sentence]) == request.max_length:
                continue  # the limit has cut it off
            sums[sentence] += value
            if token != request.eos:
                said[sentence].append(token)
                live.append(row)
        if not live:
            break
        if len(live) < len(tokens):
            rows = torch.tensor(live)
            state.reorder(rows)
            state.keep(rows)
            under_way, tokens = under_way[rows], tokens[rows]
    return list(zip(said, sums))


@dataclass
class Endings:
    """The best finished hypothesis of a sentence, and how many there have been."""

    count: int = 0
    best: Found = field(default_factory=lambda: ([], -math.inf))

    def add(self, tokens: list[int], score: float) -> None:
        self.count += 1
        if score > self.best[1]:
            self.best = (tokens, score)


def beam_search(model: Transformer, sources: list[list[int]], request: Request) -> list[Found]:
    """At each step the `beam` most probable continuations that do not end live on, of the 2 * beam best; those that end count if
    they are among the first `beam`. A sentence is done when `beam` have ended."""
    beam, state = request.beam, State(model, sources)
    endings = [Endings() for _ in sources]
    under_way = torch.arange(len(sources))
    sums = torch.zeros(len(sources), 1)  # [sentences, group], of log-probabilities
    said = torch.empty(len(sources), 1, 0, dtype=torch.long)  # [sentences, group, length]
    tokens = torch.full((len(sources),), request.bos)
    for length in range(request.max_length + 1):
        values = torch.log_softmax(state.step(tokens), -1)  # [rows, vocabulary]
        values[:, request.suppressed] = -math.inf
        vocabulary, sentences = values.shape[1], len(under_way)
        totals = (values.view(sentences, state.group, vocabulary) + sums[..., None]).flatten(1)
        best, places = totals.topk(2 * beam, sorted=True)  # [sentences, 2 * beam]
        origins, chosen = places // vocabulary, places % vocabulary
        ends = chosen == request.eos
        penalty = (length + 1) ** request.alpha
        for s, rank in ends[:, :beam].nonzero().tolist():
            endings[under_way[s]].add(said[s, origins[s, rank]].tolist(), float(best[s, rank]) / penalty)
        alive = [s for s, i in enumerate(under_way.tolist()) if endings[i].count < beam and length < request.max_length]
        if length == request.max_length:
            unfinished(endings, under_way, sums, said, length**request.alpha if length else 1.0)
        if not alive:
            break
        # The first `beam` that do not end, in their order.
        going_on = ends.int().argsort(stable=True)[:, :beam]
        if len(alive) < sentences:
            kept = torch.tensor(alive)
            state.keep(kept)
            going_on, best, origins, chosen = (x.index_select(0, kept) for x in (going_on, best, origins, chosen))
            said, under_way = said.index_select(0, kept), under_way.index_select(0, kept)
        else:
            kept = torch.arange(sentences)
        sums, origins, chosen = (x.gather(1, going_on) for x in (best, origins, chosen))
        said = torch.cat((said.gather(1, origins[..., None].expand(-1, -1, length)), chosen[..., None]), -1)
        state.reorder((kept[:, None] * state.group + origins).flatten())
        state.group, tokens = beam, chosen.flatten()
    return [e.best for e in endings]


def unfinished(endings: list[Endings], under_way: Tensor, sums: Tensor, said: Tensor, penalty: float) -> None:
    """At the length limit, a sentence of which nothing has finished has its best live hypothesis."""
    for s, i in enumerate(under_way.tolist()):
        if endings[i].count == 0:
            endings[i].best = (said[s, 0].tolist(), float(sums[s, 0]) / penalty)
