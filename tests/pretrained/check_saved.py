#!/usr/bin/env python3
"""Opens folders that `transformers` saved and what this library read from them and saved again, by `transformers`, and compares all
tensors and all that the configurations say.

usage: check_saved.py FOLDERS SAVED_FOLDERS      (README.md says how the second come about)
"""
import json
import os
import sys

import torch
import transformers
from transformers import AutoConfig, AutoModelForSeq2SeqLM, GenerationConfig

transformers.logging.set_verbosity_error()
ALIKE = {"silu": "swish", "gated-silu": "gated-swish", "gated-gelu_new": "gated-gelu", "gated-gelu_pytorch_tanh": "gated-gelu",
         "gelu_pytorch_tanh": "gelu_new", "gelu_fast": "gelu_new"}  # functions that have several names
# LayerDrop this library does not have; the last four are keys of earlier releases, which CTranslate2 asks for.
FREE = {"_name_or_path", "transformers_version", "dtype", "torch_dtype", "encoder_layerdrop", "decoder_layerdrop",
        "normalize_before", "add_final_layer_norm", "normalize_embedding", "static_position_embeddings"}
USUAL = {"early_stopping": False, "length_penalty": 1.0}  # what these mean where nothing is said


def said(config):
    values = {k: ALIKE.get(v, v) if isinstance(v, str) else v for k, v in config.to_dict().items() if k not in FREE}
    return {k: USUAL.get(k) if v is None else v for k, v in values.items()}


def differences(one, other):
    return [f"{k}: {one.get(k)} and {other.get(k)}" for k in sorted(one.keys() | other.keys()) if one.get(k) != other.get(k)]


def main(folders, saved):
    wrong = 0
    names = sorted(os.listdir(folders))
    for name in names:
        a, b = os.path.join(folders, name), os.path.join(saved, name)
        faults = differences(said(AutoConfig.from_pretrained(a)), said(AutoConfig.from_pretrained(b)))
        faults += differences(said(GenerationConfig.from_pretrained(a)), said(GenerationConfig.from_pretrained(b)))
        one = AutoModelForSeq2SeqLM.from_pretrained(a)
        other, info = AutoModelForSeq2SeqLM.from_pretrained(b, output_loading_info=True)
        faults += [f"{k}: {v}" for k, v in info.items() if v]
        tied = one.config.tie_word_embeddings
        for key, value in one.state_dict().items():
            if key == "model.shared.weight" and not tied:
                continue  # nothing reads it
            found = other.state_dict().get(key)
            if found is None or found.dtype != value.dtype or not torch.equal(found, value):
                faults.append(f"{key} differs")
        if len(one.state_dict()) != len(other.state_dict()):
            faults.append("another number of tensors")
        if faults:
            wrong += 1
            print(name, "; ".join(faults))
    print(f"{len(names)} models, {wrong} that differ")
    return wrong > 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2]))
