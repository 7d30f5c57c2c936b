#!/usr/bin/env python3
"""Writes reference values of encoder-decoders of today's parts, computed by plain PyTorch code in float64.

One .safetensors file a model, laid out as those of make_reference.py: metadata (the options), input.NAME, param.NAME, output.NAME,
grad.NAME, where NAMEs of parameters are the library's. Where `transformers` is installed, T5's buckets and Llama's rotary
positions are held to its own first.

usage: make_stacks.py OUT_DIR
"""
import json, math, os, struct, sys
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)

BASE = dict(vocabulary=7, d_model=8, heads=4, d_k=4, d_ff=6, layers=2, max_length=9, positions="none",
            position_base=10000.0, rotary_fraction=1.0, buckets=32, max_distance=128, offset=0, kv_heads=0, gated=False, bias=True, activation="gelu", attention_scale=0.0,
            norm="layer", norm_eps=1e-5, norm_bias=True, norm_order="post", final_norm=False, norm_embedding=False,
            scale_embedding=False, tie=False, scale_head=False, head_bias=True)
# What each is like, in small.
MODELS = {
    # T5 1.1: relative positions of the first layer's table, gated GELU, no biases, scores unscaled.
    "stack_t5": dict(positions="relative", buckets=8, max_distance=10, gated=True, bias=False, activation="gelu_tanh",
                     attention_scale=1.0, norm="rms", norm_eps=1e-6, norm_bias=False, norm_order="pre", final_norm=True,
                     head_bias=False),
    # T5 as it was: ReLU, a tied head with a scale.
    "stack_t5_tied": dict(positions="relative", buckets=6, max_distance=20, bias=False, activation="relu", attention_scale=1.0,
                          norm="rms", norm_eps=1e-6, norm_bias=False, norm_order="pre", final_norm=True, tie=True,
                          scale_head=True, head_bias=False),
    # umT5: a table for each layer.
    "stack_umt5": dict(positions="relative_each", buckets=8, max_distance=10, gated=True, bias=False, activation="gelu_tanh",
                       attention_scale=1.0, norm="rms", norm_bias=False, norm_order="pre", final_norm=True, head_bias=False),
    # Llama's blocks: rotary positions in halves, SwiGLU, two heads of keys and values.
    "stack_llama": dict(positions="rotary", kv_heads=2, gated=True, bias=False, activation="silu", norm="rms", norm_bias=False,
                        norm_order="pre", final_norm=True, head_bias=False),
    # The paper's order of columns, half of each head, another base, one head of keys and values.
    "stack_rotary": dict(positions="rotary_interleaved", rotary_fraction=0.5, position_base=50.0, kv_heads=1),
    # BART: learned positions from row 2 on, a norm on embeddings.
    "stack_bart": dict(positions="learned", offset=2, norm_embedding=True, tie=True),
}


def save_safetensors(path, tensors, metadata):
    names = {torch.float64: "F64", torch.int64: "I64", torch.uint8: "U8"}
    header, blobs, at = {"__metadata__": {k: str(v) for k, v in metadata.items()}}, [], 0
    for name, t in tensors.items():
        t = t.detach().contiguous().cpu()
        values = t.flatten().tolist()
        code = {torch.float64: "d", torch.int64: "q", torch.uint8: "B"}[t.dtype]
        data = struct.pack(f"<{len(values)}{code}", *values)
        header[name] = {"dtype": names[t.dtype], "shape": list(t.shape), "data_offsets": [at, at + len(data)]}
        blobs.append(data)
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def bucket(distance, bidirectional, buckets, max_distance):
    """Of a key that far behind its query, after T5's description, one at a time."""
    first = 0
    if bidirectional:
        buckets //= 2
        first = buckets if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = max(0, -distance)
    exact = buckets // 2
    if distance < exact:
        return first + distance
    # T5 takes the logarithm in float32.
    part = torch.log(torch.tensor(distance, dtype=torch.float32) / exact) / math.log(max_distance / exact) * (buckets - exact)
    return first + min(exact + int(part), buckets - 1)


def turn(x, o):
    """Rotary positions by complex numbers: x [heads, length, d_k]."""
    columns = round(o["rotary_fraction"] * x.shape[-1])
    pairs = columns // 2
    angles = torch.arange(x.shape[1])[:, None] * o["position_base"] ** (-2 * torch.arange(pairs) / columns)
    if o["positions"] == "rotary":
        z = torch.complex(x[..., :pairs], x[..., pairs:columns])
    else:
        z = torch.complex(x[..., 0:columns:2], x[..., 1:columns:2])
    z = z * torch.polar(torch.ones_like(angles), angles)
    if o["positions"] == "rotary":
        turned = torch.cat([z.real, z.imag], -1)
    else:
        turned = torch.stack([z.real, z.imag], -1).flatten(-2)
    return torch.cat([turned, x[..., columns:]], -1)


class Model:
    def __init__(self, o, seed):
        self.o, self.p = o, {}
        self.generator = torch.Generator().manual_seed(seed)

    def par(self, name, *shape):
        if name not in self.p:
            deviation = 1 / math.sqrt(shape[-1]) if len(shape) > 1 else 0.3
            # Scores that are not scaled would be large, and their softmax hang on last bits; as small as T5 begins they would
            # hardly have gradients.
            if name.endswith("q_proj.weight") and self.o["attention_scale"]:
                deviation *= self.o["d_k"] ** -0.25
            x = torch.randn(*shape, generator=self.generator) * deviation
            if "norm" in name and name.endswith("weight"):
                x = x + 1
            self.p[name] = x.requires_grad_()
        return self.p[name]

    def linear(self, name, x, width):
        y = x @ self.par(name + ".weight", width, x.shape[-1]).T
        return y + self.par(name + ".bias", width) if self.o["bias"] else y

    def norm(self, name, x):
        o, width = self.o, x.shape[-1]
        if o["norm"] == "layer":
            x = x - x.mean(-1, keepdim=True)
        y = x / torch.sqrt((x * x).mean(-1, keepdim=True) + o["norm_eps"]) * self.par(name + ".weight", width)
        return y + self.par(name + ".bias", width) if o["norm_bias"] else y

    def attention(self, name, x, memory, causal, layer, own):
        o = self.o
        heads, of_keys = o["heads"], o["kv_heads"] or o["heads"]
        d_k = o["d_k"]
        split = lambda y, n: y.view(y.shape[0], n, d_k).transpose(0, 1)
        q = split(self.linear(name + ".q_proj", x, heads * d_k), heads)
        k = split(self.linear(name + ".k_proj", memory, of_keys * d_k), of_keys)
        v = split(self.linear(name + ".v_proj", memory, of_keys * d_k), of_keys)
        if own and o["positions"].startswith("rotary"):
            q, k = turn(q, o), turn(k, o)
        k, v = (y.repeat_interleave(heads // of_keys, 0) for y in (k, v))
        scores = q @ k.transpose(1, 2) * (o["attention_scale"] or d_k ** -0.5)
        if own and o["positions"].startswith("relative"):
            owner = name if o["positions"] == "relative_each" else name.replace(f"layers.{layer}.", "layers.0.")
            table = self.par(owner + ".relative_attention_bias.weight", o["buckets"], heads)
            find = lambda distance: bucket(distance, not causal, o["buckets"], o["max_distance"])
            index = [[find(j - i) for j in range(len(memory))] for i in range(len(x))]
            scores = scores + table[torch.tensor(index)].permute(2, 0, 1)
        if causal:
            scores = scores.masked_fill(torch.ones(len(x), len(memory), dtype=torch.bool).triu(1), float("-inf"))
        y = (scores.softmax(-1) @ v).transpose(0, 1).reshape(len(x), -1)
        return self.linear(name + ".out_proj", y, o["d_model"])

    def feed_forward(self, name, x):
        o = self.o
        f = {"relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda a: F.gelu(a, approximate="tanh"), "silu": F.silu}[o["activation"]]
        if o["gated"]:
            y = f(self.linear(name + ".gate_proj", x, o["d_ff"])) * self.linear(name + ".fc1", x, o["d_ff"])
        else:
            y = f(self.linear(name + ".fc1", x, o["d_ff"]))
        return self.linear(name + ".fc2", y, o["d_model"])

    def sublayer(self, name, x, f):
        return x + f(self.norm(name, x)) if self.o["norm_order"] == "pre" else self.norm(name, x + f(x))

    def stack(self, side, tokens, memory):
        o = self.o
        x = self.par(side + ".embed_tokens.weight", o["vocabulary"], o["d_model"])[tokens]
        if o["scale_embedding"]:
            x = x * math.sqrt(o["d_model"])
        if o["positions"] == "learned":
            table = self.par(side + ".embed_positions.weight", o["offset"] + o["max_length"], o["d_model"])
            x = x + table[o["offset"]:o["offset"] + len(tokens)]
        if o["norm_embedding"]:
            x = self.norm(side + ".layernorm_embedding", x)
        causal = side == "decoder"
        for i in range(o["layers"]):
            at = f"{side}.layers.{i}."
            x = self.sublayer(at + "self_attn_layer_norm", x,
                              lambda z: self.attention(at + "self_attn", z, z, causal, i, True))
            if causal:
                x = self.sublayer(at + "encoder_attn_layer_norm", x,
                                  lambda z: self.attention(at + "encoder_attn", z, memory, False, i, False))
            x = self.sublayer(at + "final_layer_norm", x, lambda z: self.feed_forward(at[:-1], z))
        return self.norm(side + ".layer_norm", x) if o["final_norm"] else x

    def logits(self, source, target):
        o = self.o
        x = self.stack("decoder", target, self.stack("encoder", source, None))
        if o["scale_head"]:
            x = x * o["d_model"] ** -0.5
        head = self.par("decoder.embed_tokens.weight" if o["tie"] else "lm_head.weight", o["vocabulary"], o["d_model"])
        y = x @ head.T
        return y + self.par("lm_head.bias", o["vocabulary"]) if o["head_bias"] else y


def check_against_transformers():
    try:
        from transformers.models.llama.modeling_llama import apply_rotary_pos_emb
        from transformers.models.t5.modeling_t5 import T5Attention
    except ImportError:
        print("transformers is not installed: nothing is held to it")
        return
    distances = range(-300, 301)
    for bidirectional in (True, False):
        for buckets, most in ((32, 128), (8, 10), (6, 20)):
            theirs = T5Attention._relative_position_bucket(torch.tensor(list(distances)), bidirectional=bidirectional,
                                                           num_buckets=buckets, max_distance=most).tolist()
            assert theirs == [bucket(d, bidirectional, buckets, most) for d in distances]
    x = torch.randn(4, 7, 8)
    angles = torch.arange(7)[:, None] * 10000.0 ** (-2 * torch.arange(4) / 8)
    both = torch.cat([angles, angles], -1)[None]
    theirs, _ = apply_rotary_pos_emb(x[None], x[None], both.cos(), both.sin())
    ours = turn(x, dict(BASE, positions="rotary"))
    assert (theirs[0] - ours).abs().max() < 1e-12
    print("T5's buckets and Llama's rotary positions are those of transformers")


def main(folder):
    check_against_transformers()
    for number, (name, changes) in enumerate(MODELS.items()):
        o = dict(BASE, **changes)
        model = Model(o, 100 + number)
        generator = torch.Generator().manual_seed(number)
        lengths = [(7, 5), (3, 8), (9, 1)]
        words = lambda n: torch.randint(0, o["vocabulary"], (n,), generator=generator)
        pairs = [(words(s), words(t), words(t)) for s, t in lengths]
        logits = torch.cat([model.logits(source, target) for source, target, _ in pairs])
        labels = torch.cat([label for _, _, label in pairs])
        loss = F.cross_entropy(logits, labels)
        names = list(model.p)
        tensors = {"input.source": torch.cat([p[0] for p in pairs]), "input.target": torch.cat([p[1] for p in pairs]),
                   "input.labels": labels, "input.source_lengths": torch.tensor([s for s, _ in lengths]),
                   "input.target_lengths": torch.tensor([t for _, t in lengths]), "output.logits": logits,
                   "output.loss": loss.reshape(1)}
        tensors.update({"param." + n: model.p[n] for n in names})
        tensors.update({"grad." + n: g for n, g in zip(names, torch.autograd.grad(loss, [model.p[n] for n in names]))})
        save_safetensors(os.path.join(folder, name + ".safetensors"), tensors, o)
        print(name, sum(p.numel() for p in model.p.values()), "parameters, loss", loss.item())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
