// export_marian MODEL OUT SOURCE HERE AGAIN BEAM STOP: writes a model folder as a Marian folder OUT, and translates the lines of
// SOURCE with the model itself (into HERE) and with what `load` makes of OUT (into AGAIN). For check_export.py.

#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "attend/load.hpp"
#include "attend/translate/translator.hpp"

namespace {

using namespace attend;

std::vector<std::string> lines_of(const char* path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

void translate(const TranslationModel<float>& m, const decode::TranslatorOptions& search, const std::vector<std::string>& lines,
               const char* path) {
  const decode::Translator translator(m.model, m.tokenizer, search);
  std::ofstream file(path);
  for (const auto& translation : translator(lines)) file << translation << '\n';
}

void run(char** arguments) {
  const std::filesystem::path from = arguments[1], to = arguments[2];
  const auto lines = lines_of(arguments[3]);
  const index_t beam = std::stoi(arguments[6]);
  const auto m = load(from);
  const bool marian = pretrained_family(from) == "marian";
  io::SaveMarianOptions options;
  if (marian) options.search = m.search;
  options.search.beam = beam;
  options.search.stop = std::string(arguments[7]) == "first" ? decode::Stop::first : decode::Stop::present_length;
  io::save_marian(to, m.model, m.tokenizer, options);

  const auto again = load(to);
  auto search = options.search;  // with the tokens as this model numbers them, and the limit that the file got
  search.max_length = again.search.max_length;
  search.force_end = again.search.force_end;
  translate(m, search, lines, arguments[4]);
  translate(again, again.search, lines, arguments[5]);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 8) {
    std::fprintf(stderr, "usage: %s MODEL OUT SOURCE HERE AGAIN BEAM first|present_length\n", arguments[0]);
    return 2;
  }
  try {
    run(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "export_marian: %s\n", error.what());
    return 1;
  }
  return 0;
}
