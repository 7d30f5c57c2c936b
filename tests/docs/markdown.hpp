#pragma once

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

/// What the tests of the documentation read of a page: its fenced blocks, its headings and its links.
///
/// A comment before a block says what the tests are to do with it, and is not seen by a reader of the page:
///
///     <!-- file: examples/tutorial/CMakeLists.txt -->   the block is that file, letter for letter
///     <!-- from: examples/classifier.cpp -->            the block stands in that file, letter for letter
///     <!-- cpp: statements that stand before the block's, so that it compiles; the comment may have many lines -->
///     <!-- cpp run: the same, and what it prints is the next block -->
///     <!-- cpp no: why it is not compiled -->
namespace docs {

inline std::string read(const std::filesystem::path& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error("cannot read " + path.string());
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

inline std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> list;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) list.push_back(line);
  return list;
}

inline bool starts_with(std::string_view text, std::string_view with) { return text.substr(0, with.size()) == with; }

inline std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \n"), last = text.find_last_not_of(" \n");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

/// A line of a page outside its blocks and comments.
struct Line {
  int number;
  std::string text;
};

struct Block {
  int line = 0;           ///< of its first line
  std::string language;   ///< what follows the three ticks
  std::string text;       ///< its lines, each with its end
  std::string task;       ///< of the comment before it: file, from, cpp, cpp run, cpp no; or empty
  std::string task_text;  ///< what follows the colon
  int task_line = 0;      ///< where that begins
  std::string output;     ///< of the block after it
};

struct Page {
  std::filesystem::path path;  ///< relative to the project
  std::vector<Block> blocks;
  std::vector<Line> prose;
};

inline Page read_page(const std::filesystem::path& root, const std::filesystem::path& path) {
  Page page{path, {}, {}};
  const auto all = lines(read(root / path));
  std::string task, task_text;
  int task_line = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const int number = static_cast<int>(i) + 1;
    if (starts_with(all[i], "```")) {
      Block block{.line = number + 1,
                  .language = all[i].substr(3),
                  .text = "",
                  .task = task,
                  .task_text = task_text,
                  .task_line = task_line,
                  .output = ""};
      task.clear(), task_text.clear();
      for (++i; i < all.size() && !starts_with(all[i], "```"); ++i) block.text += all[i] + '\n';
      if (i == all.size())
        throw std::runtime_error(path.string() + ": the block of line " + std::to_string(number) + " has no end");
      if (!page.blocks.empty()) page.blocks.back().output = block.text;
      page.blocks.push_back(std::move(block));
    } else if (starts_with(all[i], "<!--")) {
      std::string comment = all[i].substr(4);
      while (comment.find("-->") == std::string::npos && ++i < all.size()) comment += '\n' + all[i];
      comment = comment.substr(0, comment.find("-->"));
      const auto colon = comment.find(':');
      if (colon == std::string::npos) continue;
      task = trimmed(comment.substr(0, colon)), task_text = comment.substr(colon + 1), task_line = number;
    } else {
      if (!all[i].empty()) task.clear(), task_text.clear();
      page.prose.push_back({number, all[i]});
    }
  }
  return page;
}

/// The pages that a user reads: README.md and its like, and docs/.
inline std::vector<Page> read_pages(const std::filesystem::path& root) {
  std::vector<std::filesystem::path> paths{"README.md", "CONTRIBUTING.md", "CHANGELOG.md"};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "docs"))
    if (entry.path().extension() == ".md") paths.push_back(entry.path().lexically_relative(root));
  std::sort(paths.begin() + 3, paths.end());
  std::vector<Page> pages;
  for (const auto& path : paths) pages.push_back(read_page(root, path));
  return pages;
}

/// The anchor that a heading is found by: lower case, spaces as hyphens, without punctuation.
inline std::string anchor(const std::string& heading) {
  std::string name;
  for (const char c : trimmed(heading)) {
    if (c == ' ' || c == '-') name += '-';
    else if (std::isalnum(static_cast<unsigned char>(c)) || c == '_' || static_cast<unsigned char>(c) >= 0x80)
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return name;
}

inline std::set<std::string> anchors(const Page& page) {
  std::set<std::string> names;
  for (const auto& line : page.prose)
    if (starts_with(line.text, "#")) {
      const std::string name = anchor(line.text.substr(line.text.find_first_not_of('#')));
      if (!names.insert(name).second)
        for (int i = 1; !names.insert(name + '-' + std::to_string(i)).second; ++i) continue;
    }
  return names;
}

/// The targets of `[text](target)` in a line, outside `code`.
inline std::vector<std::string> links(const std::string& line) {
  std::string text;
  bool code = false;
  for (const char c : line) {
    if (c == '`') code = !code;
    else if (!code) text += c;
  }
  std::vector<std::string> list;
  for (std::size_t at = 0; (at = text.find("](", at)) != std::string::npos;) {
    at += 2;
    const auto end = text.find(')', at);
    if (end != std::string::npos) list.push_back(text.substr(at, end - at));
  }
  return list;
}

}  // namespace docs
