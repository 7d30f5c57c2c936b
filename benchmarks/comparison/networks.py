"""The networks of ../networks.hpp, of PyTorch's own modules: the same function, the same sizes, dropout in the same places; and
any model that attend saves, from its config.json."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU, "gelu_tanh": lambda: nn.GELU("tanh"), "silu": nn.SiLU, "tanh": nn.Tanh}


@dataclass
class Dropout:
    embedding: float = 0.0
    attention: float = 0.0
    activation: float = 0.0
    feed_forward: float = 0.0
    residual: float = 0.0
    norm: float = 0.0
    block: float = 0.0


@dataclass
class Stack:
    """An encoder or a decoder, as attend's StackOptions."""

    vocabulary: int = 0
    d_model: int = 512
    heads: int = 8
    d_k: int = 0
    d_ff: int = 2048
    layers: int = 6
    activation: str = "relu"
    pre_norm: bool = False
    eps: float = 1e-5
    scalar_norm: bool = False  # one scalar gain and bias, over the sample deviation
    final_norm: bool = False
    attention_bias: bool = True
    scale_embedding: bool = True
    positions: str = "sinusoidal"
    position_base: float = 10000.0
    max_length: int = 1024
    dropout: Dropout = field(default_factory=Dropout)
    cross_attentions: int = 0
    causal: bool = False


class ScalarNorm(nn.Module):
    """Over the sample deviation, with one gain and one bias for all features."""

    def __init__(self, eps: float):
        super().__init__()
        self.eps = eps
        self.weight, self.bias = nn.Parameter(torch.ones(1)), nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        deviation, mean = torch.std_mean(x, -1, keepdim=True)
        return self.weight * ((x - mean) / (deviation + self.eps)) + self.bias


def make_norm(o: Stack) -> nn.Module:
    return ScalarNorm(o.eps) if o.scalar_norm else nn.LayerNorm(o.d_model, o.eps)


class Attention(nn.Module):
    """Packed projections and scaled_dot_product_attention: [batch, length, d_model]."""

    def __init__(self, o: Stack, self_attention: bool):
        super().__init__()
        self.heads, self.d_k, self.dropout = o.heads, o.d_k or o.d_model // o.heads, o.dropout.attention
        inner = self.heads * self.d_k
        if self_attention:
            self.qkv = nn.Linear(o.d_model, 3 * inner, bias=o.attention_bias)
        else:
            self.q = nn.Linear(o.d_model, inner, bias=o.attention_bias)
            self.kv = nn.Linear(o.d_model, 2 * inner, bias=o.attention_bias)
        self.out = nn.Linear(inner, o.d_model)

    def split(self, x: Tensor) -> Tensor:  # [batch, length, n * d_k] -> [batch, n, length, d_k]
        return x.unflatten(-1, (-1, self.d_k)).transpose(1, 2)

    def queries_keys_values(self, x: Tensor) -> Sequence[Tensor]:
        return self.split(self.qkv(x)).chunk(3, dim=1)

    def keys_values(self, memory: Tensor) -> Sequence[Tensor]:
        return self.split(self.kv(memory)).chunk(2, dim=1)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal)
        return self.out(y.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """A block. It attends to each of `memories` with a cross-attention of its own."""

    def __init__(self, o: Stack):
        super().__init__()
        self.pre_norm = o.pre_norm
        self.self_attention = Attention(o, True)
        self.cross = nn.ModuleList(Attention(o, False) for _ in range(o.cross_attentions))
        self.norms = nn.ModuleList(make_norm(o) for _ in range(2 + o.cross_attentions))
        d = o.dropout
        self.fc1, self.activation = nn.Linear(o.d_model, o.d_ff), ACTIVATIONS[o.activation]()
        self.fc2 = nn.Linear(o.d_ff, o.d_model)
        self.inner, self.outer = nn.Dropout(d.activation), nn.Dropout(d.feed_forward)
        self.residual, self.norm, self.block = nn.Dropout(d.residual), nn.Dropout(d.norm), nn.Dropout(d.block)

    def around(self, i: int, x: Tensor, f: Any) -> Tensor:
        """Residual connection and norm i around a sublayer."""
        if self.pre_norm:
            return x + self.residual(f(self.norm(self.norms[i](x))))
        return self.norm(self.norms[i](x + self.residual(f(x))))

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.outer(self.fc2(self.inner(self.activation(self.fc1(x)))))

    def forward(
        self,
        x: Tensor,
        self_mask: Tensor | None = None,
        causal: bool = False,
        memories: Sequence[Tensor] = (),
        memory_mask: Tensor | None = None,
    ) -> Tensor:
        def attend_to_self(z: Tensor) -> Tensor:
            return self.self_attention.attend(*self.self_attention.queries_keys_values(z), self_mask, causal)

        x = self.around(0, x, attend_to_self)
        for i, (attention, memory) in enumerate(zip(self.cross, memories), 1):
            kv = attention.keys_values(memory)
            x = self.around(i, x, lambda z: attention.attend(attention.split(attention.q(z)), *kv, memory_mask))
        return self.block(self.around(len(self.norms) - 1, x, self.feed_forward))


def sinusoid(length: int, width: int, base: float) -> Tensor:
    """attend's own: columns 2i and 2i + 1 are the sine and the cosine of one angle."""
    angle = torch.arange(length, dtype=torch.float64)[:, None] / base ** (torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.stack((angle.sin(), angle.cos()), -1).flatten(1)[:, :width].to(torch.get_default_dtype())


class Layers(nn.Module):
    """An encoder or a decoder: embedding and positions (if there is a vocabulary), layers, and a last norm if wanted."""

    def __init__(self, o: Stack):
        super().__init__()
        self.options = o
        if o.vocabulary:
            self.embedding = nn.Embedding(o.vocabulary, o.d_model)
            if o.positions == "learned":
                self.positions = nn.Parameter(torch.zeros(o.max_length, o.d_model))
            else:
                table = sinusoid(o.max_length, o.d_model, o.position_base)
                self.register_buffer("positions", table if o.positions == "sinusoidal" else torch.zeros_like(table))
        self.scale = math.sqrt(o.d_model) if o.scale_embedding else 1.0
        self.dropout = nn.Dropout(o.dropout.embedding)
        self.layers = nn.ModuleList(Layer(o) for _ in range(o.layers))
        self.final_norm = make_norm(o) if o.final_norm else nn.Identity()

    def embed(self, tokens: Tensor, first: int = 0) -> Tensor:
        x = self.embedding(tokens)
        if self.scale != 1.0:
            x = x * self.scale
        return self.dropout(x + self.positions[first : first + tokens.shape[1]])

    def forward(
        self,
        x: Tensor,
        self_mask: Tensor | None = None,
        memories: Sequence[Tensor] = (),
        memory_mask: Tensor | None = None,
    ) -> Tensor:
        if self.options.vocabulary:
            x = self.embed(x)
        for layer in self.layers:
            x = layer(x, self_mask, self.options.causal, memories, memory_mask)
        return self.final_norm(x)


class Transformer(nn.Module):
    def __init__(
        self, encoder: Stack, decoder: Stack, share_embeddings: bool = False, tie_head: bool = False, head_bias: bool = True
    ):
        super().__init__()
        self.encoder = Layers(encoder)
        self.decoder = Layers(replace(decoder, cross_attentions=1, causal=True))
        self.head = nn.Linear(decoder.d_model, decoder.vocabulary, bias=head_bias)
        if share_embeddings:
            self.decoder.embedding.weight = self.encoder.embedding.weight
        if tie_head:
            self.head.weight = self.decoder.embedding.weight

    def loss(self, source: Tensor, target: Tensor, labels: Tensor, source_mask: Tensor | None = None) -> Tensor:
        """Padding (label 0) is not counted. A causal decoder needs no mask of its own for padding at the end."""
        memory = self.encoder(source, source_mask)
        logits = self.head(self.decoder(target, None, (memory,), source_mask))
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=0, label_smoothing=0.1)


class EncoderDecoder(nn.Module):
    """On vectors, with a mask that is added to the decoder's scores."""

    def __init__(self, o: Stack):
        super().__init__()
        self.encoder, self.decoder = Layers(o), Layers(replace(o, cross_attentions=1))

    def forward(self, x: Tensor, y: Tensor, mask: Tensor) -> Tensor:
        return self.decoder(y, mask, (self.encoder(x),))


def network(name: str) -> nn.Module:
    """A network of ../networks.hpp by its name there."""
    if name == "notebook0":
        o = Stack(d_model=64, heads=4, d_k=16, d_ff=256, layers=2, activation="gelu", final_norm=True, scale_embedding=False)
        o.dropout = Dropout(embedding=0.1, feed_forward=0.1, block=0.1)
        return Transformer(replace(o, vocabulary=20000), replace(o, vocabulary=10000))
    if name == "notebook1":
        o = Stack(vocabulary=10000, scalar_norm=True, eps=1e-6, attention_bias=False, position_base=1000.0)
        o.dropout = Dropout(embedding=0.1, attention=0.1, activation=0.1, norm=0.1)
        return Transformer(o, o)
    if name == "notebook2":
        return Layer(Stack(d_model=16, heads=4, d_ff=64, cross_attentions=2))
    if name == "notebook3":
        return EncoderDecoder(Stack(layers=5, dropout=Dropout(activation=0.1, residual=0.1)))
    if name == "notebook4":
        o = Stack(dropout=Dropout(residual=0.2))
        return Transformer(replace(o, vocabulary=100), replace(o, vocabulary=52))
    if name == "tiny":
        o = Stack(vocabulary=10000, d_model=128, heads=4, d_ff=256, layers=4, dropout=Dropout(embedding=0.3, residual=0.3))
        return Transformer(o, o)
    if name == "base":
        o = Stack(vocabulary=10000, dropout=Dropout(embedding=0.1, residual=0.1))
        return Transformer(o, o, share_embeddings=True, tie_head=True)
    raise ValueError(f"no network is called {name}")


def saved_transformer(config: dict[str, Any]) -> Transformer:
    """The network that a config.json of attend describes. Throws ValueError for what these modules do not have."""

    def stack(o: dict[str, Any]) -> Stack:
        if o["norm"]["sample_deviation"] != o["norm"]["scalar_affine"] or (o["d_v"] or o["d_k"]) != o["d_k"]:
            raise ValueError("config.json: a norm or a width of values that the comparison does not have")
        same = ("vocabulary", "d_model", "heads", "d_k", "d_ff", "layers", "activation", "final_norm", "attention_bias")
        same += ("scale_embedding", "positions", "position_base", "max_length")
        norm = {"pre_norm": o["norm_order"] == "pre", "eps": o["norm"]["eps"], "scalar_norm": o["norm"]["scalar_affine"]}
        return Stack(**{key: o[key] for key in same}, **norm, dropout=Dropout(**o["dropout"]))

    ties = {key: config[key] for key in ("share_embeddings", "tie_head", "head_bias")}
    return Transformer(stack(config["encoder"]), stack(config["decoder"]), **ties)


@dataclass
class Part:
    """What attend calls `name`: rows `rows` of a parameter here."""

    name: str
    parameter: nn.Parameter
    rows: slice = field(default_factory=lambda: slice(None))


def parts(module: nn.Module, prefix: str = "") -> Iterator[Part]:
    """Everything that attend stores of a network, under attend's names. Shared parameters come once for each name."""
    if isinstance(module, (Transformer, EncoderDecoder)):
        yield from parts(module.encoder, "encoder.")
        yield from parts(module.decoder, "decoder.")
        if isinstance(module, Transformer):
            yield from _own("lm_head", module.head)
    elif isinstance(module, Layers):
        if module.options.vocabulary:
            yield Part(f"{prefix}embed_tokens.weight", module.embedding.weight)
            if isinstance(module.positions, nn.Parameter):
                yield Part(f"{prefix}embed_positions.weight", module.positions)
        for i, layer in enumerate(module.layers):
            yield from parts(layer, f"{prefix}layers.{i}.")
        if not isinstance(module.final_norm, nn.Identity):
            yield from _own(f"{prefix}layer_norm", module.final_norm)
    elif isinstance(module, Layer):
        yield from _attention(f"{prefix}self_attn.", module.self_attention)
        yield from _own(f"{prefix}self_attn_layer_norm", module.norms[0])
        for i, attention in enumerate(module.cross, 1):
            name = f"{prefix}encoder_attn{'' if i == 1 else i}"
            yield from _attention(f"{name}.", attention)
            yield from _own(f"{name}_layer_norm", module.norms[i])
        for name, own in (("fc1", module.fc1), ("fc2", module.fc2), ("final_layer_norm", module.norms[-1])):
            yield from _own(prefix + name, own)


def _own(name: str, module: nn.Module) -> Iterator[Part]:
    yield from (Part(f"{name}.{key}", parameter) for key, parameter in module.named_parameters())


def _attention(prefix: str, attention: Attention) -> Iterator[Part]:
    width = attention.heads * attention.d_k
    packed = [("qkv", attention.qkv)] if hasattr(attention, "qkv") else [("q", attention.q), ("kv", attention.kv)]
    for letters, linear in packed:
        for i, letter in enumerate(letters):
            for key, parameter in linear.named_parameters():
                yield Part(f"{prefix}{letter}_proj.{key}", parameter, slice(i * width, (i + 1) * width))
    yield from _own(f"{prefix}out_proj", attention.out)


@torch.no_grad()
def load(module: nn.Module, tensors: dict[str, Tensor]) -> None:
    """attend's weights. A shared parameter stands in a file under any of its names. Throws ValueError if one is missing."""
    found, used = set(), set()
    for part in parts(module):
        if part.name in tensors:
            part.parameter[part.rows] = tensors[part.name]
            found.add((id(part.parameter), part.rows.start))
            used.add(part.name)
    missing = [p.name for p in parts(module) if (id(p.parameter), p.rows.start) not in found]
    unknown = [name for name in tensors if name not in used]
    if missing or unknown:
        raise ValueError(f"weights do not fit: missing {missing[:5]}, unknown {unknown[:5]}")
