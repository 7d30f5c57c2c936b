"""Reads two dumps of the programs of tests/bits, item by item, and says where their numbers differ."""

import math
from array import array
from pathlib import Path
from typing import Iterator, Tuple

# How the bits of a type are read, and how they become numbers.
BITS = {"f64": "Q", "f32": "I", "bf16": "H", "i64": "q", "i32": "i", "u8": "B"}
NUMBERS = {"f64": "d", "f32": "f"}
CHUNK = 1 << 14  # numbers


def numbers(kind: str, bits: list) -> list:
    if kind == "bf16":
        return numbers("f32", [b << 16 for b in bits])
    if kind in NUMBERS:
        return list(array(NUMBERS[kind], array(BITS[kind], bits).tobytes()))
    return bits


def readable(number) -> str:
    return str(number) if isinstance(number, int) else f"{number:.9g}"


class Difference:
    """Of one item: how many numbers differ, and the pair that is furthest apart."""

    def __init__(self, kind: str):
        self.kind, self.count, self.first, self.nans, self.furthest, self.pair = kind, 0, None, 0, -1.0, None

    def add(self, offset: int, a: array, b: array) -> None:
        places = [i for i, (x, y) in enumerate(zip(a, b)) if x != y]
        if places and self.first is None:
            self.first = offset + places[0]
        self.count += len(places)
        for x, y in zip(numbers(self.kind, [a[i] for i in places]), numbers(self.kind, [b[i] for i in places])):
            apart = abs(x - y) if x != y else 0.0
            if math.isnan(apart):
                self.nans += 1
            elif apart > self.furthest:
                self.furthest, self.pair = apart, (x, y)

    def text(self, count: int) -> str:
        words = f"{self.count} of {count} numbers differ, the first at {self.first}"
        if self.pair:
            words += f"; the largest difference is {self.furthest:.3g}, {readable(self.pair[0])} and {readable(self.pair[1])}"
        return words + (f"; {self.nans} are not a number on one side" if self.nans else "")


class Dump:
    """The items of a file, each with its type, count and place."""

    def __init__(self, path: Path):
        self.file, self.items = open(path, "rb"), {}
        while line := self.file.readline():
            name, kind, count = line.decode().split()
            self.items[name] = kind, int(count), self.file.tell()
            self.file.seek(int(count) * array(BITS[kind]).itemsize, 1)

    def chunks(self, name: str) -> Iterator[bytes]:
        kind, count, place = self.items[name]
        self.file.seek(place)
        for offset in range(0, count, CHUNK):
            yield self.file.read(min(CHUNK, count - offset) * array(BITS[kind]).itemsize)


def compare(before: Dump, after: Dump, name: str) -> str:
    kind, count, _ = before.items[name]
    other_kind, other_count, _ = after.items[name]
    if (kind, count) != (other_kind, other_count):
        return f"{count} numbers in {kind}, and {other_count} in {other_kind}"
    difference = Difference(kind)
    for i, (x, y) in enumerate(zip(before.chunks(name), after.chunks(name))):
        if x != y:
            difference.add(i * CHUNK, array(BITS[kind], x), array(BITS[kind], y))
    return difference.text(count)


def differences(before: Path, after: Path) -> Iterator[Tuple[str, str]]:
    """Each item of both dumps, and what of it differs."""
    a, b = Dump(before), Dump(after)
    with a.file, b.file:
        for name in a.items:
            yield name, compare(a, b, name)
