// translate: train a translation model, translate with it, score translations. `translate --help` says it all.

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>

#include "attend/core/threads.hpp"
#include "commands.hpp"

namespace {

// Exit codes as usual on Unix: 0 all is well, 1 something failed, 2 the command line makes no sense.
constexpr int failed = 1, misused = 2;

std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n' || c == '\r') c = ' ';
  return text;
}

}  // namespace

int main(int argc, char** argv) {
#if defined(SIGPIPE)
  std::signal(SIGPIPE, SIG_DFL);  // `translate run | head` ends quietly
#endif
  CLI::App app{
      "Trains encoder-decoder Transformers on sentence pairs, translates with them and scores translations, all on this machine.",
      "translate"};
  app.require_subcommand(1);
  app.fallthrough();
  int threads = 0;
  app.add_option("--threads", threads, "Threads to compute with (default: ATTEND_THREADS, else all processors)")
      ->check(CLI::Range(1, 1024));
  app.parse_complete_callback([&] {
    if (threads > 0) attend::set_threads(threads);
  });
  translate::add_demo(app);
  translate::add_train(app);
  translate::add_run(app);
  translate::add_score(app);
  translate::add_bench(app);
  app.footer(
      "Examples:\n"
      "  translate demo                                       watch a model learn Spanish\n"
      "  translate train --pairs en-es.tsv --out model        train on your own pairs, a pair a line\n"
      "  translate run --model model < english.txt            translate, a line for a line\n"
      "  translate score --reference spanish.txt < output.txt BLEU of what came out");
  try {
    app.parse(argc, argv);
    return translate::exit_code;
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help
    std::fprintf(stderr, "translate: %s (translate --help lists all options)\n", one_line(e.what()).c_str());
    return misused;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "translate: %s\n", one_line(e.what()).c_str());
    return failed;
  }
}
