"""A model that attend has saved, as Marian takes it.

As a program, `python3 -m comparison.marian_model MODEL` makes the begin token's embedding zero in a model folder, and says the
base that the sinusoids of a model have to have.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

Tensors = dict[str, np.ndarray]
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "swish"}  # attend's names, and Marian's
PAD, BEGIN, END, UNKNOWN = 0, 1, 2, 3  # in attend's vocabularies
OF_MARIAN = {"</s>": END, "<unk>": UNKNOWN}  # what a vocabulary of Marian begins with
NEVER = -1e9  # a logit that no search chooses


def position_base(width: int) -> float:
    """The base of attend's sinusoids that are Marian's: Marian's slowest is 10,000 times as slow as its fastest, and attend's by one
    step of its base less."""
    return 10000.0 ** (width / (width - 2))


def obstacles(model: Path) -> list[str]:
    """What of the model folder `model` Marian has no place for."""
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    found = [] if config["version"] == 1 else ["options that came with later versions of config.json"]
    encoder, decoder = config["encoder"], config["decoder"]
    if any(encoder[key] != decoder[key] for key in ("vocabulary", "d_model", "d_ff", "heads", "norm_order", "activation")):
        found.append("an encoder and a decoder of different shapes")
    for o in (encoder, decoder):
        width, base = o["d_model"], position_base(o["d_model"])
        if o["positions"] != "sinusoidal" or abs(o["position_base"] / base - 1) > 1e-6:
            found.append(f"positions other than sinusoids of base {base!r}")
        if any(o[key] not in (0, width // o["heads"]) for key in ("d_k", "d_v")):
            found.append("heads of a width of their own")
        if o["norm_order"] != "post" or o["final_norm"]:  # Marian's norms before a sublayer are of the queries alone
            found.append("norms before the sublayers")
        if o["norm"]["sample_deviation"] or o["norm"]["scalar_affine"]:
            found.append("its kind of norm")
        if o["activation"] not in ACTIVATIONS or not o["scale_embedding"] or not o["attention_bias"]:
            found.append("its activation, embeddings that are not scaled, or attention without biases")
    if config["share_embeddings"] and not config["tie_head"]:
        found.append("shared embeddings beside a head of its own")
    targets = [x for name, x in load_file(model / "model.safetensors").items() if name in embeddings(config, "decoder")]
    if targets and targets[0][BEGIN].any():
        found.append("an embedding of the begin token that is not zero")
    return list(dict.fromkeys(found))


def embeddings(config: Mapping[str, Any], stack: str) -> list[str]:
    """The names in a file that the embeddings of an encoder or a decoder may have. What is shared stands there once."""
    shared = config["share_embeddings"]
    names = [f"{name}.embed_tokens.weight" for name in ("encoder", "decoder") if shared or name == stack]
    return names + (["lm_head.weight"] if config["tie_head"] and (shared or stack == "decoder") else [])


def begin_with_nothing(model: Path) -> None:
    """Makes the begin token's embedding zero in a model folder: a decoder of Marian begins with nothing."""
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    tensors = load_file(model / "model.safetensors")
    for name in embeddings(config, "decoder"):
        if name in tensors:
            tensors[name][BEGIN] = 0
    save_file(tensors, model / "model.safetensors")


def architecture(encoder: Mapping[str, Any], decoder_layers: int, tied: str = "") -> dict[str, Any]:
    """Marian's options for a network of these sizes. `tied`: "all", "head" or nothing."""
    return {
        "type": "transformer",
        "enc-depth": encoder["layers"],
        "dec-depth": decoder_layers,
        "dim-emb": encoder["d_model"],
        "transformer-heads": encoder["heads"],
        "transformer-dim-ffn": encoder["d_ff"],
        "transformer-ffn-activation": ACTIVATIONS[encoder["activation"]],
        "transformer-preprocess": "",
        "transformer-postprocess": "dan",
        "transformer-postprocess-top": "",
        "tied-embeddings-all": tied == "all",
        "tied-embeddings": tied == "head",
    }


def program() -> Path:
    """Marian's, which comes with the Python package."""
    return Path(sys.executable).with_name("pymarian")


def order(count: int) -> list[int]:
    """The numbers of a vocabulary of attend in the order that Marian wants."""
    first = list(OF_MARIAN.values())
    return first + [i for i in range(count) if i not in first]


def write_vocabulary(pieces: Sequence[str], file: Path) -> None:
    """Marian reads YAML, of which JSON is a part."""
    names = [*OF_MARIAN, *(pieces[i] for i in order(len(pieces))[len(OF_MARIAN) :])]
    file.write_text(json.dumps({name: i for i, name in enumerate(names)}, ensure_ascii=False, indent=0), encoding="utf-8")


def convert(model: Path, pieces: Sequence[str], out: Path) -> None:
    """Writes the model folder `model` of attend as model.npz and vocabulary.yml into `out`. Throws ValueError for a model that Marian
    has no place for."""
    if obstacle := obstacles(model):
        raise ValueError(f"Marian has no place for {'; '.join(obstacle)}")
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    tensors = load_file(model / "model.safetensors")
    encoder, decoder = config["encoder"], config["decoder"]
    width = encoder["d_model"]
    # The sinusoids' channels: attend has a sine and its cosine side by side, Marian all sines first.
    channels = np.concatenate((np.arange(0, width, 2), np.arange(1, width, 2)))
    pieces = [*pieces, *(f"<unused{i}>" for i in range(len(pieces), encoder["vocabulary"]))]
    rows = order(len(pieces))
    found: Tensors = {}

    def matrix(name: str, tensor: str, reads: bool, writes: bool) -> None:
        """Of a linear layer and its bias. What reads or writes the network's channels is permuted with them."""
        weight, bias = tensors[f"{tensor}.weight"], tensors.get(f"{tensor}.bias")
        bias = np.zeros(len(weight), np.float32) if bias is None else bias
        weight = weight[:, channels] if reads else weight
        kind, number = name.rsplit("_", 1)
        found[f"{kind}_W{number}"] = (weight[channels] if writes else weight).T
        found[f"{kind}_b{number}"] = (bias[channels] if writes else bias)[None]

    def norm(name: str, tensor: str) -> None:
        for theirs, ours in (("scale", "weight"), ("bias", "bias")):
            found[f"{name}_ln_{theirs}"] = tensors[f"{tensor}.{ours}"][channels][None]

    def attention(name: str, tensor: str) -> None:
        for letter in "qkv":
            matrix(f"{name}_{letter}", f"{tensor}.{letter}_proj", reads=True, writes=False)
        matrix(f"{name}_o", f"{tensor}.out_proj", reads=False, writes=True)
        norm(f"{name}_Wo", f"{tensor}_layer_norm")

    for stack, options in (("encoder", encoder), ("decoder", decoder)):
        for i in range(options["layers"]):
            ours, theirs = f"{stack}.layers.{i}", f"{stack}_l{i + 1}"
            attention(f"{theirs}_self", f"{ours}.self_attn")
            if stack == "decoder":
                attention(f"{theirs}_context", f"{ours}.encoder_attn")
            matrix(f"{theirs}_ffn_1", f"{ours}.fc1", reads=True, writes=False)
            matrix(f"{theirs}_ffn_2", f"{ours}.fc2", reads=False, writes=True)
            norm(f"{theirs}_ffn_ffn", f"{ours}.final_layer_norm")

    def embedding(stack: str) -> np.ndarray:
        return next(tensors[name] for name in embeddings(config, stack) if name in tensors)[rows][:, channels]

    if config["share_embeddings"]:
        found["Wemb"] = embedding("decoder")
    else:
        found["encoder_Wemb"], found["decoder_Wemb"] = embedding("encoder"), embedding("decoder")
    if not config["tie_head"]:
        # Marian's own name and layout is _Wt; packed for intgemm8 its program then fails, while it takes the older one as well.
        found["decoder_ff_logit_out_W"] = tensors["lm_head.weight"][rows][:, channels].T
    bias = tensors["lm_head.bias"].copy() if config["head_bias"] else np.zeros(len(rows), np.float32)
    bias[[PAD, BEGIN, UNKNOWN]] = NEVER
    found["decoder_ff_logit_out_b"] = bias[rows][None]

    tied = "all" if config["share_embeddings"] else "head" if config["tie_head"] else ""
    described = architecture(encoder, decoder["layers"], tied) | {
        "version": "v1.12.0",
        "dim-vocabs": [len(rows), len(rows)],
        "max-length": encoder["max_length"],
        "skip": False,
        "layer-normalization": False,
        "transformer-postprocess-emb": "d",
        "transformer-decoder-autoreg": "self-attention",
        "transformer-ffn-depth": 2,
        "transformer-no-projection": False,
        "transformer-train-position-embeddings": False,
        "input-types": [],
        "ulr": False,
    }
    text = json.dumps(described).encode() + b"\0"
    out.mkdir(parents=True, exist_ok=True)
    arrays = {name: np.ascontiguousarray(value, np.float32) for name, value in found.items()}
    np.savez(out / "model.npz", **arrays, **{"special:model.yml": np.frombuffer(text, np.int8)})
    write_vocabulary(pieces, out / "vocabulary.yml")


def pack(folder: Path, gemm_type: str, file: Path) -> None:
    """Writes the folder's model.npz with the weights that products of this type want."""
    command = [program(), "convert", "--from", folder / "model.npz", "--to", file, "--gemm-type", gemm_type]
    subprocess.run([str(word) for word in command], check=True, capture_output=True)


def main() -> None:
    model = Path(sys.argv[1])
    begin_with_nothing(model)
    width = json.loads((model / "config.json").read_text(encoding="utf-8"))["encoder"]["d_model"]
    print(f"The begin token's embedding is zero. Base of Marian's sinusoids at this width: {position_base(width)!r}")
    for obstacle in obstacles(model):
        print(f"Marian has no place for {obstacle}")


if __name__ == "__main__":
    main()
