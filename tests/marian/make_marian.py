#!/usr/bin/env python3
"""Writes small Marian models with random weights, and what the `transformers` library makes of them, for the tests beside this.

One folder a model, as `transformers` saves it (config.json, generation_config.json, model.safetensors, the tokenizer's files), and
in it `expected.safetensors`:
  source, source_lengths       token ids of some sentences, end to end, each with its end token
  target, target_lengths       decoder inputs
  logits                       [target rows, vocabulary]
  positions                    the table of positions
  search.N.tokens, .lengths    what `generate` gives with the options of the metadata's `search.N` (JSON): the sequences of all
                               sentences, best first, without begin and padding
  search.N.scores              of beam search
and `expected.json`: sentences with their token ids, and token ids with their text. Beside the folders no_begin.spm, a SentencePiece
model without a begin token.

usage: make_marian.py OUT_DIR    (needs torch, transformers, sentencepiece, safetensors: see requirements.txt)
"""
import io
import json
import os
import random
import shutil
import sys
import warnings

import sentencepiece
import torch
from safetensors.torch import save_file
from transformers import GenerationConfig, MarianConfig, MarianMTModel, MarianTokenizer

warnings.filterwarnings("ignore")
torch.set_num_threads(1)

FIRST = "the a my your this every no one".split()
SECOND = "small green old new quiet bright round heavy".split()
THIRD = "house river stone garden window letter bridge evening".split()
VERBS = "holds sees leaves finds opens keeps crosses follows".split()
OTHER = {"the": "das", "a": "ein", "my": "mein", "your": "dein", "this": "dies", "every": "jedes", "no": "kein", "one": "eins"}


def sentences(seed, count):
    """Sentences of a made grammar, of words that mean nothing together."""
    r = random.Random(seed)
    for _ in range(count):
        half = lambda: [r.choice(FIRST), r.choice(SECOND), r.choice(THIRD)]
        yield " ".join(half() + [r.choice(VERBS)] + half()) + r.choice([".", "!", "?", ", again."])


def translation(sentence):
    """The end of it in a made language: some words replaced, the others turned around."""
    words = sentence.strip(".!?").split()[-3:]
    return " ".join(OTHER.get(w, w[::-1].replace("e", "ü")) for w in words).capitalize() + "."


def train_pieces(lines, size, **options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=size, **options, character_coverage=1.0, hard_vocab_limit=False,
        num_threads=1, minloglevel=2,
        normalization_rule_name="identity")  # the table of any other rule takes a quarter of a megabyte
    return model.getvalue()


def write_vocabulary(path, pieces, extra, pad_first):
    """`</s>` 0, `<unk>` 1, the pieces, what else there is, and `<pad>` last, as folders from the Marian toolkit have them. If
    there are two vocabularies, one number has to be the padding of both."""
    words = ["</s>", "<unk>"] + (["<pad>"] if pad_first else [])
    for text in pieces + extra + ["<pad>"]:
        if text not in words:
            words.append(text)
    with open(path, "w", encoding="utf-8") as f:
        json.dump({w: i for i, w in enumerate(words)}, f, ensure_ascii=False, indent=0)
    return len(words)


def pieces_of(serialized, leave_out):
    sp = sentencepiece.SentencePieceProcessor(model_proto=serialized)
    return [sp.id_to_piece(i) for i in range(sp.get_piece_size()) if not sp.is_control(i) and not sp.is_unknown(i)
            and i % 29 != leave_out]


def make_tokenizer(folder, separate, size):
    os.makedirs(folder)
    english = list(sentences(1, 400))
    other = [translation(s) for s in english]
    source, target = train_pieces(english, size), train_pieces(other, size)
    for name, data in (("source.spm", source), ("target.spm", target)):
        with open(os.path.join(folder, name), "wb") as f:
            f.write(data)
    kept_source, kept_target = pieces_of(source, 17), pieces_of(target, 19)
    codes = [">>deu<<", ">>xxx<<"]
    vocab = os.path.join(folder, "vocab.json")
    more = {}
    if separate:
        sizes = (write_vocabulary(vocab, kept_source, codes, True),
                 write_vocabulary(os.path.join(folder, "target_vocab.json"), kept_target, [], True))
        more["target_vocab_file"] = os.path.join(folder, "target_vocab.json")
    else:
        sizes = (write_vocabulary(vocab, kept_source + kept_target, codes, False),) * 2
    tokenizer = MarianTokenizer(os.path.join(folder, "source.spm"), os.path.join(folder, "target.spm"), vocab,
                                separate_vocabs=separate, **more)
    return tokenizer, sizes


def random_weights(model, tokenizer, seed, bias, steps):
    """Weights from a generator, then a little training: random networks of this size say one word again and again, and never end.
    Norms and biases start away from 1 and 0, so that all of them count."""
    generator = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        if "embed_positions" in name:
            continue
        if name.endswith("layer_norm.weight"):
            p.data = 1 + 0.3 * torch.randn(p.shape, generator=generator)
        elif name.endswith("bias"):
            p.data = 0.2 * torch.randn(p.shape, generator=generator)
        elif "embed" in name or "shared" in name or "lm_head" in name:
            p.data = (0.2 if model.config.scale_embedding else 0.6) * torch.randn(p.shape, generator=generator)
        else:
            p.data = 1.2 / p.shape[-1] ** 0.5 * torch.randn(p.shape, generator=generator)
    model.tie_weights()
    if bias:
        model.final_logits_bias = torch.nn.Buffer(0.5 * torch.randn(model.final_logits_bias.shape, generator=generator))
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=4e-3)
    lines = list(sentences(seed + 7, 24 * steps))
    for step in range(steps):
        some = lines[24 * step:24 * step + 24]
        batch = tokenizer(some, text_target=[translation(s) for s in some], return_tensors="pt", padding=True)
        batch["labels"][batch["labels"] == tokenizer.pad_token_id] = -100
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return loss.item()


def unpadded(rows, pad, eos):
    """Sequences without the begin token and without what stands after the end token."""
    out = []
    for row in rows.tolist():
        row = row[1:]
        if eos in row:
            row = row[: row.index(eos) + 1]
        while row and row[-1] == pad:  # cut off by the length
            row.pop()
        out.append(row)
    return out


def flat(rows):
    return (torch.tensor([t for row in rows for t in row], dtype=torch.int64), torch.tensor([len(r) for r in rows], dtype=torch.int64))


SEARCHES = [
    {"num_beams": 1, "max_length": 24},
    {"num_beams": 1, "max_length": 9, "forced_eos_token_id": None},
    {"num_beams": 1, "max_new_tokens": 12, "no_repeat_ngram_size": 2},
    {"num_beams": 2, "max_length": 20, "length_penalty": 0.0},
    {"num_beams": 4, "max_length": 24},
    {"num_beams": 4, "max_length": 24, "num_return_sequences": 4, "length_penalty": 2.0},
    {"num_beams": 4, "max_length": 24, "num_return_sequences": 3, "length_penalty": 0.5, "early_stopping": True},
    {"num_beams": 4, "max_length": 24, "num_return_sequences": 2, "length_penalty": 1.3, "early_stopping": "never"},
    {"num_beams": 5, "max_length": 16, "length_penalty": -0.5, "num_return_sequences": 2},
    {"num_beams": 3, "max_length": 7, "num_return_sequences": 3},
    {"num_beams": 3, "max_length": 8, "num_return_sequences": 3, "forced_eos_token_id": None},
    {"num_beams": 6, "max_length": 30, "min_length": 12, "length_penalty": 1.0},
    {"num_beams": 4, "max_length": 24, "no_repeat_ngram_size": 3, "num_return_sequences": 2},
    {"num_beams": 4, "max_length": 20, "bad_words_ids": [[5], [7, 9], [11, 4, 6], [20], [21], [22]]},
]


def make_model(out, name, seed, sizes_of, searches, separate=False, dtype=torch.float32, **options):
    folder = os.path.join(out, name)
    shutil.rmtree(folder, ignore_errors=True)
    tokenizer, sizes = make_tokenizer(folder, separate, options.pop("pieces", 56))
    bias, steps = options.pop("bias", True), options.pop("steps", 150)
    pad, eos = tokenizer.pad_token_id, tokenizer.eos_token_id
    config = MarianConfig(
        vocab_size=sizes[0], decoder_vocab_size=sizes[1], pad_token_id=pad, eos_token_id=eos, decoder_start_token_id=pad,
        forced_eos_token_id=eos, max_position_embeddings=64, share_encoder_decoder_embeddings=not separate,
        dropout=0.0, **sizes_of, **options)
    model = MarianMTModel(config).eval()
    loss = random_weights(model, tokenizer, seed, bias, steps)
    model = model.to(dtype).float()  # the values that a file of that type holds
    for stack in (model.model.encoder, model.model.decoder):  # these it does not hold
        stack.embed_positions.weight.data = stack.embed_positions.create_weight()
    model.generation_config = GenerationConfig(
        num_beams=4, max_length=40, bad_words_ids=[[pad]], eos_token_id=eos, pad_token_id=pad, decoder_start_token_id=pad,
        forced_eos_token_id=eos)

    lines = list(sentences(seed + 100, 6)) + ["stone.", ">>deu<< my old house"]
    encoded = [tokenizer(s).input_ids for s in lines]
    tensors, metadata = {}, {}
    tensors["source"], tensors["source_lengths"] = flat(encoded)
    targets = [[pad] + tokenizer(text_target=translation(s)).input_ids[:-1] for s in lines[:3]]
    tensors["target"], tensors["target_lengths"] = flat(targets)
    logits = []
    with torch.no_grad():
        for s, t in zip(encoded, targets):
            logits.append(model(input_ids=torch.tensor([s]), decoder_input_ids=torch.tensor([t])).logits[0])
        tensors["logits"] = torch.cat(logits)
        tensors["positions"] = model.model.encoder.embed_positions.weight.clone()
        batch = tokenizer(lines, return_tensors="pt", padding=True)
        distinct = set()
        for i, search in enumerate(searches):
            keys = dict(search)
            chosen = GenerationConfig(**{**model.generation_config.to_dict(), **keys})
            if "max_new_tokens" in keys:
                chosen.max_length = None
            kept, model.generation_config = model.generation_config, chosen  # which fills what an argument leaves open
            result = model.generate(**batch, return_dict_in_generate=True, output_scores=True)
            model.generation_config = kept
            rows = unpadded(result.sequences, pad, eos)
            distinct.update(map(tuple, rows))
            tensors[f"search.{i}.tokens"], tensors[f"search.{i}.lengths"] = flat(rows)
            if chosen.num_beams > 1:
                tensors[f"search.{i}.scores"] = result.sequences_scores.clone()
            chosen.save_pretrained(folder, f"search_{i}.json")
            with open(os.path.join(folder, f"search_{i}.json")) as f:
                metadata[f"search.{i}"] = json.dumps(json.load(f))
            os.remove(os.path.join(folder, f"search_{i}.json"))
        greedy = tensors["search.0.tokens"].tolist()
    print(f"{name}: loss {loss:.2f}, vocabularies {sizes}, {len(distinct)} different outputs, {len(set(greedy))} tokens in greedy ones, lengths",
          tensors["search.4.lengths"].tolist() if len(searches) > 4 else "")

    texts = lines + ["", "  two  spaces ", "Ünïcödé ß 漢字 stone", ">>xxx<<stone", ">>yyy<< stone", ">> no code", "stone >>deu<< house",
                     "a\tb", "ﬁne ①"]
    cases = [{"text": s, "source": tokenizer(s).input_ids, "target": tokenizer(text_target=s).input_ids} for s in texts]
    decoded = [tokenizer(text_target=translation(s)).input_ids for s in lines]
    decoded += encoded[:3]  # tokens that the targets' pieces do not have
    decoded += [[pad] + decoded[0] + [pad, pad], [1, decoded[1][0], 1], [], [eos]]
    decode = [{"tokens": d, "text": tokenizer.decode(d, skip_special_tokens=True, use_source_tokenizer=False)} for d in decoded]
    stored = model.to(dtype)
    stored.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    save_file({k: v.contiguous() for k, v in tensors.items()}, os.path.join(folder, "expected.safetensors"), metadata)
    with open(os.path.join(folder, "expected.json"), "w", encoding="utf-8") as f:
        json.dump({"encode": cases, "decode": decode}, f, ensure_ascii=False, indent=0)


def main(out):
    os.makedirs(out, exist_ok=True)
    even = dict(d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
                encoder_ffn_dim=24, decoder_ffn_dim=24)
    other = dict(d_model=24, encoder_layers=1, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=3,
                 encoder_ffn_dim=32, decoder_ffn_dim=20)
    odd = dict(d_model=15, encoder_layers=2, decoder_layers=1, encoder_attention_heads=3, decoder_attention_heads=5,
               encoder_ffn_dim=16, decoder_ffn_dim=16)
    with open(os.path.join(out, "no_begin.spm"), "wb") as f:
        f.write(train_pieces(list(sentences(1, 400)), 40, bos_id=-1))
    make_model(out, "swish", 1, even, SEARCHES, activation_function="swish", scale_embedding=True)
    make_model(out, "relu_separate", 2, other, SEARCHES, separate=True, activation_function="relu", scale_embedding=False)
    make_model(out, "gelu_odd", 3, odd, SEARCHES[:1] + SEARCHES[4:6], activation_function="gelu", scale_embedding=False, bias=False)
    make_model(out, "untied", 4, even, SEARCHES[3:5], activation_function="gelu_new", scale_embedding=True, tie_word_embeddings=False)
    make_model(out, "half", 5, odd, SEARCHES[4:5], activation_function="swish", scale_embedding=True, dtype=torch.float16)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
