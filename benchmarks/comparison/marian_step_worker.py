"""Marian's side of training steps: NETWORK BATCHES. It trains anew for each measurement, and reports its own speed.

It has the same sentences as the others and cuts them into batches of as many target tokens by itself.
"""

import argparse
import dataclasses
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from safetensors.numpy import load_file

from . import marian_model, networks
from .worker import Answer, WorkerError, environment, serve

TOKENS = re.compile(r"Up\. \d+ .* @ [\d,]+ after ([\d,]+) : Time ([\d.]+)s")  # a line of its log for each update


class Training:
    """A network and a corpus in the form that Marian wants."""

    def __init__(self, network: str, batches: Path, folder: Path):
        self.folder, self.log = folder, folder / "log"
        tensors = load_file(batches)
        self.count = sum(key.endswith(".labels") for key in tensors)
        # A step has as many tokens as a batch of the others has on average.
        self.tokens = sum(len(tensors[f"{i}.labels"]) for i in range(self.count))
        for side, name in (("source", "source"), ("target", "labels")):
            lines = (line for i in range(self.count) for line in sentences(tensors, i, side, name))
            (folder / side).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        model = networks.network(network)
        options = model.encoder.options
        marian_model.write_vocabulary([str(i) for i in range(options.vocabulary)], folder / "vocabulary.yml")
        tied = "all" if model.head.weight is model.encoder.embedding.weight else ""
        self.architecture = marian_model.architecture(dataclasses.asdict(options), model.decoder.options.layers, tied)
        self.architecture["transformer-dropout"] = options.dropout.residual
        self.most = max(len(tensors[f"{i}.labels"]) for i in range(self.count))

    def speed(self, workers: int, threads: int, seconds: float) -> float:
        """Target tokens a second, after one pass over the corpus that is not timed. Throws WorkerError if Marian stops."""
        folder, vocabulary = self.folder, self.folder / "vocabulary.yml"
        command: list[object] = [marian_model.program(), "train", "--train-sets", folder / "source", folder / "target"]
        command += ["--vocabs", vocabulary, vocabulary, "--model", folder / "model.npz", "--overwrite", "--no-reload"]
        for name, value in self.architecture.items():
            command += [f"--{name}"] if value is True else [] if value is False or value == "" else [f"--{name}", value]
        command += ["--cpu-threads", workers, "--sync-sgd", "--mini-batch-words", self.most, "--mini-batch", 10_000]
        command += ["--maxi-batch", 10_000, "--maxi-batch-sort", "trg", "--shuffle", "none", "--label-smoothing", 0.1]
        command += ["--learn-rate", 1e-5, "--clip-norm", 0, "--seed", 1, "--disp-freq", "1u", "--save-freq", "1000000u"]
        command += ["--workspace", 2000, "--log", self.log, "--quiet"]
        self.log.unlink(missing_ok=True)
        process = subprocess.Popen([str(word) for word in command], env=environment(threads), stdout=subprocess.DEVNULL)
        try:
            while True:
                time.sleep(0.1)
                ended = process.poll() is not None
                tokens, passed = 0, 0.0
                for after, took in self.updates():
                    if after > self.tokens:
                        tokens, passed = after - self.tokens, passed + took
                # Whole passes alone, which have the short sentences and the long ones.
                if tokens and tokens % self.tokens == 0 and passed >= seconds:
                    return tokens / passed
                if ended:
                    raise WorkerError(f"pymarian train ended with status {process.returncode}: {self.end_of_log()}")
        finally:
            process.kill()
            process.wait()

    def updates(self) -> Iterator[tuple[int, float]]:
        """Of each update the target tokens until then, and its seconds; to the last that ended a pass."""
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        told = [(int(after.replace(",", "")), float(took)) for after, took in TOKENS.findall(text)]
        last = max((i for i, (after, _) in enumerate(told, 1) if after % self.tokens == 0), default=0)
        yield from told[:last]

    def end_of_log(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines() if self.log.exists() else []
        return lines[-1][:200] if lines else "it wrote no log"


def sentences(tensors: marian_model.Tensors, i: int, side: str, name: str) -> Iterator[str]:
    """Those of batch i, without the end token, which Marian adds by itself."""
    at = 0
    for length in tensors[f"{i}.{side}_lengths"]:
        yield " ".join(str(token) for token in tensors[f"{i}.{name}"][at : at + length - 1])
        at += length


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("network")
    parser.add_argument("batches", type=Path)
    arguments = parser.parse_args()
    threads = int(os.environ["OMP_NUM_THREADS"])
    # A share of the batch for each thread; all threads for each product; one alone.
    ways = list(dict.fromkeys([(threads, 1), (1, threads), (1, 1)]))
    with tempfile.TemporaryDirectory(prefix="attend-compare-marian-") as folder:
        training = Training(arguments.network, arguments.batches, Path(folder))

        def answer(request: Answer) -> Answer:
            if request["do"] == "warm":  # which way is the fastest
                ways.sort(key=lambda way: -training.speed(*way, 0.0))
                return {"way": f"{ways[0][0]} × {ways[0][1]}"}
            return {"real": training.tokens / training.count / training.speed(*ways[0], request["seconds"])}

        serve({}, answer)


if __name__ == "__main__":
    main()
