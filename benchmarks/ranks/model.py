#!/usr/bin/env python3
"""What a training step of several ranks costs, by a model of it: compute, bytes, latency, overlap.

    python3 benchmarks/ranks/model.py                              # docs/machines.md's table
    python3 benchmarks/ranks/model.py --ranks 4 --parts 4 --parameters 61e6 --gbit 1 --compute 4.2
    python3 benchmarks/ranks/model.py --ranks 4 --parts 4 --parameters 61e6 --gbit 1 --compute 4.2 --shard-optimizer

A rank computes for `compute` seconds (all its parts). Gradients are n bytes in pieces; of each it sends 2 (ranks - 1) / ranks, and
waits 2 log2(ranks) times for the network's latency. What goes out while the last part's backward is still at work, which is two thirds
of its compute, costs nothing; the piece that is complete last, the first parameters in their order (the embedding), does not.

With shards of the optimizer a rank gets the sums of its own, which is half of that, and the weights that others have moved after the
update, the other half, which nothing hides.
"""

import argparse
import math

CORE_SECONDS = 3.25  # for 2,048 source and target tokens of the base model, measured on a Zen 5 (two cores, 1.6 s a step)
EFFICIENCY = 0.8  # of many cores of a processor together, beside two of them; an assumption
PIECE = 4 << 20  # bytes that are summed together, or a parameter that is larger
UNDER_WAY = 8 * (60 << 10)  # bytes of them between two ranks at most, see attend/mpi.hpp


def step(ranks: int, parts: int, parameters: float, last: float, compute: float, gbit: float, latency: float, shards: bool = False) -> dict:
    """Seconds of a step. `last`: the share of the parameters that are complete last."""
    bytes_ = 4 * parameters
    rate = min(gbit * 1e9 / 8 * 0.94, UNDER_WAY / latency)  # what TCP leaves of it
    share = 2 * (ranks - 1) / ranks
    messages = max(1, bytes_ / PIECE)
    traffic = share * bytes_ / rate + 2 * math.log2(ranks) * latency * messages if ranks > 1 else 0.0
    backward = compute * ranks / parts * 2 / 3
    sums = traffic / 2 if shards else traffic
    hidden = min(sums * (1 - last), backward)
    return {"sums": sums, "weights": traffic - sums, "hidden": hidden, "step": compute + traffic - hidden}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int)
    parser.add_argument("--parts", type=int, help="of a batch (as many as ranks)")
    parser.add_argument("--parameters", type=float, default=61e6)
    parser.add_argument("--last", type=float, default=0.31, help="share of the parameters that are complete last")
    parser.add_argument("--compute", type=float, help="seconds that a rank computes in a step")
    parser.add_argument("--gbit", type=float, default=10)
    parser.add_argument("--latency", type=float, default=30e-6, help="seconds from a message's start to its arrival")
    parser.add_argument("--shard-optimizer", action="store_true")
    o = parser.parse_args()
    if o.ranks:
        if not o.compute:
            parser.error("--ranks needs --compute")
        cost = step(o.ranks, o.parts or o.ranks, o.parameters, o.last, o.compute, o.gbit, o.latency, o.shard_optimizer)
        print(", ".join(f"{name} {seconds:.2f} s" for name, seconds in cost.items()), f"efficiency {o.compute / cost['step']:.0%}")
        return
    networks = ((8, 1), (8, 10), (64, 10), (64, 100), (256, 10), (256, 100))
    print("| tokens of a rank and step | 16 cores compute | " + " | ".join(f"{ranks} ranks, {gbit} GbE" for ranks, gbit in networks) + " |")
    print("|--:|--:|" + "--:|" * len(networks))
    for tokens in (2048, 4096, 8192, 32768):
        compute = CORE_SECONDS * tokens / 2048 / (16 * EFFICIENCY)
        row = [f"{tokens:,}", f"{compute:.2f} s"]
        for ranks, gbit in networks:
            row.append(f"{compute / step(ranks, ranks, o.parameters, o.last, compute, gbit, o.latency, o.shard_optimizer)['step']:.0%}")
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
