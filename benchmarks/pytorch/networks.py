"""The networks of ../networks.hpp, of PyTorch's own modules: the same function, the same sizes, dropout in the same places."""

import math
from dataclasses import dataclass, field, replace

import torch
import torch.nn.functional as F
from torch import nn


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
    vocabulary: int = 0
    d_model: int = 512
    heads: int = 8
    d_k: int = 0
    d_ff: int = 2048
    layers: int = 6
    activation: type = nn.ReLU
    scalar_norm: bool = False  # one scalar gain and bias, over the sample deviation
    final_norm: bool = False
    attention_bias: bool = True
    scale_embedding: bool = True
    position_base: float = 10000.0
    max_length: int = 1024
    dropout: Dropout = field(default_factory=Dropout)
    cross_attentions: int = 0
    causal: bool = False


class ScalarNorm(nn.Module):
    """Over the sample deviation, with one gain and one bias for all features."""

    def __init__(self, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight, self.bias = nn.Parameter(torch.ones(1)), nn.Parameter(torch.zeros(1))

    def forward(self, x):
        deviation, mean = torch.std_mean(x, -1, keepdim=True)
        return self.weight * ((x - mean) / (deviation + self.eps)) + self.bias


def make_norm(o):
    return ScalarNorm() if o.scalar_norm else nn.LayerNorm(o.d_model)


class Attention(nn.Module):
    """Packed projections and scaled_dot_product_attention: [batch, length, d_model]."""

    def __init__(self, o):
        super().__init__()
        self.heads, self.d_k, self.dropout = o.heads, o.d_k or o.d_model // o.heads, o.dropout.attention
        inner = self.heads * self.d_k
        self.q = nn.Linear(o.d_model, inner, bias=o.attention_bias)
        self.kv = nn.Linear(o.d_model, 2 * inner, bias=o.attention_bias)
        self.out = nn.Linear(inner, o.d_model)

    def split(self, x):  # [batch, length, n * d_k] -> [batch, n, length, d_k]
        return x.unflatten(-1, (-1, self.d_k)).transpose(1, 2)

    def keys_and_values(self, memory):
        return self.split(self.kv(memory)).chunk(2, dim=1)

    def attend(self, q, k, v, mask=None, causal=False):
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal)
        return self.out(y.transpose(1, 2).flatten(2))

    def forward(self, x, memory, mask=None, causal=False):
        return self.attend(self.split(self.q(x)), *self.keys_and_values(memory), mask, causal)


class SelfAttention(Attention):
    """q, k and v of one product."""

    def __init__(self, o):
        super().__init__(o)
        del self.q, self.kv
        self.qkv = nn.Linear(o.d_model, 3 * self.heads * self.d_k, bias=o.attention_bias)

    def forward(self, x, mask=None, causal=False):
        return self.attend(*self.split(self.qkv(x)).chunk(3, dim=1), mask, causal)

    def step(self, x, cache):
        """One token a sentence, x [batch, 1, d_model], and the keys and values before it."""
        q, k, v = self.split(self.qkv(x)).chunk(3, dim=1)
        cache.append(k, v)
        return self.attend(q, *cache.get())


class Cache:
    """Keys and values of what was said before, in memory that is there from the first."""

    def __init__(self, batch, heads, length, d_k):
        self.k, self.v, self.length = torch.empty(batch, heads, length, d_k), torch.empty(batch, heads, length, d_k), 0

    def append(self, k, v):
        self.k[:, :, self.length : self.length + 1] = k
        self.v[:, :, self.length : self.length + 1] = v
        self.length += 1

    def get(self):
        return self.k[:, :, : self.length], self.v[:, :, : self.length]


class Layer(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.causal = o.causal
        self.self_attention = SelfAttention(o)
        self.cross = nn.ModuleList(Attention(o) for _ in range(o.cross_attentions))
        self.norms = nn.ModuleList(make_norm(o) for _ in range(2 + o.cross_attentions))
        d = o.dropout
        self.feed_forward = nn.Sequential(
            nn.Linear(o.d_model, o.d_ff),
            o.activation(),
            nn.Dropout(d.activation),
            nn.Linear(o.d_ff, o.d_model),
            nn.Dropout(d.feed_forward),
        )
        self.residual, self.norm, self.block = nn.Dropout(d.residual), nn.Dropout(d.norm), nn.Dropout(d.block)

    def add(self, norm, x, y):
        return self.norm(norm(x + self.residual(y)))

    def forward(self, x, self_mask=None, memories=(), memory_mask=None):
        x = self.add(self.norms[0], x, self.self_attention(x, self_mask, self.causal))
        for attention, norm, memory in zip(self.cross, self.norms[1:], memories):
            x = self.add(norm, x, attention(x, memory, memory_mask))
        return self.block(self.add(self.norms[-1], x, self.feed_forward(x)))

    def step(self, x, cache, memories):
        x = self.add(self.norms[0], x, self.self_attention.step(x, cache))
        for attention, norm, (k, v) in zip(self.cross, self.norms[1:], memories):
            x = self.add(norm, x, attention.attend(attention.split(attention.q(x)), k, v))
        return self.block(self.add(self.norms[-1], x, self.feed_forward(x)))


def sinusoid(length, width, base):
    angle = torch.arange(length)[:, None] / base ** (torch.arange(0, width, 2) / width)
    return torch.stack((angle.sin(), angle.cos()), -1).flatten(1)


class Layers(nn.Module):
    """An encoder or a decoder: embedding and positions (where there is a vocabulary), layers, and a last norm where wanted."""

    def __init__(self, o):
        super().__init__()
        self.options = o
        if o.vocabulary:
            self.embedding = nn.Embedding(o.vocabulary, o.d_model)
            nn.init.normal_(self.embedding.weight, std=o.d_model**-0.5)
            self.register_buffer("positions", sinusoid(o.max_length, o.d_model, o.position_base))
        self.scale = math.sqrt(o.d_model) if o.scale_embedding else 1.0
        self.dropout = nn.Dropout(o.dropout.embedding)
        self.layers = nn.ModuleList(Layer(o) for _ in range(o.layers))
        self.final_norm = make_norm(o) if o.final_norm else nn.Identity()

    def embed(self, tokens, first=0):
        x = self.embedding(tokens)
        if self.scale != 1.0:
            x = x * self.scale
        return self.dropout(x + self.positions[first : first + tokens.shape[1]])

    def forward(self, x, self_mask=None, memories=(), memory_mask=None):
        if self.options.vocabulary:
            x = self.embed(x)
        for layer in self.layers:
            x = layer(x, self_mask, memories, memory_mask)
        return self.final_norm(x)


class Transformer(nn.Module):
    def __init__(self, encoder, decoder):
        super().__init__()
        self.encoder = Layers(encoder)
        self.decoder = Layers(replace(decoder, cross_attentions=1, causal=True))
        self.head = nn.Linear(decoder.d_model, decoder.vocabulary)

    def loss(self, source, target, labels, source_mask=None):
        """Padding (label 0) is not counted. A causal decoder needs no mask of its own for padding at the end."""
        memory = self.encoder(source, source_mask)
        logits = self.head(self.decoder(target, None, (memory,), source_mask))
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=0, label_smoothing=0.1)

    @torch.inference_mode()
    def greedy(self, source, length, source_mask=None, bos=1, eos=2):
        """`length` tokens a sentence, token by token, with a key-value cache."""
        if source_mask is not None:
            raise ValueError("greedy takes sentences of one length")
        memory, batch = self.encoder(source), source.shape[0]
        o = self.decoder.options
        kv = [[attention.keys_and_values(memory) for attention in layer.cross] for layer in self.decoder.layers]
        caches = [Cache(batch, o.heads, length, o.d_k or o.d_model // o.heads) for _ in kv]
        tokens, found = torch.full((batch, 1), bos), []
        for i in range(length):
            x = self.decoder.embed(tokens, i)
            for layer, cache, memories in zip(self.decoder.layers, caches, kv):
                x = layer.step(x, cache, memories)
            logits = self.head(self.decoder.final_norm(x))
            logits[..., eos] = -math.inf  # not before `length`
            tokens = logits.argmax(-1)
            found.append(tokens)
        return torch.cat(found, 1)


def notebook0():
    o = Stack(d_model=64, heads=4, d_k=16, d_ff=256, layers=2, activation=nn.GELU, final_norm=True, scale_embedding=False)
    o.dropout = Dropout(embedding=0.1, feed_forward=0.1, block=0.1)
    return Transformer(replace(o, vocabulary=20000), replace(o, vocabulary=10000))


def notebook1():
    o = Stack(vocabulary=10000, scalar_norm=True, attention_bias=False, position_base=1000.0)
    o.dropout = Dropout(embedding=0.1, attention=0.1, activation=0.1, norm=0.1)
    return Transformer(o, o)


def notebook2():
    return Layer(Stack(d_model=16, heads=4, d_ff=64, cross_attentions=2))


def notebook3():
    o = Stack(layers=5, dropout=Dropout(activation=0.1, residual=0.1))
    return Layers(o), Layers(replace(o, cross_attentions=1))


def notebook4():
    o = Stack(dropout=Dropout(residual=0.2))
    return Transformer(replace(o, vocabulary=100), replace(o, vocabulary=52))


def tiny():
    o = Stack(vocabulary=10000, d_model=128, heads=4, d_ff=256, layers=4, dropout=Dropout(embedding=0.3, residual=0.3))
    return Transformer(o, o)
