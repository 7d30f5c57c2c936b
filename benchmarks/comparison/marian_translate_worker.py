"""Marian's side of translation: MODEL PIECES(a JSON file) WORK(a folder to convert into) GEMM_TYPE WORKERS."""

import argparse
import json
from pathlib import Path

from .worker import Answer, Stopwatch, in_a_child, resident, serve_translations

LONGEST = 3  # of a translation, in lengths of the longest source of its batch; as Marian has it by itself
MARK = " ||| "  # between the parts of a line of an n-best list: the sentence's number, the tokens, scores, the score


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("model", "pieces", "work"):
        parser.add_argument(name, type=Path)
    parser.add_argument("gemm_type")
    parser.add_argument("workers", type=int, help="batches that it translates side by side")
    arguments = parser.parse_args()
    pieces = json.loads(arguments.pieces.read_text(encoding="utf-8"))
    file = arguments.work / f"{arguments.gemm_type}.bin"
    if not file.exists():

        def convert() -> None:
            from . import marian_model

            marian_model.convert(arguments.model, pieces, arguments.work)
            marian_model.pack(arguments.work, arguments.gemm_type, file)

        in_a_child(convert)

    import pymarian

    idle = resident("VmRSS")
    vocabulary = arguments.work / "vocabulary.yml"
    options = f"--models {file} --vocabs {vocabulary} {vocabulary} --cpu-threads {arguments.workers} --workspace 128 --quiet"
    options += f" --maxi-batch 1000 --maxi-batch-sort src --max-length-factor {LONGEST}"
    translator = pymarian.Translator(options)
    quick = pymarian.Translator(options + " --skip-cost")  # without a softmax: for the greedy search, which needs none
    numbers = {piece: i for i, piece in enumerate(pieces)}

    def translate(sources: list[str], request: Answer) -> Answer:
        search = {"mini_batch": request["batch"], "beam_size": request["beam"], "normalize": request["alpha"]}
        without_scores = request["beam"] == 1 and not request["scores"]
        watch = Stopwatch()
        lines = (quick if without_scores else translator).translate(sources, n_best=request["scores"], **search)
        answer = watch.per(1)
        answer["scores"] = []
        if request["scores"]:
            best = {int(line.split(MARK, 1)[0]): line for line in reversed(lines)}  # the first of each sentence
            lines = [best[i].split(MARK, 1)[1].rsplit(MARK, 2)[0] for i in range(len(sources))]
            answer["scores"] = [float(best[i].rsplit(MARK, 1)[1]) for i in range(len(sources))]
        answer["outputs"] = [[numbers[piece] for piece in line.split(" ") if piece] for line in lines]
        return answer

    # Marian adds the end by itself.
    serve_translations(idle, lambda sentence: " ".join(pieces[i] for i in sentence[:-1]), translate)


if __name__ == "__main__":
    main()
