"""CTranslate2's side of translation: MODEL PIECES(a JSON file) WORK(a folder to convert into) float32|int8."""

import argparse
import json
import os
from pathlib import Path

from .worker import Answer, Stopwatch, resident, serve


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("pieces", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("precision", choices=("float32", "int8"))
    arguments = parser.parse_args()
    pieces = json.loads(arguments.pieces.read_text(encoding="utf-8"))
    if not (arguments.work / "model.bin").exists():
        # In a process of its own, so that its memory does not count as translation's.
        if (child := os.fork()) == 0:
            from . import ctranslate2_model

            ctranslate2_model.convert(arguments.model, pieces, arguments.work)
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            raise SystemExit("the model could not be converted")

    from . import ctranslate2_model

    idle = resident("VmRSS")
    translator = ctranslate2_model.load(arguments.work, arguments.precision, int(os.environ["OMP_NUM_THREADS"]))
    numbers = {piece: i for i, piece in enumerate(pieces)}
    sources: list[list[str]] = []

    def translate(request: Answer) -> Answer:
        suppressed = [[pieces[i]] for i in request["suppressed"]]
        found = []
        watch = Stopwatch()
        for first in range(0, len(sources), request["batch"] * request["every"]):
            found += translator.translate_batch(
                sources[first : first + request["batch"]],
                beam_size=request["beam"],
                length_penalty=request["alpha"],
                max_decoding_length=request["max_length"],
                min_decoding_length=0,
                suppress_sequences=suppressed,
                return_scores=request["scores"],
            )
        answer = watch.per(1)
        answer["outputs"] = [[numbers[piece] for piece in result.hypotheses[0]] for result in found]
        answer["scores"] = [result.scores[0] for result in found if result.scores]
        return answer

    def answer(request: Answer) -> Answer:
        if request["do"] == "sources":
            sources[:] = [[pieces[i] for i in sentence] for sentence in request["sources"]]
            return {}
        if request["do"] == "memory":
            return {"idle": idle, "peak": resident("VmHWM")}
        return translate(request)

    serve({}, answer)


if __name__ == "__main__":
    main()
