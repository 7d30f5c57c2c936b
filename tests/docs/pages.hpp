#pragma once

#include <regex>

#include "markdown.hpp"
#include "options.hpp"

/// The C++ of all pages as one program.
namespace docs {

/// Lines of a block, with where they come from for the compiler's messages.
struct Part {
  std::string text;
  int first = 0, next = 0;
  void add(const std::filesystem::path& page, int number, const std::string& line) {
    if (number != next) text += "#line " + std::to_string(number) + " \"" + page.string() + "\"\n";
    text += line + '\n';
    next = number + 1;
  }
};

/// What stands in a block at the top: includes; definitions of types and functions; statements, which become a function's.
struct Pieces {
  std::set<std::string> includes;
  Part definitions, statements;
  bool has_main = false;
};

inline Pieces take_apart(const std::filesystem::path& page, const Block& block) {
  static const std::regex function(R"(^[A-Za-z_][\w:<>,&* ]*[ &*>]+[a-z_]\w*\([^=]*\)[^=;]*\{$)");
  static const std::regex definition(R"(^(struct|class|enum|template|namespace|inline)\b.*)");
  static const std::regex control(R"(^(for|if|while|switch|else|return)\b.*)");
  Pieces pieces;
  bool within = false;
  const auto take = [&](int number, const std::string& line) {
    if (starts_with(line, "#include")) {
      pieces.includes.insert(line);
    } else if (within) {
      pieces.definitions.add(page, number, line);
      within = line.empty() || line[0] != '}';
    } else if (std::regex_match(line, definition) || (std::regex_match(line, function) && !std::regex_match(line, control))) {
      pieces.has_main = pieces.has_main || starts_with(line, "int main(");
      pieces.definitions.add(page, number, line);
      within = line.back() != ';' && line.find('}') == std::string::npos;
    } else if (line != "using namespace attend;") {
      pieces.statements.add(page, number, line);
    }
  };
  if (block.task == "cpp" || block.task == "cpp run") {
    int number = block.task_line;
    for (const auto& line : lines(block.task_text)) take(number++, starts_with(line, " ") ? line.substr(1) : line);
  }
  int number = block.line;
  for (const auto& line : lines(block.text)) take(number++, line);
  return pieces;
}

struct Run {
  std::string where, expected;
};

/// One program of all blocks of all pages, and of the tables of docs/options.md; a number tells it which block to run.
inline std::vector<Run> make_program(const std::filesystem::path& root, std::string& program) {
  std::set<std::string> includes{"#include <attend/attend.hpp>", "#include <cstdio>", "#include <cstdlib>",
                                 "#include <iostream>"};
  std::string code, calls;
  std::vector<Run> runs;
  int count = 0;
  for (const auto& page : read_pages(root))
    for (const auto& block : page.blocks) {
      if (block.language != "cpp" || block.task == "cpp no" || block.task == "file" || block.task == "from") continue;
      const auto pieces = take_apart(page.path, block);
      includes.insert(pieces.includes.begin(), pieces.includes.end());
      const std::string name = "block_" + std::to_string(++count);
      code += "namespace " + name + " {\nusing namespace attend;\n" + pieces.definitions.text + "void run() {\n" +
              pieces.statements.text + (pieces.has_main ? "main();\n" : "") + "}\n}\n";
      if (block.task != "cpp run") continue;
      calls += "if (which == " + std::to_string(runs.size()) + ") " + name + "::run();\n";
      runs.push_back({page.path.string() + ":" + std::to_string(block.line), block.output});
    }
  code += options_program(root, includes);
  for (const auto& include : includes) program += include + '\n';
  program += code + "int main(int, char** argv) {\nconst int which = std::atoi(argv[1]);\n" + calls + "}\n";
  return runs;
}

}  // namespace docs
