"""Batches for training steps, in a file that both sides read: Multi30k with its real lengths, and random ones.

A file holds for batch i `i.source`, `i.target`, `i.labels` (the tokens of all sentences end to end, int32) and
`i.source_lengths`, `i.target_lengths` (int64); or, for the networks without a vocabulary, vectors [sentences, length, width].
"""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

PAD, BOS, EOS, UNK = 0, 1, 2, 3
VOCABULARY = 10_000
Pair = tuple[list[int], list[int]]


def multi30k(folder: Path, file: Path, count: int, tokens: int) -> None:
    """`count` of the batches that hold at most `tokens` target tokens each, evenly from short to long. The pairs stand in the
    order that leaves the least padding to a side that pads."""
    pairs = _encode(folder)
    keys: list[Callable[[Pair], tuple[int, int]]] = [
        lambda p: (len(p[1]), len(p[0])),
        lambda p: (len(p[0]), len(p[1])),
        lambda p: (len(p[0]) + len(p[1]), len(p[1])),
        lambda p: (max(len(p[0]), len(p[1])), len(p[1])),
    ]
    batches = min((_cut(sorted(pairs, key=key), tokens) for key in keys), key=_padded)
    # The middle of each of `count` equal parts. The last batch of all is not a full one.
    chosen = [batches[(2 * i + 1) * (len(batches) - 1) // (2 * count)] for i in range(count)]
    arrays = {}
    for i, batch in enumerate(chosen):
        arrays |= _arrays(i, [s + [EOS] for s, _ in batch], [[BOS] + t for _, t in batch], [t + [EOS] for _, t in batch])
    save_file(arrays, file)


def random_pairs(file: Path, count: int, shape: tuple[int, int, int], vocabularies: tuple[int, int]) -> None:
    """Pairs of one length: `shape` is (sentences, source length, target length)."""
    random, (sentences, source, target) = np.random.default_rng(1), shape
    arrays = {}
    for i in range(count):

        def draw(length: int, vocabulary: int) -> list[list[int]]:
            return random.integers(UNK, vocabulary, (sentences, length)).tolist()

        arrays |= _arrays(i, draw(source, vocabularies[0]), draw(target, vocabularies[1]), draw(target, vocabularies[1]))
    save_file(arrays, file)


def random_vectors(file: Path, count: int, names: tuple[str, ...], shape: tuple[int, int, int]) -> None:
    random = np.random.default_rng(1)
    save_file({f"{i}.{name}": random.standard_normal(shape, np.float32) for i in range(count) for name in names}, file)


def _encode(folder: Path) -> list[Pair]:
    """The training pairs in the subwords of a joint model."""
    import sentencepiece

    def lines(language: str) -> list[str]:
        return [line.strip() for line in (folder / f"train.{language}").read_text(encoding="utf-8").splitlines()]

    english, german = lines("en"), lines("de")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(english + german),
        model_writer=model,
        vocab_size=VOCABULARY,
        pad_id=PAD,
        bos_id=BOS,
        eos_id=EOS,
        unk_id=UNK,
        num_threads=1,
        minloglevel=2,
    )
    encode = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue()).encode
    return [(s, t) for s, t in zip(encode(english), encode(german)) if s and t]


def _cut(pairs: list[Pair], tokens: int) -> list[list[Pair]]:
    batches: list[list[Pair]] = [[]]
    size = 0
    for pair in pairs:
        if batches[-1] and size + len(pair[1]) + 1 > tokens:
            batches.append([])
            size = 0
        batches[-1].append(pair)
        size += len(pair[1]) + 1
    return batches


def _padded(batches: list[list[Pair]]) -> int:
    """Positions after padding, source and target."""
    return sum(len(b) * (2 + max(len(s) for s, _ in b) + max(len(t) for _, t in b)) for b in batches)


def _arrays(i: int, source: list[list[int]], target: list[list[int]], labels: list[list[int]]) -> dict[str, np.ndarray]:
    def flat(sentences: list[list[int]]) -> np.ndarray:
        return np.array([token for sentence in sentences for token in sentence], np.int32)

    def lengths(sentences: list[list[int]]) -> np.ndarray:
        return np.array([len(sentence) for sentence in sentences], np.int64)

    return {
        f"{i}.source": flat(source),
        f"{i}.source_lengths": lengths(source),
        f"{i}.target": flat(target),
        f"{i}.target_lengths": lengths(target),
        f"{i}.labels": flat(labels),
    }
