"""Which sentences make up which batch: files that both sides read, a batch a line, SOURCE TARGET SOURCE TARGET ... lengths
without begin and end token."""

from collections.abc import Callable
from pathlib import Path

Pairs = list[tuple[int, int]]
PAD, BOS, EOS, FIRST_WORD = 0, 1, 2, 4


def read(file: str | Path) -> list[Pairs]:
    """The batches of a file, or the pairs of one of lengths_*.txt, a batch each."""
    lines = [[int(word) for word in line.split()] for line in Path(file).read_text(encoding="utf-8").splitlines()]
    return [list(zip(line[::2], line[1::2])) for line in lines]


def write(file: Path, batches: list[Pairs]) -> None:
    lines = [" ".join(f"{source} {target}" for source, target in batch) for batch in batches]
    file.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def training(sample: Pairs, corpus: int, tokens: int, count: int) -> list[Pairs]:
    """`count` batches of at most `tokens` target tokens, evenly from short sentences to long ones, of a corpus of about
    `corpus` pairs that are as the sample's. The pairs stand in the order that leaves the least padding to a side that pads."""
    pairs = sample * max(1, round(corpus / len(sample)))
    keys: list[Callable[[tuple[int, int]], tuple[int, int]]] = [
        lambda p: (p[1], p[0]),
        lambda p: (p[0], p[1]),
        lambda p: (p[0] + p[1], p[1]),
        lambda p: (max(p), p[1]),
    ]
    batches = min((_cut(sorted(pairs, key=key), tokens) for key in keys), key=_padded)
    # The middle of each of `count` equal parts. The last batch of all is not a full one.
    return [batches[(2 * i + 1) * (len(batches) - 1) // (2 * count)] for i in range(count)]


def decoding(sample: Pairs, sentences: int, size: int) -> list[Pairs]:
    """So many pairs of the sample, `size` to a batch, the longest sources first."""
    pairs = sorted(sample[:sentences], reverse=True)
    return [pairs[first : first + size] for first in range(0, sentences, size)]


def _cut(pairs: Pairs, tokens: int) -> list[Pairs]:
    batches: list[Pairs] = [[]]
    size = 0
    for pair in pairs:
        if batches[-1] and size + pair[1] + 1 > tokens:
            batches.append([])
            size = 0
        batches[-1].append(pair)
        size += pair[1] + 1
    return batches


def _padded(batches: list[Pairs]) -> int:
    """Positions after padding, source and target."""
    return sum(len(b) * (2 + max(s for s, _ in b) + max(t for _, t in b)) for b in batches)
