#!/usr/bin/env python3
"""What a training step takes on one machine of many cores, on paper: docs/machines.md's table.

    python3 benchmarks/ranks/cores.py

Loops and their parts were counted in real steps of one thread that cut its loops as for many, and gave each part to the thread that would
have been free first. That is what the shape of the work allows. To it comes what the machine adds, by assumption: taking a part moves a
line of the cache from one core to another, and a loop begins and ends. What memory adds is left out.
"""

import model

TAKE = 0.1e-6  # seconds to take a part: a line that another core, perhaps of another die, has written last
LOOP = 2e-6  # to begin a loop, and to see that it has ended
BETWEEN = 80  # Gbit/s between two ranks of a machine, through its memory
LATENCY = 1e-6  # seconds of a message between them
PARAMETERS = {"tiny": 2.4e6, "base": 48.2e6}  # with 8,000 subwords, in one matrix for embeddings and head
EMBEDDING = {"tiny": 0.43, "base": 0.085}

# (preset, tokens): seconds of one thread, loops of a step, {threads: (speed-up that the work allows, parts of a step)}.
# Zen 4, AVX-512, 2026-11-28: sentences of 16 tokens on both sides.
COUNTED = {
    ("tiny", 2048): (0.368, 462, {8: (6.6, 5788), 16: (11.1, 10472), 32: (15.4, 16277), 64: (22.3, 28327)}),
    ("tiny", 16384): (3.01, 1639, {8: (6.9, 20319), 16: (12.1, 34751), 32: (20.6, 50594), 64: (34.2, 94258)}),
    ("tiny", 4096): (0.708, 650, {8: (6.9, 7712), 16: (12.5, 13657), 32: (19.8, 22133), 64: (31.6, 38647)}),
    ("base", 2048): (6.03, 1092, {8: (7.5, 14980), 16: (14.5, 27974), 32: (23.7, 47041), 64: (40.8, 84958)}),
    ("base", 8192): (24.0, 1776, {8: (7.6, 24592), 16: (14.7, 45544), 32: (25.2, 72780), 64: (44.5, 135109)}),
    ("tiny", 512): (0.0882, 351, {16: (9.6, 6716)}),
    ("base", 512): (1.6, 912, {16: (8.2, 24605)}),
}


def one_process(preset: str, tokens: int, threads: int) -> float:
    """Seconds of a step."""
    seconds, loops, by_threads = COUNTED[preset, tokens]
    speed_up, parts = by_threads[threads]
    return seconds / speed_up + loops * LOOP + parts * TAKE


def main() -> None:
    print("| | one thread | " + " | ".join(f"{n} threads" for n in (8, 16, 32, 64)) + " | 4 ranks of 16 |")
    print("|---|--:|" + "--:|" * 5)
    for preset, tokens in (("tiny", 2048), ("tiny", 16384), ("base", 2048), ("base", 8192)):
        alone = COUNTED[preset, tokens][0]
        row = [f"`{preset}`, {tokens:,} tokens", f"{alone:.2g} s"]
        row += [f"{alone / one_process(preset, tokens, n):.0f}" for n in (8, 16, 32, 64)]
        if (preset, tokens // 4) in COUNTED:
            compute = one_process(preset, tokens // 4, 16)
            row.append(f"{alone / model.step(4, 4, PARAMETERS[preset], EMBEDDING[preset], compute, BETWEEN, LATENCY)['step']:.0f}")
        else:
            row.append("")
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
