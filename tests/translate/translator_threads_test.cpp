#include <algorithm>
#include <atomic>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "attend/core/threads.hpp"
#include "attend/core/weights_version.hpp"
#include "attend/translate/translator.hpp"
#include "catch.hpp"
#include "decode/swapping.hpp"
#include "with_threads.hpp"

using namespace attend;
using decode::Translation;
using swapping::SpacedLetters;
using Strings = std::vector<std::string>;
using Lists = std::vector<std::vector<Translation>>;

namespace {

nn::Transformer<float> random_model(std::uint64_t number) {
  seed(number);
  nn::Transformer<float> model(nn::TransformerOptions{
      .vocabulary = 12, .d_model = 32, .heads = 2, .d_ff = 48, .layers = 2, .dropout = 0, .max_length = 24});
  nn::set_training(model, false);
  return model;
}

bool same(const Lists& a, const Lists& b) {
  const auto equal = [](const Translation& s, const Translation& t) {
    return s.text == t.text && s.tokens == t.tokens && s.score == t.score && s.log_probability == t.log_probability &&
           s.token_log_probabilities == t.token_log_probabilities && s.alignment == t.alignment;
  };
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!std::equal(a[i].begin(), a[i].end(), b[i].begin(), b[i].end(), equal)) return false;
  return true;
}

/// Letters of the source and those beside them, as a shortlist.
std::vector<token_t> near_source(std::span<const token_t> source) {
  std::vector<token_t> allowed;
  for (const token_t t : source)
    for (const token_t near : {t, t == 11 ? 4 : t + 1})
      if (near >= 4) allowed.push_back(near);
  return allowed;
}

}  // namespace

// For the thread sanitizer above all: every way of asking one translator, from several threads at once, while the workers of the
// loops are at work and the packed weights are thrown away again and again.
TEST_CASE("several threads that share translators get what one thread gets") {
  const WithThreads workers(3);
  using Shared = decode::Translator<SpacedLetters, float>;
  const auto first = random_model(1), second = random_model(2);
  decode::TranslatorOptions beam{.beam = 4, .n_best = 3, .batch_sentences = 2, .alignments = true}, listed{.beam = 3};
  listed.shortlist = near_source;
  const Shared searching(first, SpacedLetters{}, beam),
      drawing(first, SpacedLetters{}, {.n_best = 2, .sample = true, .top_k = 6, .seed = 3}),
      together(std::vector{first, second}, SpacedLetters{}, {.beam = 2}), shortlisted(second, SpacedLetters{}, listed),
      rounded(second, SpacedLetters{}, {.beam = 1, .precision = Precision::int8});
  const Strings sentences{"c a f e", "h g f e d", "a b", "d e a f", "b c", ""}, targets{"a c", "g h", "b a", "e", "", "a"},
      prefixes{"a", "", "b", "e d", "", ""};

  std::vector<std::function<Lists()>> jobs;
  for (const Shared* t : {&searching, &drawing, &together, &shortlisted, &rounded}) {
    jobs.push_back([=, &sentences] { return t->translate(sentences); });
    jobs.push_back([=, &sentences, &prefixes] { return t->translate(sentences, 3, prefixes); });
    jobs.push_back([=] { return Lists{t->alternatives("c a f e", "a", 3)}; });
    jobs.push_back([=, &sentences, &targets] { return Lists{t->score(sentences, targets)}; });
    jobs.push_back([=, &sentences, &targets] {
      Lists lists(1);
      for (auto& alignment : t->align(sentences, targets)) lists[0].push_back({.alignment = std::move(alignment)});
      return lists;
    });
  }
  std::vector<Lists> expected;
  for (const auto& job : jobs) expected.push_back(job());

  constexpr std::size_t callers = 4, rounds = 3;
  std::atomic<int> wrong{0}, failed{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> pool;
  for (std::size_t c = 0; c < callers; ++c)
    pool.emplace_back([&, c] {
      try {
        for (std::size_t k = 0; k < rounds * jobs.size(); ++k) {
          const std::size_t job = (k * (c * c + c + 1) + 5 * c) % jobs.size();  // each in an order of its own
          if (!same(jobs[job](), expected[job])) ++wrong;
        }
      } catch (...) {
        ++failed;
      }
    });
  std::thread forgetful([&] {
    while (!done.load()) weights_changed(), std::this_thread::yield();
  });
  for (auto& caller : pool) caller.join();
  done = true;
  forgetful.join();
  CHECK(wrong.load() == 0);
  CHECK(failed.load() == 0);
}

TEST_CASE("batches side by side give what one thread gives, and an error of one of them is the caller's") {
  const auto model = random_model(1);
  Strings sentences;
  for (int i = 0; i < 50; ++i) {
    std::string text;
    for (int k = 0; k <= i * i % 7; ++k) text += std::string(k ? " " : "") + static_cast<char>('a' + (i + k * k) % 8);
    sentences.push_back(text);
  }
  for (const decode::TranslatorOptions& options :
       {decode::TranslatorOptions{.beam = 3, .n_best = 2}, decode::TranslatorOptions{.beam = 1, .batch_sentences = 3},
        decode::TranslatorOptions{.n_best = 2, .sample = true, .seed = 4, .batch_sentences = 7}}) {
    const decode::Translator translate(model, SpacedLetters{}, options);
    const auto with = [&](int n) {
      const WithThreads workers(n);
      return translate.translate(sentences);
    };
    const auto expected = with(1);
    for (const int n : {2, 3, 8}) CHECK(same(with(n), expected));
  }
  const WithThreads workers(3);
  decode::TranslatorOptions listed{.beam = 2};
  listed.shortlist = [](std::span<const token_t> source) {
    if (source.size() == 6) throw Error("no list for six");
    return near_source(source);
  };
  const decode::Translator picky(model, SpacedLetters{}, listed);
  CHECK_THROWS_WITH(picky.translate(sentences), "no list for six");
}
