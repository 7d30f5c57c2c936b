#!/usr/bin/env python3
"""Writes lengths_multi30k.txt and lengths_tatoeba.txt: the lengths of real sentence pairs, and nothing else of them.

    ATTEND_DATA_DIR=/path/to/data benchmarks/gpu/make_lengths.py

Each line is the subwords of a source and of its target, without begin and end tokens: 4,000 pairs of Multi30k's training set
(English to German) and of Tatoeba (English to Spanish), drawn with a fixed seed, in the subwords of one SentencePiece model for
both languages of each corpus, trained on all of it: 32,000, or as many as the corpus gives. Needs the Python package
sentencepiece and the data that benchmarks/README.md names."""

import io
import os
import random
from pathlib import Path

import sentencepiece

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("ATTEND_DATA_DIR", HERE.parents[2] / "shared" / "data"))
VOCABULARY, PAIRS, SEED = 32_000, 4_000, 1

Corpus = list[tuple[str, str]]


def multi30k() -> Corpus:
    def lines(language: str) -> list[str]:
        text = (DATA / "multi30k" / f"train.{language}").read_text(encoding="utf-8")
        return [line.strip() for line in text.splitlines()]

    return list(zip(lines("en"), lines("de"), strict=True))


def tatoeba() -> Corpus:
    text = (DATA / "tatoeba" / "en-es.tsv").read_text(encoding="utf-8")
    return [(fields[0], fields[1]) for fields in (line.split("\t") for line in text.splitlines())]


def main() -> None:
    for name, corpus in (("multi30k", multi30k()), ("tatoeba", tatoeba())):
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([side for pair in corpus for side in pair]),
            model_writer=model,
            vocab_size=VOCABULARY,
            hard_vocab_limit=False,
            num_threads=1,
            minloglevel=2,
        )
        subwords = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        pairs = [tuple(len(subwords.encode(side)) for side in pair) for pair in random.Random(SEED).sample(corpus, PAIRS)]
        pairs = [pair for pair in pairs if min(pair) > 0]
        means = [sum(side) / len(pairs) for side in zip(*pairs)]
        print(f"{name}: {subwords.vocab_size()} subwords, {means[0]:.1f} and {means[1]:.1f} a sentence, {len(pairs)} pairs")
        (HERE / f"lengths_{name}.txt").write_text("".join(f"{s} {t}\n" for s, t in pairs), encoding="utf-8")


if __name__ == "__main__":
    main()
