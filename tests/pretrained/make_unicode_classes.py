#!/usr/bin/env python3
"""Prints include/attend/text/unicode_classes.hpp: the classes of characters as the tokenizers library has them, found by asking it about
every code point. usage: make_unicode_classes.py | clang-format > include/attend/text/unicode_classes.hpp"""
import io
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Regex, normalizers, pre_tokenizers, __version__


def ranges(holds):
    out = []
    for c in range(0x110000):
        if 0xD800 <= c < 0xE000 or not holds(chr(c)):
            continue
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def of_class(pattern):
    split = pre_tokenizers.Split(Regex(pattern), "removed")
    return lambda c: not split.pre_tokenize_str(c)


def joins():
    """Whether a character is of one cluster with a letter before it: a rule that turns that letter alone into another takes the
    whole cluster along."""
    rules = tempfile.NamedTemporaryFile("w", suffix=".tsv")
    rules.write("61\t58\n")
    rules.flush()
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(["b c d e f"] * 10), model_writer=model, vocab_size=20,
                                             hard_vocab_limit=False, normalization_rule_tsv=rules.name, minloglevel=2)  # fmt: skip
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    normalizer = normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)
    return lambda c: normalizer.normalize_str("a" + c) == "X"


print(f"""#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

/// Classes of characters by Unicode, of a version as recent as 16. Made by tests/pretrained/make_unicode_classes.py from what
/// the tokenizers library {__version__} answers for every code point.

namespace attend::detail {{

/// Code points from `first` to `last`.
struct CharacterRange {{
  char32_t first, last;
}};
""")
for name, comment, found in (("letter_ranges", "Letters: the categories Lu, Ll, Lt, Lm and Lo.", ranges(of_class(r"\p{L}"))),
                             ("number_ranges", "Numbers: the categories Nd, Nl and No.", ranges(of_class(r"\p{N}"))),
                             ("joining", "What goes on a cluster: the properties Extend and SpacingMark, and U+200D.", ranges(joins()))):  # fmt: skip
    print(f"/// {comment}\ninline constexpr std::array<CharacterRange, {len(found)}> {name} = {{{{")
    print(", ".join(f"{{0x{a:X}, 0x{b:X}}}" for a, b in found) + "}};\n")
print("""template <std::size_t n>
constexpr bool is_within(const std::array<CharacterRange, n>& ranges, char32_t c) {
  const auto after =
      std::upper_bound(ranges.begin(), ranges.end(), c, [](char32_t value, const CharacterRange& range) { return value < range.first; });
  return after != ranges.begin() && c <= (after - 1)->last;
}

}  // namespace attend::detail

namespace attend::text {

/// Whether a character is a letter: of the general category L.
constexpr bool is_letter(char32_t c) {
  if (c < 0x80) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return detail::is_within(detail::letter_ranges, c);
}
/// Whether a character is a number, a digit or another: of the general category N.
constexpr bool is_number(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  return detail::is_within(detail::number_ranges, c);
}
/// Whether a character goes on the cluster of the one before it, as accents do (grapheme clusters: Unicode Standard Annex 29).
constexpr bool joins_cluster(char32_t c) { return c >= 0x300 && detail::is_within(detail::joining, c); }

}  // namespace attend::text""")
