#!/usr/bin/env python3
"""Holds what `save_marian` writes to the programs that are to open it.

Exports a model, translates sentences here, in transformers (MarianMTModel, MarianTokenizer) and in CTranslate2 (converted by its
TransformersConverter), greedily and with a beam in two ways, and counts the lines that differ. Ends with 1 if transformers gives a line
other than this library.

usage: check_export.py PROGRAM [--model FOLDER] [--source FILE] [--lines N] [--beam N] [--show N]
  PROGRAM   the built export_marian
  --model   a model folder of this library or of Marian's (default: the small model in data/swish)
  --source  sentences, one a line (default: those of make_marian.py)
"""
import argparse
import os
import subprocess
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import ctranslate2
import torch
import transformers

sys.dont_write_bytecode = True
from make_marian import sentences

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(1)


def export(program, model, source, folder, beam, stop):
    here, again = folder + ".here", folder + ".again"
    subprocess.run([program, model, folder, source, here, again, str(beam), stop], check=True)
    return [open(path, encoding="utf-8").read().split("\n")[:-1] for path in (here, again)]


def by_transformers(folder, lines):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    assert type(model).__name__ == "MarianMTModel" and type(tokenizer).__name__ == "MarianTokenizer"
    out = []
    with torch.no_grad():
        for first in range(0, len(lines), 16):
            batch = tokenizer(lines[first:first + 16], return_tensors="pt", padding=True)
            out += tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True)
    return out


def by_ctranslate2(folder, lines):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    config = transformers.GenerationConfig.from_pretrained(folder)
    ctranslate2.converters.TransformersConverter(folder).convert(folder + ".ct2")
    translator = ctranslate2.Translator(folder + ".ct2", device="cpu", intra_threads=1, compute_type="float32")
    pad = tokenizer.pad_token  # not in CTranslate2's vocabulary
    never = [t for t in (tokenizer.convert_ids_to_tokens(s) for s in config.bad_words_ids or []) if pad not in t]
    tokens = [tokenizer.convert_ids_to_tokens(tokenizer(line).input_ids) for line in lines]
    results = translator.translate_batch(
        tokens, beam_size=config.num_beams, length_penalty=config.length_penalty, suppress_sequences=never or None,
        max_decoding_length=config.max_length - 2, min_decoding_length=0, max_batch_size=16)
    return [tokenizer.decode(tokenizer.convert_tokens_to_ids(r.hypotheses[0]), skip_special_tokens=True) for r in results]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--model", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "swish"))
    parser.add_argument("--source")
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--show", type=int, default=3)
    options = parser.parse_args()
    lines = open(options.source, encoding="utf-8").read().split("\n")[:-1] if options.source else list(sentences(99, options.lines))
    lines = lines[:options.lines]
    print(f"transformers {transformers.__version__}, CTranslate2 {ctranslate2.__version__}, {len(lines)} sentences")
    failed = False
    with tempfile.TemporaryDirectory() as scratch:
        source = os.path.join(scratch, "source")
        with open(source, "w", encoding="utf-8") as f:
            f.write("".join(line + "\n" for line in lines))
        # CTranslate2 stops as soon as `beam` hypotheses have ended, which `first` (early_stopping) does too.
        for beam, stop in ((1, "first"), (options.beam, "first"), (options.beam, "present_length")):
            folder = os.path.join(scratch, f"{stop}{beam}")
            here, again = export(options.program, options.model, source, folder, beam, stop)
            for name, there in (("the exported folder, here", again), ("transformers", by_transformers(folder, lines)),
                                ("CTranslate2", by_ctranslate2(folder, lines))):
                differing = [i for i in range(len(lines)) if here[i] != there[i]]
                print(f"beam {beam}, stop {stop}: {len(differing)} of {len(lines)} lines differ: {name}")
                for i in differing[:options.show]:
                    print(f"  {i + 1}: here  {here[i]}\n  {' ' * len(str(i + 1))}  there {there[i]}")
                failed = failed or (differing and name != "CTranslate2")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
