#!/usr/bin/env python3
"""Writes small models of the BART and T5 families, on request of Marian's too, and what the `transformers` library makes of them, for the tests beside this.

One folder a model, as `transformers` saves it (config.json, generation_config.json, model.safetensors), without a tokenizer, and in
it `expected.safetensors`, all numbers computed in float64:
  source, source_lengths       token ids of some sentences, end to end, each with its end token
  target, target_lengths       decoder inputs for the first of them, and
  labels                       what is to follow each
  logits                       [target rows, vocabulary]
  loss                         the mean cross-entropy of the labels
  gradients                    [parameters, 2], for those that the metadata's `parameters` names (JSON, as in model.safetensors):
                               the sum of d loss / d x[i] times cos(i + 1) over all i, and the root of the sum of squares
  search.N.tokens, .lengths    what `generate` gives with the options of the metadata's `search.N` (JSON): the sequences of all
                               sentences, best first, without begin and padding
  search.N.scores              of beam search

Two things are computed otherwise than `transformers` does, in float64 where it has float32: the sinusoids of M2M-100 and Marian, and
the mean square in T5's norms. And the embedding of Marian's padding, which its targets begin with, has a gradient, which
`transformers` leaves out.

usage: make_pretrained.py OUT_DIR [COUNT [FAMILY ...]]    COUNT: as many models of each family, or of these, with options drawn at
                                                          random, in place of the twelve of data/ (needs what requirements.txt names)
"""
import importlib
import json
import math
import os
import random
import shutil
import sys
import warnings

import torch
import transformers
from safetensors.torch import save_file
from transformers import GenerationConfig

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "marian"))
from make_marian import flat, unpadded  # noqa: E402

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()
torch.set_num_threads(1)

CLASSES = {"bart": "Bart", "mbart": "MBart", "m2m_100": "M2M100", "t5": "T5", "mt5": "MT5", "umt5": "UMT5", "marian": "Marian"}
ACTIVATIONS = ["relu", "gelu", "gelu_new", "silu", "swish", "gelu_pytorch_tanh", "tanh", "gelu_fast"]


def exact_norm(self, x):
    return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


for family in ("t5", "mt5", "umt5"):
    module = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
    getattr(module, CLASSES[family] + "LayerNorm").forward = exact_norm


def exact_sinusoids(positions):
    """Those of M2M-100 as its program describes them, in float64."""
    rows, width = positions.weights.shape
    half = width // 2
    steps = torch.exp(torch.arange(half, dtype=torch.float64) * -(math.log(10000) / (half - 1)))
    angles = torch.arange(rows, dtype=torch.float64)[:, None] * steps[None]
    table = torch.cat([torch.sin(angles), torch.cos(angles)], dim=1)
    used = slice(positions.padding_idx + 1, None)
    assert (table[used] - positions.weights[used]).abs().max() < 5e-3  # these are rounded to the weights' type
    positions.weights = torch.nn.Buffer(table, persistent=False)


def exact_marian_sinusoids(positions):
    rows, width = positions.weight.shape
    j = torch.arange(width, dtype=torch.float64)
    angles = torch.arange(rows, dtype=torch.float64)[:, None] / 10000 ** (2 * torch.div(j, 2, rounding_mode="floor") / width)
    table = torch.cat([torch.sin(angles[:, 0::2]), torch.cos(angles[:, 1::2])], dim=1)
    assert (table - positions.weight).abs().max() < 5e-3
    positions.weight = torch.nn.Parameter(table, requires_grad=False)


def random_weights(model, generator):
    """Norms and biases start away from 1 and 0, so that all of them count."""
    for name, p in model.named_parameters():
        if not p.requires_grad:  # Marian's sinusoids
            continue
        draw = torch.randn(p.shape, generator=generator)
        if "norm" in name:
            p.data = (1 if name.endswith("weight") else 0) + 0.3 * draw
        elif name.endswith("bias"):
            p.data = 0.2 * draw
        elif "relative_attention_bias" in name or "embed_positions" in name:
            p.data = 0.5 * draw
        elif "embed" in name or "shared" in name or "lm_head" in name:
            p.data = (0.4 if getattr(model.config, "scale_embedding", False) else 0.8) * draw
        else:
            p.data = 1.0 / p.shape[-1] ** 0.5 * draw
    if hasattr(model, "final_logits_bias"):
        model.final_logits_bias = torch.nn.Buffer(0.4 * torch.randn(model.final_logits_bias.shape, generator=generator))


def train(model, o, r):
    """Teaches it to turn a sentence round and say other words: random networks of this size say one word again and again."""
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=6e-3)
    for _ in range(o["steps"]):
        sources, labels = [], []
        for _ in range(16):
            words = [r.randrange(4, o["vocabulary"] - 2) for _ in range(r.randint(2, 5))]
            sources.append(words + [o["eos"]])
            said = [4 + (w * 3) % (o["vocabulary"] - 6) for w in reversed(words)]
            labels.append(([o["first"]] if o["first"] is not None else []) + said + [o["eos"]])
        pad = lambda rows, value: torch.tensor([row + [value] * (max(map(len, rows)) - len(row)) for row in rows])
        given = pad([[o["begin"]] + row[:-1] for row in labels], o["pad"])
        mask = (pad(sources, -1) != -1).long()
        logits = model(input_ids=pad(sources, o["pad"]), attention_mask=mask, decoder_input_ids=given).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), pad(labels, -100).flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return loss.item()


def searches(o):
    some = [
        {"num_beams": 1, "max_length": 14},
        {"num_beams": 4, "max_length": 14, "num_return_sequences": 4, "length_penalty": 1.0},
        {"num_beams": 4, "max_length": 12, "num_return_sequences": 2, "length_penalty": 2.0, "early_stopping": True,
         "no_repeat_ngram_size": 3, "min_length": 6},
        {"num_beams": 1, "max_length": 9, "no_repeat_ngram_size": 2, "bad_words_ids": [[o["pad"]], [5], [7, 9], [11, 4]]},
    ]
    # What the model's own configuration leaves out: another language, and none.
    some[2]["forced_bos_token_id"] = o["vocabulary"] - 2
    some[3]["forced_bos_token_id"] = None
    return some


def make_model(out, name, family, seed, o, **options):
    """`o`: what this script needs to know; `options`: of the configuration."""
    folder = os.path.join(out, name)
    shutil.rmtree(folder, ignore_errors=True)
    o = {"vocabulary": 20, "steps": 300, "dtype": torch.float16, "first": None, "forced_eos": None, "head": False, **o}
    t5 = family.endswith("t5")
    o.setdefault("pad", 0 if t5 else 1)
    o.setdefault("eos", 1 if t5 else 2)
    o.setdefault("begin", o["pad"] if t5 else o["eos"])
    torch.manual_seed(seed)
    config = getattr(transformers, CLASSES[family] + "Config")(
        vocab_size=o["vocabulary"], pad_token_id=o["pad"], eos_token_id=o["eos"], decoder_start_token_id=o["begin"],
        **({"forced_eos_token_id": o["forced_eos"]} if family in ("bart", "mbart", "marian") else {}),
        **({"bos_token_id": 0} if family != "marian" else {}), **options)
    config._attn_implementation = "eager"
    head = "MTModel" if family == "marian" else "ForConditionalGeneration"
    model = getattr(transformers, CLASSES[family] + head)(config).eval()
    if o["head"]:  # a T5 with a head of its own: the library ties it in any case until it sees a file that differs
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    random_weights(model, torch.Generator().manual_seed(seed))
    loss = train(model, o, random.Random(seed))
    model = model.to(o["dtype"])
    model.generation_config = GenerationConfig(
        num_beams=4, max_length=18, eos_token_id=o["eos"], pad_token_id=o["pad"], decoder_start_token_id=o["begin"],
        forced_bos_token_id=o["first"], forced_eos_token_id=o["forced_eos"], bad_words_ids=[[o["pad"]]])
    model.save_pretrained(folder)
    model = model.double()  # the values that a file of that type holds
    if family == "m2m_100":
        exact_sinusoids(model.model.encoder.embed_positions)
        exact_sinusoids(model.model.decoder.embed_positions)
    if family == "marian":
        exact_marian_sinusoids(model.model.encoder.embed_positions)
        exact_marian_sinusoids(model.model.decoder.embed_positions)
        for embedding in (m for m in model.modules() if isinstance(m, torch.nn.Embedding)):
            embedding.padding_idx = None

    r = random.Random(seed + 100)
    draw = lambda: [r.randrange(4, o["vocabulary"] - 2) for _ in range(r.randint(2, 7))]
    sources = [draw() + [o["eos"]] for _ in range(5)] + [[r.randrange(4, 12), o["eos"]]]
    answers = [([o["first"]] if o["first"] is not None else []) + draw()[: len(s)] + [o["eos"]] for s in sources[:3]]
    tensors, metadata = {}, {"model_type": family}
    tensors["source"], tensors["source_lengths"] = flat(sources)
    tensors["target"], tensors["target_lengths"] = flat([[o["begin"]] + a[:-1] for a in answers])
    tensors["labels"], _ = flat(answers)
    logits = torch.cat([model(input_ids=torch.tensor([s]), decoder_input_ids=torch.tensor([[o["begin"]] + a[:-1]])).logits[0]
                        for s, a in zip(sources, answers)])
    loss_there = torch.nn.functional.cross_entropy(logits, tensors["labels"])
    model.zero_grad()
    loss_there.backward()
    tensors["logits"], tensors["loss"] = logits.detach(), loss_there.detach().reshape(1)
    names, sums = [], []
    for parameter, p in model.named_parameters():
        if p.grad is None:  # an embedding that nothing looks at
            continue
        weights = torch.cos(torch.arange(1, p.numel() + 1, dtype=torch.float64))
        names.append(parameter)
        sums.append(torch.stack([(p.grad.flatten() * weights).sum(), p.grad.square().sum().sqrt()]))
    tensors["gradients"], metadata["parameters"] = torch.stack(sums), json.dumps(names)

    longest = max(map(len, sources))
    batch = {"input_ids": torch.tensor([s + [o["pad"]] * (longest - len(s)) for s in sources]),
             "attention_mask": torch.tensor([[1] * len(s) + [0] * (longest - len(s)) for s in sources])}
    distinct = set()
    for i, search in enumerate(searches(o)):
        chosen = GenerationConfig(**{**model.generation_config.to_dict(), **search})
        kept, model.generation_config = model.generation_config, chosen
        with torch.no_grad():
            # Release 5.24 makes caches of T5 with as many layers as the encoder has.
            result = model.generate(**batch, return_dict_in_generate=True, output_scores=True, use_cache=not t5)
        model.generation_config = kept
        rows = unpadded(result.sequences, o["pad"], o["eos"])
        distinct.update(map(tuple, rows))
        tensors[f"search.{i}.tokens"], tensors[f"search.{i}.lengths"] = flat(rows)
        if chosen.num_beams > 1:
            tensors[f"search.{i}.scores"] = result.sequences_scores.clone()
        chosen.save_pretrained(folder, "search.json")
        with open(os.path.join(folder, "search.json")) as f:
            metadata[f"search.{i}"] = json.dumps(json.load(f))
        os.remove(os.path.join(folder, "search.json"))
    save_file({k: v.contiguous() for k, v in tensors.items()}, os.path.join(folder, "expected.safetensors"), metadata)
    print(f"{name}: loss {loss:.2f}, {len(distinct)} different outputs, lengths {tensors['search.0.lengths'].tolist()}", flush=True)


def bart_sizes(r=None):
    if r is None:
        return dict(d_model=8, encoder_layers=1, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=4,
                    encoder_ffn_dim=10, decoder_ffn_dim=6, max_position_embeddings=20)
    heads = [1, 2, 4]
    return dict(d_model=r.choice([8, 12, 16]), encoder_layers=r.randint(1, 3), decoder_layers=r.randint(1, 3),
                encoder_attention_heads=r.choice(heads), decoder_attention_heads=r.choice(heads),
                encoder_ffn_dim=r.randint(5, 20), decoder_ffn_dim=r.randint(5, 20), max_position_embeddings=r.randint(20, 30))


def t5_sizes(r=None):
    if r is None:
        return dict(d_model=8, d_kv=3, d_ff=10, num_layers=1, num_decoder_layers=2, num_heads=2,
                    relative_attention_num_buckets=8, relative_attention_max_distance=12)
    return dict(d_model=r.choice([7, 8, 12, 16]), d_kv=r.randint(2, 6), d_ff=r.randint(5, 20), num_layers=r.randint(1, 3),
                num_decoder_layers=r.randint(1, 3), num_heads=r.randint(1, 4), relative_attention_num_buckets=r.choice([4, 6, 8, 32]),
                relative_attention_max_distance=r.choice([17, 20, 128]), layer_norm_epsilon=r.choice([1e-6, 1e-5, 1e-2]))


def committed(out):
    even = {**bart_sizes(), "decoder_layers": 1}
    code = 19
    make_model(out, "bart_gelu", "bart", 1, {"first": 0, "forced_eos": 2}, **bart_sizes())
    make_model(out, "bart_untied", "bart", 2, {"dtype": torch.float32}, **even, activation_function="relu", scale_embedding=True,
               tie_word_embeddings=False)
    make_model(out, "mbart_relu", "mbart", 3, {"first": code, "forced_eos": 2}, **bart_sizes(), activation_function="relu",
               scale_embedding=True)
    make_model(out, "mbart_untied", "mbart", 4, {"begin": code, "forced_eos": 2}, **even, activation_function="silu",
               tie_word_embeddings=False)
    make_model(out, "m2m_relu", "m2m_100", 5, {"first": code}, **bart_sizes())
    make_model(out, "m2m_untied", "m2m_100", 6, {"pad": 3}, **even, activation_function="gelu", scale_embedding=False,
               tie_word_embeddings=False)
    make_model(out, "t5_relu", "t5", 7, {}, **t5_sizes(), feed_forward_proj="relu")
    make_model(out, "t5_gated", "t5", 8, {"head": True, "dtype": torch.float32}, **t5_sizes(), feed_forward_proj="gated-gelu",
               tie_word_embeddings=False)
    make_model(out, "mt5_gated", "mt5", 9, {"head": True}, **t5_sizes(), feed_forward_proj="gated-gelu")
    make_model(out, "mt5_tied", "mt5", 10, {"first": code}, **t5_sizes(), feed_forward_proj="gelu")
    make_model(out, "umt5_gated", "umt5", 11, {"head": True}, **t5_sizes(), feed_forward_proj="gated-gelu", tie_word_embeddings=False)
    make_model(out, "umt5_tied", "umt5", 12, {}, **{**t5_sizes(), "num_layers": 2, "num_decoder_layers": 1},
               feed_forward_proj="gated-silu")


def drawn(out, count, families):
    for family in families or CLASSES:
        for i in range(count):
            seed = 1000 * list(CLASSES).index(family) + i
            r = random.Random(seed)
            o = {"vocabulary": r.randint(16, 40), "steps": r.choice([40, 120]), "dtype": r.choice([torch.float16, torch.float32, torch.bfloat16])}
            o["first"] = r.choice([None, o["vocabulary"] - 1])
            if family.endswith("t5"):
                options = dict(**t5_sizes(r), feed_forward_proj=r.choice(["", "gated-"]) + r.choice(ACTIVATIONS[:6]),
                               tie_word_embeddings=r.choice([True, False]))
                o["head"] = r.choice([True, False])
            elif family == "marian":  # whose marks are the first and the last of the vocabulary
                tied = r.choice([True, False])
                options = dict(**bart_sizes(r), activation_function=r.choice(ACTIVATIONS), scale_embedding=r.choice([True, False]),
                               tie_word_embeddings=tied, share_encoder_decoder_embeddings=tied and r.choice([True, False]))
                o["eos"], o["pad"] = 0, o["vocabulary"] - 1
                o["begin"] = o["pad"]
                o["first"] = r.choice([None, o["vocabulary"] - 2])
                o["forced_eos"] = r.choice([None, 0])
            else:
                options = dict(**bart_sizes(r), activation_function=r.choice(ACTIVATIONS), scale_embedding=r.choice([True, False]),
                               tie_word_embeddings=r.choice([True, False]))
                o["forced_eos"] = r.choice([None, 2])
                o["pad"] = r.choice([1, 3])
                o["begin"] = r.choice([2, o["vocabulary"] - 2])
            make_model(out, f"{family}_{i}", family, seed, o, **options)


if __name__ == "__main__":
    if len(sys.argv) < 2 or not set(sys.argv[3:]) <= CLASSES.keys():
        sys.exit(__doc__)
    os.makedirs(sys.argv[1], exist_ok=True)
    if len(sys.argv) == 2:
        committed(sys.argv[1])
    else:
        drawn(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
