#!/usr/bin/env python3
"""Folders of the shapes of published models, with random weights, and how the library and CTranslate2 run them.

    python3 benchmarks/shapes.py make nllb-600m FOLDER --text english.txt [--dtype bf16]
    python3 benchmarks/shapes.py memory FOLDER --translate build/bin/translate --pairs pairs.tsv
    python3 benchmarks/shapes.py speed FOLDER --translate build/bin/translate --text english.txt

No checkpoint is needed: sizes are those of the published configurations, weights are drawn, and a small SentencePiece or byte-level
model is filled up to the published number of pieces. What such a model says means nothing, but costs what the true one's would: as
its end token hardly ever comes, every translation is as long as it may be.

`make` needs torch, transformers, sentencepiece and protobuf; `speed`, which is for models with SentencePiece's pieces, ctranslate2
besides.
`memory` prints seconds and peak resident memory of `translate run` and of a step of `translate train`; `speed` target tokens per second
of both, run in turn, CTranslate2 in the best of its ways to use the threads.
"""

import argparse
import itertools
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

SHAPES = {  # published configurations, from the models' pages: facebook/nllb-200-distilled-600M, google-t5/t5-base, ...
    "nllb-600m": ("M2M100", dict(vocab_size=256206, d_model=1024, encoder_layers=12, decoder_layers=12, encoder_attention_heads=16,
                                 decoder_attention_heads=16, encoder_ffn_dim=4096, decoder_ffn_dim=4096, encoder_layerdrop=0,
                                 decoder_layerdrop=0, max_position_embeddings=1024, scale_embedding=True)),
    "bart-base": ("Bart", dict(vocab_size=50265, d_model=768, encoder_layers=6, decoder_layers=6, encoder_attention_heads=12,
                               decoder_attention_heads=12, encoder_ffn_dim=3072, decoder_ffn_dim=3072)),
    "t5-base": ("T5", dict(vocab_size=32128, d_model=768, d_kv=64, d_ff=3072, num_layers=12, num_decoder_layers=12, num_heads=12)),
    "madlad-3b": ("T5", dict(vocab_size=256000, d_model=1024, d_kv=128, d_ff=8192, num_layers=32, num_decoder_layers=32, num_heads=16,
                             feed_forward_proj="gated-gelu", tie_word_embeddings=False)),
}  # fmt: skip


def sentencepiece_model(text, kind, size, first=()):
    """A model trained on `text`, with pieces that never come up to `size`. `first`: marks at the beginning, such as `<pad>`."""
    import io

    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    model = io.BytesIO()
    marks = {f"{mark}_id": i for i, mark in enumerate(first)} | ({"bos_id": -1} if first else {})
    sentencepiece.SentencePieceTrainer.train(input=str(text), model_writer=model, model_type=kind, vocab_size=min(size, 16000),
                                             hard_vocab_limit=False, minloglevel=2, **marks)
    proto = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    least = min(p.score for p in proto.pieces) - 1
    for i in range(len(proto.pieces), size):
        proto.pieces.add(piece=f"▁~{i}~", score=least - i)
    proto.trainer_spec.vocab_size = size
    return proto.SerializeToString()


def write_tokenizer(name, folder, text):
    if name == "nllb-600m":
        import transformers

        (folder / "sentencepiece.bpe.model").write_bytes(sentencepiece_model(text, "bpe", 256000))
        codes = transformers.models.nllb.tokenization_nllb.FAIRSEQ_LANGUAGE_CODES
        config = {"tokenizer_class": "NllbTokenizer", "src_lang": "eng_Latn", "tgt_lang": "fra_Latn", "additional_special_tokens": codes}
    elif name == "bart-base":
        import tokenizers

        pieces = tokenizers.ByteLevelBPETokenizer()
        marks = ["<s>", "<pad>", "</s>", "<unk>"]
        pieces.train([str(text)], vocab_size=16000, special_tokens=marks, show_progress=False)
        pieces.save_model(str(folder))
        vocabulary = json.loads((folder / "vocab.json").read_text())
        size = SHAPES[name][1]["vocab_size"]
        vocabulary |= {f"~{i}~": i for i in range(len(vocabulary), size - 1)} | {"<mask>": size - 1}
        (folder / "vocab.json").write_text(json.dumps(vocabulary))
        config = {"tokenizer_class": "BartTokenizer"}
    else:
        size, extra = (256000, 0) if name == "madlad-3b" else (32000, 100)
        (folder / "spiece.model").write_bytes(sentencepiece_model(text, "unigram", size, ("pad", "eos", "unk")))
        config = {"tokenizer_class": "T5Tokenizer", "extra_ids": extra}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def make(flags):
    """Writes config.json, the weights and a tokenizer. Weights go out one by one: no more than one of them is in memory."""
    import torch
    import transformers

    family, sizes = SHAPES[flags.shape]
    folder = pathlib.Path(flags.folder)
    folder.mkdir(parents=True, exist_ok=True)
    config = getattr(transformers, f"{family}Config")(**sizes, architectures=[f"{family}ForConditionalGeneration"])
    dtype = {"float32": torch.float32, "bf16": torch.bfloat16}[flags.dtype]
    config.dtype = dtype
    config.save_pretrained(folder)
    with torch.device("meta"):
        model = getattr(transformers, f"{family}ForConditionalGeneration")(config)
    kept = {}
    for name, parameter in model.state_dict(keep_vars=True).items():
        if all(parameter is not other for other in kept.values()):
            kept[name] = parameter
    if not sizes.get("tie_word_embeddings", True):  # which transformers 5 tells by the file
        kept["lm_head.weight"] = torch.empty(sizes["vocab_size"], sizes["d_model"], device="meta")
    kept = dict(sorted(kept.items()))  # the order of such files
    begin, header = 0, {"__metadata__": {"format": "pt"}}
    for name, parameter in kept.items():
        end = begin + parameter.numel() * dtype.itemsize
        header[name] = {"dtype": {4: "F32", 2: "BF16"}[dtype.itemsize], "shape": list(parameter.shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    generator = torch.Generator().manual_seed(1)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, parameter in kept.items():
            if "norm" in name and name.endswith("weight"):
                values = torch.ones(parameter.shape)
            elif name.endswith("bias") or name == "final_logits_bias":
                values = torch.zeros(parameter.shape)
            else:
                values = torch.empty(parameter.shape).normal_(0, parameter.shape[-1] ** -0.5, generator=generator)
            file.write(values.to(dtype).view(torch.uint8 if values.dim() else dtype).numpy().tobytes())
    write_tokenizer(flags.shape, folder, flags.text)
    print(f"{folder}: {sum(p.numel() for p in kept.values()) / 1e6:.0f} million parameters, {begin / 2**20:.0f} MiB")


def run(command):
    """Seconds and the peak of the resident memory in MiB."""
    with tempfile.TemporaryFile("w+") as output:
        begin = time.monotonic()
        process = subprocess.Popen([str(word) for word in command], stdout=output, stderr=output)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            output.seek(0)
            sys.exit(f"shapes: ended with {process.returncode}: {' '.join(map(str, command))}\n{output.read()}")
    return time.monotonic() - begin, usage.ru_maxrss / 1024


def languages(folder):
    """The flags that choose them, of a model that needs them."""
    config = json.loads((pathlib.Path(folder) / "tokenizer_config.json").read_text())
    return ["--from", "eng_Latn", "--to", "fra_Latn"] if config["tokenizer_class"] == "NllbTokenizer" else []


def memory(flags):
    """`translate run` in each precision, then a step of training, whole and of adapters alone, beside what the file has and in bfloat16."""
    size = sum(file.stat().st_size for file in pathlib.Path(flags.folder).glob("*.safetensors")) / 2**20
    print(f"{flags.folder}, {size:.0f} MiB of weights\n\n| | seconds | MiB at most | over the weights |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=flags.scratch) as scratch:
        lines, out = pathlib.Path(scratch) / "lines.txt", pathlib.Path(scratch) / "out"
        lines.write_text("Where is the library?\n")
        tasks = {f"translate a sentence, {p}": ["run", "--model", flags.folder, "--in", lines, "--precision", p, "--max-tokens", 20]
                 for p in flags.precisions}  # fmt: skip
        step = ["train", "--init", flags.folder, "--pairs", flags.pairs, "--max-steps", 1, "--tokens-per-batch", 512, "--out", out]
        adapters = ["--adapter-rank", 8]
        for name, more in {"whole": [], "adapters": adapters, "adapters-bf16": [*adapters, "--precision", "bf16"]}.items():
            if name in flags.train:
                tasks[f"a step of training, {name}"] = [*step, *more]
        for name, words in tasks.items():
            seconds, peak = run([flags.translate, *words, *languages(flags.folder), "--threads", flags.threads])
            print(f"| {name} | {seconds:.1f} | {peak:.0f} | {peak / size:.2f} |", flush=True)
            shutil.rmtree(out, ignore_errors=True)


class Program:
    """`translate run`, which gets lines and gives translations for as long as it is wanted."""

    def __init__(self, flags, precision, beam):
        words = ["run", "--format", "json", "--model", flags.folder, "--precision", precision, "--beam", beam, "--max-tokens", flags.length, "--threads", flags.threads]
        self.process = subprocess.Popen([flags.translate, *map(str, words), *languages(flags.folder)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)  # fmt: skip

    def translate(self, lines):
        self.process.stdin.write("\n".join(lines) + "\n")
        self.process.stdin.flush()
        return [json.loads(self.process.stdout.readline()) for _ in lines]

    def end(self):
        self.process.communicate()


def speed(flags):
    """Target tokens per second of translations that are all `--length` long; reading the model is not in it."""
    import ctranslate2

    with open(flags.text) as file:
        lines = [line.strip() for line in itertools.islice(file, flags.lines)]
    with tempfile.TemporaryDirectory(dir=flags.scratch) as scratch:
        converted = pathlib.Path(scratch) / "ct2"
        ctranslate2.converters.TransformersConverter(flags.folder).convert(str(converted))
        marks = ctranslate2_marks(flags.folder, lines)

        print("| precision, beam | this library | CTranslate2, of its ways | the ratio |\n|---|---|---|---|")
        for precision, beam in itertools.product(flags.precisions, flags.beams):
            workers = {1, flags.threads}
            # Where CTranslate2 has no bfloat16, it has float32 against ours.
            kind = precision.replace("bf16", "bfloat16" if "bfloat16" in ctranslate2.get_supported_compute_types("cpu") else "float32")
            others = {n: ctranslate2.Translator(str(converted), compute_type=kind, inter_threads=n, intra_threads=flags.threads // n)
                      for n in workers}
            def theirs(n, batch):
                begin = time.monotonic()
                results = others[n].translate_batch(**marks, beam_size=beam, max_batch_size=batch, max_decoding_length=flags.length)
                return time.monotonic() - begin, sum(len(result.hypotheses[0]) for result in results)

            program = Program(flags, precision, beam)
            own_tokens = sum(len(line["translations"][0]["tokens"]) for line in program.translate(lines))  # packs the weights
            for other in others.values():
                other.translate_batch(**marks, beam_size=1, max_decoding_length=2)
            way = min(itertools.product(workers, [16, 32]), key=lambda way: theirs(*way)[0])
            own, best = [], []
            for _ in range(flags.rounds):
                begin = time.monotonic()
                program.translate(lines)
                own.append(time.monotonic() - begin)
                seconds, tokens = theirs(*way)
                best.append(seconds)
            program.end()
            ratio = statistics.median(b / tokens / (a / own_tokens) for a, b in zip(own, best))
            print(f"| {precision}, {beam} | {own_tokens / statistics.median(own):.0f} | {tokens / statistics.median(best):.0f} "
                  f"({kind}, {way[0]} workers, batches of {way[1]}) | {ratio:.2f} |", flush=True)  # fmt: skip


def ctranslate2_marks(folder, lines):
    """What CTranslate2 translates, as pieces, and the language that it begins with."""
    import sentencepiece

    file = next(pathlib.Path(folder).glob("*.model"), None)
    if file is None:
        sys.exit(f"shapes: {folder} has no pieces of SentencePiece's, which CTranslate2 is to be given here")
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(file)).encode(lines, out_type=str)
    if languages(folder):
        return {"source": [["eng_Latn", *p, "</s>"] for p in pieces], "target_prefix": [["fra_Latn"] for _ in pieces]}
    return {"source": [[*p, "</s>"] for p in pieces]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("make")
    command.add_argument("shape", choices=SHAPES)
    command.add_argument("folder")
    command.add_argument("--text", required=True, help="lines to train the small tokenizer on")
    command.add_argument("--dtype", choices=["float32", "bf16"], default="float32")
    command.set_defaults(go=make)
    for name, go in {"memory": memory, "speed": speed}.items():
        command = commands.add_parser(name)
        command.add_argument("folder")
        command.add_argument("--translate", default="build/bin/translate")
        command.add_argument("--threads", type=int, default=2)
        command.add_argument("--scratch", help="folder for what is written meanwhile")
        command.set_defaults(go=go)
        if name == "memory":
            command.add_argument("--precisions", nargs="*", default=["float32", "int8", "bf16"],
                                 help="of a folder in 8-bit integers int8 alone")
            command.add_argument("--pairs", required=True, help="for the step of training")
            command.add_argument("--train", nargs="*", default=["whole", "adapters", "adapters-bf16"],
                                 help="of a folder in 8-bit integers adapters alone")
        else:
            command.add_argument("--precisions", nargs="*", default=["float32", "int8"])
            command.add_argument("--text", required=True, help="lines to translate")
            command.add_argument("--lines", type=int, default=64)
            command.add_argument("--length", type=int, default=32, help="tokens of every translation")
            command.add_argument("--beams", nargs="*", type=int, default=[1, 4])
            command.add_argument("--rounds", type=int, default=3)
    flags = parser.parse_args()
    flags.go(flags)


if __name__ == "__main__":
    main()
