"""Prints the lines of transformers_beam_test.cpp: what beam search of `transformers` finds on a scripted model, case by case.

    python tests/decode/transformers_beam.py

Needs torch and transformers (the values were made by 2.11 and 5.23). The lines replace those in the test.
"""

import itertools

import torch
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

VOCABULARY, MASK = 8, (1 << 64) - 1


def logits(seed, tokens):
    """Of the token after these, the first of which says which sentence it is; the same in the test."""
    state = seed
    for token in tokens:
        state = (state * 6364136223846793005 + token + 1442695040888963407) & MASK
    row = []
    for v in range(VOCABULARY):
        h = (state + (v + 1) * 0x9E3779B97F4A7C15) & MASK
        h = ((h ^ (h >> 31)) * 0xBF58476D1CE4E5B9) & MASK
        h ^= h >> 29
        row.append((h % 4096) / 1024)
    return row


class Scripted(PreTrainedModel, GenerationMixin):
    config_class = PretrainedConfig
    main_input_name = "input_ids"

    def __init__(self, config, seed):
        super().__init__(config)
        self.seed = seed
        self.unused = torch.nn.Parameter(torch.zeros(1))

    def forward(self, input_ids=None, **_):
        last = torch.tensor([logits(self.seed, row) for row in input_ids.tolist()])
        return CausalLMOutput(logits=last[:, None, :].expand(-1, input_ids.shape[1], -1))


def main():
    common = dict(num_beams=3, length_penalty=1.0, early_stopping=False, max_new_tokens=6)
    cases = [
        dict(common, length_penalty=penalty, early_stopping=early, forced=forced)
        for penalty, early, forced in itertools.product((0.0, 1.0, -0.5, 2.0), (False, True, "never"), (False, True))
    ]
    cases += [dict(common, num_beams=2, max_new_tokens=9, no_repeat_ngram_size=n, forced=n == 1) for n in (1, 2)]
    cases += [dict(common, bad_words_ids=[[3], [4, 5], [6, 7, 6]], forced=forced) for forced in (False, True)]
    cases += [dict(common, min_new_tokens=4, num_beams=4, forced=forced) for forced in (False, True)]
    for seed, case in enumerate(cases):
        options = dict(case)
        forced = options.pop("forced")
        model = Scripted(PretrainedConfig(), seed)
        found = model.generate(
            torch.tensor([[1], [0]]), do_sample=False, use_cache=False, eos_token_id=2, pad_token_id=0, suppress_tokens=[0, 1],
            forced_eos_token_id=2 if forced else None, num_return_sequences=options["num_beams"], output_scores=True,
            return_dict_in_generate=True, **options)
        # What ends sooner than others is filled up with the end token, 2.
        texts = ["".join(map(str, row[1:])) for row in found.sequences.tolist()]
        texts = [text[: text.find("2") + 1] if "2" in text else text for text in texts]
        pairs = [f"{t} {s:.5f}" for t, s in zip(texts, found.sequences_scores.tolist())]
        half = len(pairs) // 2  # of each of the two sentences
        print(f'    "{" ".join(pairs[:half])} / {" ".join(pairs[half:])} /",')


if __name__ == "__main__":
    main()
