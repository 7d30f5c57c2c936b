"""A model that attend has saved, as CTranslate2 takes it."""

import json
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
from ctranslate2.specs import TransformerSpec, common_spec, transformer_spec
from safetensors.numpy import load_file

Tensors = dict[str, np.ndarray]
Activation = common_spec.Activation
ACTIVATIONS = {
    "relu": Activation.RELU,
    "gelu": Activation.GELU,
    "gelu_tanh": Activation.GELUTanh,
    "silu": Activation.SWISH,
    "tanh": Activation.Tanh,
}


def convert(model: Path, pieces: list[str], out: Path) -> None:
    """Writes the model folder `model` of attend to `out`, in float32. `pieces`: the vocabulary, which begins with padding, begin,
    end and unknown, as attend's own does. Throws ValueError for a model that CTranslate2 has no place for."""
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    tensors = load_file(model / "model.safetensors")
    encoder, decoder = config["encoder"], config["decoder"]
    check(encoder, decoder)
    pre_norm = decoder["norm_order"] == "pre"
    spec = TransformerSpec.from_config(
        (encoder["layers"], decoder["layers"]),
        decoder["heads"],
        pre_norm=pre_norm,
        activation=ACTIVATIONS[decoder["activation"]],
    )
    source = tensors["encoder.embed_tokens.weight"]
    target = source if config["share_embeddings"] else tensors["decoder.embed_tokens.weight"]
    spec.encoder.embeddings[0].weight, spec.decoder.embeddings.weight = source, target
    for stack, options, name in ((spec.encoder, encoder, "encoder"), (spec.decoder, decoder, "decoder")):
        stack.scale_embeddings = options["scale_embedding"]
        stack.position_encodings.encodings = positions(options, tensors, name)
        if pre_norm:
            norm(stack.layer_norm, tensors, f"{name}.layer_norm")
        for i, layer in enumerate(stack.layer):
            convert_layer(layer, tensors, f"{name}.layers.{i}")
    spec.decoder.projection.weight = target if config["tie_head"] else tensors["lm_head.weight"]
    if config["head_bias"]:
        spec.decoder.projection.bias = tensors["lm_head.bias"]

    spec.config.layer_norm_epsilon = decoder["norm"]["eps"]
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = pieces[3], pieces[1], pieces[2]
    spec.config.decoder_start_token = spec.config.bos_token
    for register, size in ((spec.register_source_vocabulary, len(source)), (spec.register_target_vocabulary, len(target))):
        register(pieces + [f"<unused{i}>" for i in range(len(pieces), size)])
    spec.validate()
    spec.optimize()
    out.mkdir(parents=True, exist_ok=True)
    spec.save(str(out))


def check(encoder: dict[str, Any], decoder: dict[str, Any]) -> None:
    """Throws ValueError for what CTranslate2's Transformer does not have."""
    same = ("heads", "norm_order", "norm", "activation")
    alike = all(encoder[key] == decoder[key] for key in same)
    for o in (encoder, decoder):
        final_norm = o["final_norm"] == (o["norm_order"] == "pre")
        widths = o["d_k"] in (0, o["d_model"] // o["heads"]) and o["d_v"] in (0, o["d_model"] // o["heads"])
        plain = not o["norm"]["sample_deviation"] and not o["norm"]["scalar_affine"]
        if not (alike and final_norm and widths and plain and o["activation"] in ACTIVATIONS and o["positions"] != "none"):
            raise ValueError("CTranslate2 has no place for this model's norms, widths, positions or activation")


def positions(options: dict[str, Any], tensors: Tensors, name: str) -> np.ndarray:
    """attend's own table: columns 2i and 2i + 1 are the sine and the cosine of one angle."""
    if options["positions"] == "learned":
        return tensors[f"{name}.embed_positions.weight"]
    width, column = options["d_model"], np.arange(options["d_model"])
    angle = np.arange(options["max_length"])[:, None] / options["position_base"] ** ((column - column % 2) / width)
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle)).astype(np.float32)


def convert_layer(layer: Any, tensors: Tensors, name: str) -> None:
    attention(layer.self_attention, tensors, f"{name}.self_attn", ("qkv",))
    if isinstance(layer, transformer_spec.TransformerDecoderLayerSpec):
        attention(layer.attention, tensors, f"{name}.encoder_attn", ("q", "kv"))
    linear(layer.ffn.linear_0, tensors, f"{name}.fc1")
    linear(layer.ffn.linear_1, tensors, f"{name}.fc2")
    norm(layer.ffn.layer_norm, tensors, f"{name}.final_layer_norm")


def attention(spec: Any, tensors: Tensors, name: str, packed: tuple[str, ...]) -> None:
    """`packed`: the projections that are one matrix, by their letters."""
    for part, letters in zip(spec.linear, packed):
        projections = [f"{name}.{letter}_proj" for letter in letters]
        part.weight = np.concatenate([tensors[f"{p}.weight"] for p in projections])
        if f"{projections[0]}.bias" in tensors:
            part.bias = np.concatenate([tensors[f"{p}.bias"] for p in projections])
    linear(spec.linear[-1], tensors, f"{name}.out_proj")
    norm(spec.layer_norm, tensors, f"{name}_layer_norm")


def linear(spec: common_spec.LinearSpec, tensors: Tensors, name: str) -> None:
    spec.weight = tensors[f"{name}.weight"]
    if f"{name}.bias" in tensors:
        spec.bias = tensors[f"{name}.bias"]


def norm(spec: common_spec.LayerNormSpec, tensors: Tensors, name: str) -> None:
    spec.gamma, spec.beta = tensors[f"{name}.weight"], tensors[f"{name}.bias"]


def load(folder: Path, compute_type: str, workers: int, threads: int) -> ctranslate2.Translator:
    return ctranslate2.Translator(str(folder), "cpu", compute_type=compute_type, inter_threads=workers, intra_threads=threads)
