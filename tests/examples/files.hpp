#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "temporary_folder.hpp"

/// The files of one source of tests, in a folder that is made when the first of them is asked for.
class Files {
 public:
  /// The path of a file or folder of that name.
  [[nodiscard]] std::string operator()(const std::string& name) const { return (folder() / name).string(); }
  /// Writes the file, and returns its path.
  std::string write(const std::string& name, const std::string& contents) const {
    return folder().write(name, contents).string();
  }
  [[nodiscard]] std::string path() const { return folder().path().string(); }

 private:
  const TemporaryFolder& folder() const {
    if (!folder_) folder_.emplace();
    return *folder_;
  }

  mutable std::optional<TemporaryFolder> folder_;
};

struct Phrase {
  std::string source, target;
};

/// Lines of a file of pairs: each phrase of the first list before each of the second, and so on.
inline std::string sentences(const std::vector<std::vector<Phrase>>& parts) {
  std::vector<Phrase> all{{}};
  for (const auto& part : parts) {
    std::vector<Phrase> longer;
    for (const Phrase& begun : all)
      for (const Phrase& next : part) {
        const char* const between = begun.source.empty() ? "" : " ";
        longer.push_back({begun.source + between + next.source, begun.target + between + next.target});
      }
    all = std::move(longer);
  }
  std::string lines;
  for (const Phrase& sentence : all) lines += sentence.source + ".\t" + sentence.target + ".\n";
  return lines;
}

/// 24 pairs of few words.
inline std::string few_words() {
  return sentences(
      {{{"I sees", "yo ve"}, {"Ana sees", "Ana ve"}, {"we sees", "nosotros ve"}, {"she sees", "ella ve"}},
       {{"tea", "te"}, {"bread", "pan"}, {"books", "libros"}, {"a cat", "un gato"}, {"a house", "una casa"}, {"water", "agua"}}});
}
