// translate: train a translation model, translate with it, score translations. `translate --help` says it all.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/core/threads.hpp"
#include "attend/cpu/processor.hpp"
#include "attend/version.hpp"
#include "commands/commands.hpp"
#include "console.hpp"
#include "help.hpp"
#include "ranks.hpp"

namespace {

// Exit codes as usual on Unix: 0 all is well, 1 something failed, 2 the command line makes no sense.
constexpr int failed = 1, misused = 2;

std::string one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (char& c : text)
    if (c == '\n' || c == '\r') c = ' ';
  return text;
}

std::string command_names(const CLI::App& app);

/// `translate help [command]`, the same as `translate [command] --help`.
void add_help(CLI::App& app) {
  auto* command = app.add_subcommand("help", "Print this, or the help of a command");
  auto name = std::make_shared<std::string>();
  command->add_option("command", *name, "Of which command");
  command->callback([&app, name] {
    if (name->empty()) {
      std::cout << app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal);
      return;
    }
    const auto named = app.get_subcommands([&](const CLI::App* c) { return c->get_name() == *name; });
    if (named.empty()) throw CLI::ParseError(*name + " is unknown, expected " + command_names(app), misused);
    std::cout << named.front()->help(app.get_name());
  });
}

void add_commands(CLI::App& app) {
  translate::add_demo(app);
  translate::add_train(app);
  translate::add_prepare(app);
  translate::add_distill(app);
  translate::add_run(app);
  translate::add_rate(app);
  translate::add_shortlist(app);
  translate::add_explain(app);
  translate::add_average(app);
  translate::add_merge(app);
  translate::add_adapters(app);
  translate::add_quantize(app);
  translate::add_export(app);
  translate::add_score(app);
  translate::add_bench(app);
  add_help(app);
}

/// `demo, train, run or score`, without `help`.
std::string command_names(const CLI::App& app) {
  const auto commands = app.get_subcommands([](const CLI::App* c) { return c->get_name() != "help"; });
  std::string names;
  for (std::size_t i = 0; i < commands.size(); ++i)
    names += (i == 0 ? "" : i + 1 == commands.size() ? " or " : ", ") + commands[i]->get_name();
  return names;
}

/// Refuses several processes where they would not share the work.
void check_processes(const CLI::App& app) {
  for (const auto* command : app.get_subcommands()) {
    const std::string name = command->get_name();
    if (name != "train" && name != "run" && name != "rate" && name != "help") translate::check_one_process(name.c_str());
  }
}

/// The first of the words that nothing knows, a flag if there is one; empty if there is none.
std::string unknown_word(const std::vector<std::string>& words) {
  const auto flag = std::find_if(words.begin(), words.end(), [](const std::string& w) { return w.starts_with("-"); });
  if (flag != words.end()) return flag->substr(0, flag->find('='));
  return words.empty() ? "" : words.front();
}

int misuse(const CLI::App& app, const CLI::ParseError& error) {
  const auto chosen = app.get_subcommands();
  const std::string unknown = unknown_word(app.remaining(true));
  std::string what = one_line(error.what());
  // A mistyped flag means that the right one is missing, too: the message about the mistyped one says more.
  const auto is = [&](CLI::ExitCodes code) { return error.get_exit_code() == static_cast<int>(code); };
  const bool left_over = is(CLI::ExitCodes::RequiredError) || is(CLI::ExitCodes::ExtrasError);
  if (chosen.empty() && !unknown.empty()) what = unknown + " is unknown, expected " + command_names(app);
  else if (left_over && !unknown.empty()) what = unknown + " is unknown";
  else if (chosen.empty() && is(CLI::ExitCodes::RequiredError)) what = "say what to do: " + command_names(app);
  const std::string command = "translate " + (chosen.empty() ? "" : chosen.front()->get_name() + " ");
  std::fprintf(stderr, "translate: %s (%s--help says more)\n", what.c_str(), command.c_str());
  return misused;
}

/// What stands in a buffer may not have reached a disk that is full, or a pipe that is closed.
void flush_output() {
  std::cout.flush();
  if (!std::cout || std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    throw attend::IoError("standard output: cannot be written");
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words = translate::begin_program(argc, argv);
  CLI::App app{
      "Trains encoder-decoder Transformers on sentence pairs, translates with them and scores translations, all on this machine.",
      "translate"};
  app.formatter(std::make_shared<translate::HelpFormatter>());
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.allow_windows_style_options(false);  // `/word` is a path everywhere
  app.require_subcommand(1);
  app.fallthrough();
  app.set_version_flag(
      "--version",
      [] { return std::string("translate ") + attend::version + " (" + std::string(attend::processor().name) + ")"; },
      "Print the version of attend, and the instructions that it computes with (ATTEND_ISA names others), and exit");
  translate::command_line = words;
  int threads = 0;
  app.add_option("--threads", threads, "Threads to compute with (ATTEND_THREADS, else all processors)")
      ->check(CLI::Range(1, 1024));
  app.parse_complete_callback([&] {
    check_processes(app);
    if (threads > 0) attend::set_threads(threads);
    (void)attend::threads();  // so that an ATTEND_THREADS that cannot be had is told before work begins
  });
  add_commands(app);
  app.footer(
      "Examples:\n"
      "  translate demo                                         watch a model learn Spanish\n"
      "  translate train --pairs en-es.tsv --out model          train on your own pairs, a pair a line\n"
      "  translate run --model model < english.txt              translate, a line for a line\n"
      "  translate score --reference spanish.txt < output.txt   BLEU of what came out\n"
      "Each command has a --help of its own: translate COMMAND --help, or translate help COMMAND.");
  try {
    (void)attend::processor();  // so that an ATTEND_ISA that cannot be had is told before work begins
    try {
      std::reverse(words.begin(), words.end());  // as CLI11 takes them
      app.parse(std::move(words));
    } catch (const CLI::ParseError& e) {
      if (e.get_exit_code() != 0) return misuse(app, e);
      app.exit(e);  // --help, --version
    }
    flush_output();
    return translate::exit_code;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "translate: out of memory\n");
    return failed;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "translate: %s\n", one_line(e.what()).c_str());
    return failed;
  }
}
