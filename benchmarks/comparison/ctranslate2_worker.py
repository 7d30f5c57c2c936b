"""CTranslate2's side of translation: MODEL PIECES(a JSON file) WORK(a folder to convert into) COMPUTE_TYPE WORKERS."""

import argparse
import json
import os
from pathlib import Path

from .worker import Answer, Stopwatch, in_a_child, resident, serve_translations


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("pieces", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("compute_type")
    parser.add_argument("workers", type=int, help="batches that it translates side by side")
    arguments = parser.parse_args()
    pieces = json.loads(arguments.pieces.read_text(encoding="utf-8"))
    if not (arguments.work / "model.bin").exists():

        def convert() -> None:
            from . import ctranslate2_model

            ctranslate2_model.convert(arguments.model, pieces, arguments.work)

        in_a_child(convert)

    from . import ctranslate2_model

    idle, threads = resident("VmRSS"), int(os.environ["OMP_NUM_THREADS"])
    translator = ctranslate2_model.load(arguments.work, arguments.compute_type, arguments.workers, threads)
    numbers = {piece: i for i, piece in enumerate(pieces)}

    def translate(sources: list[list[str]], request: Answer) -> Answer:
        suppressed = [[pieces[i]] for i in request["suppressed"]]
        watch = Stopwatch()
        found = translator.translate_batch(
            sources,
            max_batch_size=request["batch"],
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

    serve_translations(idle, lambda sentence: [pieces[i] for i in sentence], translate)


if __name__ == "__main__":
    main()
