#!/usr/bin/env python3
"""Writes small tokenizers of the families that `attend/pretrained/tokenizer.hpp` reads, and what the `transformers` library makes of
some hundred lines with them, for the tests beside this.

usage: make_tokenizers.py sentencepiece OUT_DIR [COUNT]    with transformers 4, whose tokenizers are SentencePiece's own (4.57.1 was used)
       make_tokenizers.py json OUT_DIR [COUNT]             with transformers 5, whose tokenizers are the tokenizers library's (5.24, 0.23.3)

Each folder has the tokenizer's files as the library saves them, and expected.json: `from` and `to`, the languages if there are any;
`forced`, the token that translations begin with after the model's begin token; for mBART of 25 languages `begin`, what they begin with
in its place; and for each line of lines.json beside the folders its `ids` with all marks and the `text` that they decode to without. With COUNT there
are that many lines more, drawn at random from all scripts, from words among oddities, and from bytes.
"""
import io
import json
import os
import pathlib
import random
import shutil
import sys
import unicodedata

import sentencepiece
import transformers

WORDS = (
    "the a my your this every small green old new quiet bright house river stone garden window letter holds sees leaves finds "
    "über größe straße façade niño garçon кошка дом река σπίτι נהר بيت नदी บ้าน 日本 東京 한국 물 don't it's 12 345 6"
).split()


def text(seed, count):
    """Lines of words that mean nothing together."""
    r = random.Random(seed)
    for _ in range(count):
        line = " ".join(r.choice(WORDS) for _ in range(r.randint(3, 9)))
        yield (line[0].upper() + line[1:] if r.random() < 0.5 else line) + r.choice([".", "!", "?", ", and so on.", ""])


ODD = [
    "", " ", "  ", "\t", "a", " a", "a ", "  a  b  ", "a\tb", "a\nb", "a\r\nb", "\u00a0a\u00a0b", "\u3000日本\u3000", "a\u2003b", "a\u200bb",
    "e\u0301a\u0308o\u0302", "\u0301", "a\u0301\u0302\u0303b", "ｆｕｌｌ ｗｉｄｔｈ １２３", "ﬁne ﬂow", "ⅣⅫ ① ½ ㎞ ™", "👍🏽 🇩🇪 👨\u200d👩\u200d👧 ok",
    "日本語の文章です。東京", "한국어 물 \u1112\u1161\u11ab", "بيت صغير، كبير", "נהר קטן", "नदी क्षि", "บ้านเล็ก", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "▁the▁house", "▁", "▁▁ a", "the▁ house", "\u2581\u2581", "don't it's we'll I'M they've HE'D 'tis", "12345 67,890.12 ٣٤٥ ⅷ ²³", "!!??..--//", "_under_score_",
    "a</s>b", "</s>", "the </s> house", "<s>a", "<pad>", "<unk>", "<mask>", "the <mask> house", "the  <mask>  house", "<mask><mask>", "< /s>", "</S>",
    "eng_Latn", "the eng_Latn house", "en_XX", "__en__ the", "<2en> the house", "the <2de>house", "<extra_id_0> the <extra_id_1>", "a<extra_id_99>b",
    "\u0000a".replace("\u0000", ""), "\u0001\u0002a\u007f", "a\u0085b", "\u1680a\u2028b\u2029c", "\ufeffa", "a\ufffdb", "\ue000\U0010ffff", "Ω Å K ſ ŉ ǆ", "ÀÁÂ",
    "\u202eabc\u202c", "\u00ad soft", "İstanbul ıI ẞß", "𝔘𝔫𝔦 𝟙𝟚", "the house .", "Is it ? Yes , it is ' so ' n't", "a 's b 're", "...", "x" * 120,
]  # fmt: skip


def write(path, value):
    path.write_text(json.dumps(value, ensure_ascii=True, separators=(",", ":")) + "\n")


def wild(count):
    """Lines of one script or its neighbours, of words with oddities between them, and of damaged bytes."""
    r = random.Random(5)
    letters = [c for c in map(chr, range(0x20, 0x110000)) if unicodedata.category(c) not in ("Cs", "Cn")]
    words = list(text(7, count))
    for i in range(count):
        if i % 5 < 3:
            near = r.randrange(len(letters)) if i % 5 else r.randrange(4000)  # most of those that people write come first
            draw = lambda: r.choice(letters[near : near + 80])
            yield " ".join("".join(draw() for _ in range(r.randint(1, 7))) for _ in range(r.randint(1, 8)))
        elif i % 5 == 3:
            yield r.choice(["", " "]).join(x for word in words[i].split() for x in (word, r.choice(ODD + [""] * 50)))
        else:
            line = bytearray(words[i].encode())
            for _ in range(r.randint(1, 6)):
                line[r.randrange(len(line))] = r.randrange(256)
            yield line.decode(errors=r.choice(["ignore", "replace"])).replace("\0", "")


def lines():
    return ODD + list(text(9, 100)) + list(wild(int(sys.argv[3]) if len(sys.argv) > 3 else 0))


def train(path, **options):
    """A model whose normalization has a few rules alone: the table of any that has a name takes a quarter of a megabyte."""
    rules = path.with_suffix(".tsv")
    pairs = [("\t", " "), ("\n", " "), ("\r", " "), ("\u00a0", " "), ("\u3000", " "), ("\u200b", ""), ("\ufb01", "fi"), ("e\u0301", "é"),
             ("a\u0308", "ä"), ("\u2122", "TM"), ("\u2167", "VIII"), ("\u1112\u1161\u11ab", "한"), ("\u0085", " ")]  # fmt: skip
    pairs += [(chr(0xFF01 + i), chr(0x21 + i)) for i in range(94)]
    code = lambda s: " ".join(f"{ord(c):X}" for c in s)
    rules.write_text("".join(f"{code(a)}\t{code(b)}\n" for a, b in pairs))
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=text(1, 3000), model_writer=model, character_coverage=1.0, hard_vocab_limit=False, num_threads=1,
        normalization_rule_tsv=str(rules), minloglevel=2, **options)  # fmt: skip
    rules.unlink()
    path.write_bytes(model.getvalue())


def expect(folder, tokenizer, source=None, target=None):
    if source:
        tokenizer.src_lang = source
    more = {}
    if isinstance(tokenizer, transformers.MBartTokenizer):
        # Its labels are `X </s> language`, whose last token the model moves to the front: the language stands where others have the
        # begin token. (`_build_translation_inputs` forces it a second time, after decoder_start_token_id.)
        tokenizer.tgt_lang = target
        forced, more["begin"] = -1, tokenizer(text_target="a")["input_ids"][-1]
    else:
        forced = -1 if target is None else tokenizer._build_translation_inputs(
            "a", return_tensors=None, src_lang=source, tgt_lang=target)["forced_bos_token_id"]  # fmt: skip
    cases = []
    for line in lines():
        ids = tokenizer(line)["input_ids"]
        cases.append({"ids": ids, "text": tokenizer.decode(ids, skip_special_tokens=True)})
    write(folder / "expected.json", {"from": source, "to": target, "forced": forced, **more, "size": len(tokenizer), "cases": cases})


def compact(path):
    write(path, json.loads(path.read_text()))


def with_sentencepiece(out):
    from transformers import AddedToken, M2M100Tokenizer, MBart50Tokenizer, MBartTokenizer, NllbTokenizer, NllbTokenizerFast, T5Tokenizer

    def make(name, cls, spm, source=None, target=None, training={}, vocabulary=False, **options):
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        train(folder / spm, **training)
        if vocabulary:
            sp = sentencepiece.SentencePieceProcessor(model_file=str(folder / spm))
            pieces = [sp.id_to_piece(i) for i in range(3, sp.get_piece_size()) if i % 17 != 5]
            write(folder / "vocab.json", {p: i for i, p in enumerate(["<s>", "<pad>", "</s>", "<unk>"] + pieces)})
            options["vocab_file"], options["spm_file"] = str(folder / "vocab.json"), str(folder / spm)
        else:
            options["vocab_file"] = str(folder / spm)
        if cls is NllbTokenizer:  # the numbers of the published models, which their added_tokens_decoder has
            codes = transformers.models.nllb.tokenization_nllb.FAIRSEQ_LANGUAGE_CODES
            first = sentencepiece.SentencePieceProcessor(model_file=str(folder / spm)).get_piece_size() + 1
            added = ["<s>", "<pad>", "</s>", "<unk>"]
            options["added_tokens_decoder"] = {
                i: AddedToken(c, special=True, normalized=False, lstrip=c == "<mask>")
                for i, c in [*enumerate(added), *enumerate(codes + ["<mask>"], first)]}  # fmt: skip
        tokenizer = cls(**options)
        expect(folder, tokenizer, source, target)
        with_config = out / "saved"
        tokenizer.save_pretrained(with_config)
        shutil.copy(with_config / "tokenizer_config.json", folder)
        config = json.loads((folder / "tokenizer_config.json").read_text())
        if len(config["added_tokens_decoder"]) > 60 and name != "t5":  # as folders from before that list
            for key in ("added_tokens_decoder", "additional_special_tokens", "extra_special_tokens"):
                config.pop(key, None)
        write(folder / "tokenizer_config.json", config)
        shutil.rmtree(with_config)

    bpe = {"model_type": "bpe", "vocab_size": 260}
    unigram = {"model_type": "unigram", "vocab_size": 260}
    marks = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
    make("nllb", NllbTokenizer, "sentencepiece.bpe.model", "eng_Latn", "fra_Latn", bpe)
    make("nllb_legacy", NllbTokenizer, "sentencepiece.bpe.model", "deu_Latn", "fra_Latn", bpe, legacy_behaviour=True)
    make("mbart", MBartTokenizer, "sentencepiece.bpe.model", "en_XX", "ro_RO", unigram)
    make("mbart50", MBart50Tokenizer, "sentencepiece.bpe.model", "en_XX", "uk_UA", unigram)
    codes = transformers.models.m2m_100.tokenization_m2m_100.FAIRSEQ_LANGUAGE_CODES["m2m100"]
    make("m2m100", M2M100Tokenizer, "sentencepiece.bpe.model", "en", "fr", bpe, vocabulary=True,
         additional_special_tokens=[f"__{code}__" for code in codes])  # as special_tokens_map.json of the published models has them
    make("t5", T5Tokenizer, "spiece.model", training=unigram | marks)
    fast = NllbTokenizerFast.from_pretrained(out / "nllb", from_slow=True)  # as the published models have it
    fast.save_pretrained(out / "nllb_json")
    compact(out / "nllb_json" / "tokenizer.json")  # which has all added tokens
    write(out / "nllb_json" / "tokenizer_config.json", {"tokenizer_class": "NllbTokenizer", "eos_token": "</s>", "pad_token": "<pad>"})
    for file in ("special_tokens_map.json", "sentencepiece.bpe.model"):
        (out / "nllb_json" / file).unlink(missing_ok=True)
    expect(out / "nllb_json", fast, "eng_Latn", "fra_Latn")
    make("madlad", T5Tokenizer, "spiece.model", extra_ids=0,
         training=unigram | marks | {"user_defined_symbols": ["<2en>", "<2de>"], "byte_fallback": True, "vocab_size": 500})  # fmt: skip


def with_json(out):
    """From the folders that `sentencepiece` made; and byte-level pieces of our own."""
    import tokenizers
    from transformers import AddedToken, BartTokenizer, MBart50Tokenizer, T5Tokenizer

    def save(name, tokenizer, source=None, target=None):
        folder = out / name
        tokenizer.save_pretrained(folder)
        tokenizer = type(tokenizer).from_pretrained(folder)
        expect(folder, tokenizer, source, target)
        for file in ("tokenizer.json", "tokenizer_config.json"):
            compact(folder / file)

    save("mbart50_json", MBart50Tokenizer.from_pretrained(out / "mbart50"), "en_XX", "uk_UA")
    save("t5_json", T5Tokenizer.from_pretrained(out / "t5"))
    byte_level = tokenizers.ByteLevelBPETokenizer()
    byte_level.train_from_iterator(text(1, 3000), vocab_size=500, min_frequency=2, show_progress=False,
                                   special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"])  # fmt: skip
    bart = out / "bart"
    bart.mkdir(exist_ok=True)
    byte_level.save_model(str(bart))
    compact(bart / "vocab.json")
    write(bart / "tokenizer_config.json", {"tokenizer_class": "BartTokenizer"})
    tokenizer = BartTokenizer.from_pretrained(bart, mask_token=AddedToken("<mask>", lstrip=True, special=True))  # as it was before 5
    expect(bart, tokenizer)
    save("bart_json", tokenizer)


def main():
    out = pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    write(out / "lines.json", lines())
    {"sentencepiece": with_sentencepiece, "json": with_json}[sys.argv[1]](out)


main()
