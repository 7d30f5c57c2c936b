#!/usr/bin/env python3
"""Low-rank adapters of the PEFT library for models of data/, and what the models then compute.

usage: make_adapters.py OUT_DIR              writes a folder for each, as PEFT saves it (adapter_config.json, adapter_model.safetensors),
                                             one as older releases do besides (adapter_model.bin), and in it
                                             `expected.safetensors`: `logits` of the targets of the model's own
                                             expected.safetensors, in float64
       make_adapters.py --check SAVED_DIR    opens folders of the same form that this library wrote by PEFT, and compares the logits

Needs what requirements.txt names.
"""
import json
import os
import shutil
import sys

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import make_pretrained  # noqa: E402  which makes T5's norms compute in float64

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
ADAPTERS = {
    "bart_gelu": {"r": 2, "lora_alpha": 6, "lora_dropout": 0.1, "target_modules": ["q_proj", "v_proj", "fc2"]},
    "m2m_relu": {"r": 3, "lora_alpha": 4, "target_modules": r"model\.decoder\..*\.(k_proj|out_proj|fc1)"},
    "t5_gated": {"r": 3, "lora_alpha": 5, "use_rslora": True, "target_modules": "all-linear"},
    "umt5_tied": {"r": 1, "lora_alpha": 2, "target_modules": ["k", "o", "wi"]},
}


def base_model(name):
    model = AutoModelForSeq2SeqLM.from_pretrained(os.path.join(DATA, name), dtype=torch.float64, attn_implementation="eager")
    for module in model.modules():
        if type(module).__name__ == "M2M100SinusoidalPositionalEmbedding":
            make_pretrained.exact_sinusoids(module)
    return model.eval()


@torch.no_grad()
def logits(model, name):
    given = load_file(os.path.join(DATA, name, "expected.safetensors"))
    targets = given["target"].split(given["target_lengths"].tolist())
    sources = given["source"].split(given["source_lengths"].tolist())
    return torch.cat([model(input_ids=s[None], decoder_input_ids=t[None]).logits[0] for s, t in zip(sources, targets)])


def make(out):
    for seed, (name, options) in enumerate(ADAPTERS.items()):
        folder = os.path.join(out, name)
        shutil.rmtree(folder, ignore_errors=True)
        torch.manual_seed(seed)
        model = get_peft_model(base_model(name), LoraConfig(task_type="SEQ_2_SEQ_LM", **options)).eval()
        for key, p in model.named_parameters():
            if "lora_" in key:  # in float32, as they usually are
                p.data = torch.randn(p.shape).mul(0.5).double()
        changed = (logits(model, name) - logits(base_model(name), name)).abs().max().item()
        model.save_pretrained(folder)
        path = os.path.join(folder, "adapter_config.json")
        config = json.load(open(path))
        config["base_model_name_or_path"] = name  # not a path of the machine where it was made
        json.dump(config, open(path, "w"), indent=1)
        os.remove(os.path.join(folder, "README.md"))
        weights = load_file(os.path.join(folder, "adapter_model.safetensors"))
        save_file({k: v.float() for k, v in weights.items()}, os.path.join(folder, "adapter_model.safetensors"), {"format": "pt"})
        if name == "umt5_tied":  # as older releases saved them
            torch.save({k: v.float() for k, v in weights.items()}, os.path.join(folder, "adapter_model.bin"))
        save_file({"logits": logits(model, name)}, os.path.join(folder, "expected.safetensors"))
        print(f"{name}: {len(weights)} tensors, which change logits by up to {changed:.2f}")


def check(saved):
    wrong = 0
    for name in sorted(os.listdir(saved)):
        folder = os.path.join(saved, name)
        base = load_file(os.path.join(DATA, name, "expected.safetensors"))["logits"]
        if (logits(base_model(name), name) - base).abs().max() > 1e-9:  # a T5's head is scaled or not, by the release
            print(f"{name}: left out, this release of transformers computes other logits without adapters too")
            continue
        model = PeftModel.from_pretrained(base_model(name), folder).eval()
        found = {k for k, v in model.named_parameters() if "lora_B" in k and v.abs().max() > 0}
        written = {k for k in load_file(os.path.join(folder, "adapter_model.safetensors")) if "lora_B" in k}
        ours = load_file(os.path.join(folder, "expected.safetensors"))["logits"]
        far = (logits(model, name).flatten() - ours).abs().max().item()
        print(f"{name}: {len(found)} adapters, logits differ by {far:.1e}")
        wrong += len(found) != len(written) or not far < 1e-9
    return wrong > 0


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--check":
        sys.exit(check(sys.argv[2]))
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    make(sys.argv[1])
