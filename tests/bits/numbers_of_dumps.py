"""Reads two dumps of the programs of tests/bits, item by item, and says where their numbers differ."""

import math
from array import array
from pathlib import Path
from typing import BinaryIO, Iterator, Tuple

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


def header(dump: BinaryIO) -> Tuple[str, str, int]:
    name, kind, count = dump.readline().decode().split()
    return name, kind, int(count)


def differences(before: Path, after: Path) -> Iterator[Tuple[str, str]]:
    """Each item of both dumps, which have the same in the same order, and what of it differs."""
    with open(before, "rb") as a, open(after, "rb") as b:
        size = before.stat().st_size
        while a.tell() < size:
            (name, kind, count), (other, other_kind, other_count) = header(a), header(b)
            if name != other:
                raise ValueError(f"the dumps have {name} and {other} in the same place")
            same_form = (kind, count) == (other_kind, other_count)
            if not same_form:
                a.seek(count * array(BITS[kind]).itemsize, 1)
                b.seek(other_count * array(BITS[other_kind]).itemsize, 1)
                yield name, f"{count} numbers in {kind}, and {other_count} in {other_kind}"
                continue
            difference, width = Difference(kind), array(BITS[kind]).itemsize
            for offset in range(0, count, CHUNK):
                length = min(CHUNK, count - offset) * width
                x, y = a.read(length), b.read(length)
                if x != y:
                    difference.add(offset, array(BITS[kind], x), array(BITS[kind], y))
            yield name, difference.text(count)
