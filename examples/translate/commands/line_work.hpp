#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "any_translator.hpp"
#include "making.hpp"
#include "ranks.hpp"

/// Work that treats all lines alike: by one process or by several, from and to files or standard input and output.
namespace translate {

struct LineFlags {
  std::string in, out;
  std::size_t buffer = 0;  // 0: by the number of processes
  bool resume = false, overwrite = false;
  const char* advice = "--resume";        // what goes on with a part
  const char* for_one_process = nullptr;  // an option that was given and needs a single process

  /// `done` is what happens to the lines: "translated".
  void add_to(CLI::App& command, const std::string& done);
};

/// Lines that follow one another in the input.
struct Lines {
  struct Line {
    std::string text;
    std::string fault;  ///< what is wrong with it, such as `is not UTF-8`; empty for a good one
  };
  std::size_t before = 0;  ///< lines before these
  std::vector<Line> lines;
};

/// What came of them.
struct LineResults {
  std::string text;                   ///< for the output
  std::vector<std::string> messages;  ///< a line each, for the user
  bool faulty = false;                ///< a line has no result: the program ends with 1
  std::string error;                  ///< ends the work, once the text is written
};

using MakeWork = std::function<std::function<LineResults(const Lines&)>(const ModelsFlags&)>;

/// Gives all lines to `make_work()(lines)` in turn, some at a time, and writes what comes of them in their order. Lines that are
/// already there are taken together; a program that waits for its answer gets it at once. Several processes each make work of
/// their own, from models that they get from the first one if they cannot see its files.
///
/// An --out appears whole, at the end. Until then its lines stand in --out.part and where they end in --out.part.json, so that
/// whatever ends the program, --resume goes on after them. Throws ValueError if there is something already, or if what is there
/// was made from other lines, other models or with other options; IoError.
void work_on_lines(const CLI::App& command, const LineFlags& flags, const ModelsFlags& models, const MakeWork& make_work);
/// The same for a command of that name, whose results depend on what `made_with` says and on the lines.
void work_on_lines(const char* name, const std::function<Making()>& made_with, const LineFlags& flags, const ModelsFlags& models,
                   const MakeWork& make_work);

}  // namespace translate
