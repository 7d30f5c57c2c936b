#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "../examples/program.hpp"
#include "../temporary_folder.hpp"
#include "attend/core/random.hpp"

using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

/// Sentences of a few words, and the same words written backwards.
std::string write_pairs(const fs::path& folder, int pairs = 300) {
  const char* words[] = {"ana", "berta", "carla", "dora", "emma", "frida", "greta", "hanna"};
  const std::string path = (folder / "pairs.tsv").string();
  std::ofstream out(path);
  for (int i = 0; i < pairs; ++i) {
    const attend::Generator::Stream random{5, static_cast<std::uint64_t>(i)};
    std::string source, target;
    const auto length = 2 + random.below(0, 5);
    for (std::uint64_t k = 0; k < length; ++k) {
      std::string word = words[random.below(k + 1, 8)];
      source += (k ? " " : "") + word;
      std::reverse(word.begin(), word.end());
      target += (k ? " " : "") + word;
    }
    out << source << '\t' << target << '\n';
  }
  return path;
}

/// The words that start so many processes. Open MPI starts neither more of them than there are cores nor any as root without
/// being asked to, and 4.1 may wait for ever for a lock of PMIx's that a killed process held.
std::vector<std::string> ranks(int n) {
  for (const auto& [name, value] : {std::pair("OMPI_ALLOW_RUN_AS_ROOT", "1"), std::pair("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
                                    std::pair("OMPI_MCA_rmaps_base_oversubscribe", "1"), std::pair("PMIX_MCA_gds", "hash"),
                                    std::pair("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")})
    ::setenv(name, value, 1);
  return {ATTEND_MPIEXEC, ATTEND_MPIEXEC_NUMBER, std::to_string(n)};
}

/// The same, the first of them in that folder, the others where paths in it lead nowhere.
std::vector<std::string> apart(int n, const fs::path& folder) {
  auto words = ranks(n);
  words.insert(words.end(),
               {"sh", "-c", "if [ \"${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\" = 0 ]; then cd \"$0\"; else cd /; fi; exec \"$@\"",
                folder.string()});
  return words;
}

/// The command line of a small training into `out`, with `more` at its end.
std::vector<std::string> training(const std::string& pairs, const fs::path& out, const std::vector<std::string>& more) {
  std::vector<std::string> words{"train",      "--pairs",
                                 pairs,        "--out",
                                 out.string(), "--vocabulary",
                                 "60",         "--d-model",
                                 "32",         "--heads",
                                 "2",          "--layers",
                                 "1",          "--d-ff",
                                 "64",         "--dropout",
                                 "0.2",        "--schedule",
                                 "constant",   "--warmup",
                                 "5",          "--validation-size",
                                 "20",         "--tokens-per-batch",
                                 "256"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Outcome launch(const std::vector<std::string>& launcher, const std::vector<std::string>& words) {
  Program program(words, {}, launcher);
  program.close_input();
  std::string output = program.rest();
  const int code = program.wait();
  return {code, std::move(output), program.errors()};
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++n;
  return n;
}

/// The processes of the program that have this among their arguments, the first to start first.
std::vector<pid_t> processes(const std::string& argument) {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::ifstream arguments(entry.path() / "cmdline", std::ios::binary);
    const std::string line{std::istreambuf_iterator<char>(arguments), {}};
    if (line.find(argument) != std::string::npos && line.starts_with(ATTEND_TRANSLATE))
      found.push_back(static_cast<pid_t>(std::stol(entry.path().filename().string())));
  }
  REQUIRE(!found.empty());
  std::sort(found.begin(), found.end());
  return found;
}

bool same_file(const fs::path& a, const fs::path& b, const char* name) {
  return attend::io::read_file(a / name) == attend::io::read_file(b / name);
}

}  // namespace

TEST_CASE("train: one, two, four and eight processes write the model that one writes without MPI") {
  const TemporaryFolder folder;
  const auto pairs = write_pairs(folder.path());
  const std::vector<std::string> length{"--max-steps", "30", "--validate-every", "10"};
  auto alone = length;
  alone.insert(alone.end(), {"--parts", "8"});
  REQUIRE(run(training(pairs, folder.path() / "alone", alone)).code == 0);
  for (const int n : {1, 2, 4, 8}) {
    const auto out = folder.path() / std::to_string(n);
    const auto ended = launch(ranks(n), training(pairs, out, length));
    INFO(n << " ranks: " << ended.errors);
    REQUIRE(ended.code == 0);
    CHECK(count(ended.errors, "pairs to learn from") == 1);  // one of them speaks
    for (const char* file : {"best/model.safetensors", "last/model.safetensors", "last/config.json"})
      CHECK(same_file(out, folder.path() / "alone", file));
  }
}

TEST_CASE("train: two processes learn from a teacher, which only the first of them sees, what one learns") {
  const TemporaryFolder folder;
  const auto pairs = write_pairs(folder.path());
  REQUIRE(run(training(pairs, folder.path() / "teacher", {"--max-steps", "10"})).code == 0);
  const auto taught = [&](const fs::path& teacher, const fs::path& out, const std::vector<std::string>& more) {
    auto words = training(pairs, out, more);
    words.erase(words.begin() + 5, words.begin() + 7);  // its subwords are the teacher's
    words.insert(words.end(), {"--teacher", teacher.string(), "--max-steps", "6"});
    return words;
  };
  REQUIRE(run(taught(folder.path() / "teacher", folder.path() / "one", {"--parts", "2"})).code == 0);
  const auto ended = launch(apart(2, folder.path()), taught("teacher", "two", {"--parts", "2"}));
  INFO(ended.errors);
  REQUIRE(ended.code == 0);
  CHECK(count(ended.errors, "train: the teacher is teacher, ") == 1);
  for (const char* file : {"best/model.safetensors", "last/model.safetensors", "last/config.json"})
    CHECK(same_file(folder.path() / "one", folder.path() / "two", file));
  REQUIRE(run(training(pairs, folder.path() / "untaught", {"--max-steps", "6", "--parts", "2"})).code == 0);
  CHECK_FALSE(same_file(folder.path() / "one", folder.path() / "untaught", "last/model.safetensors"));
}

TEST_CASE("train: sums in any order, by any number of processes, give one model for each number") {
  const TemporaryFolder folder;
  const auto pairs = write_pairs(folder.path());
  const std::vector<std::string> more{"--max-steps", "12", "--fast-sums"};
  for (const char* name : {"a", "b"}) {
    const auto ended = launch(ranks(3), training(pairs, folder.path() / name, more));
    INFO(ended.errors);
    REQUIRE(ended.code == 0);
    CHECK(count(ended.errors, "sums of ranks took") == 1);
  }
  CHECK(same_file(folder.path() / "a", folder.path() / "b", "last/model.safetensors"));
  auto resumed = launch(ranks(3), {"train", "--resume", "--out", (folder.path() / "b").string(), "--max-steps", "15"});
  INFO(resumed.errors);
  CHECK(resumed.code == 0);
  auto one = more;
  one.insert(one.end(), {"--parts", "2"});  // of two there is one order
  REQUIRE(launch(ranks(2), training(pairs, folder.path() / "two", more)).code == 0);
  REQUIRE(run(training(pairs, folder.path() / "one", one)).code == 0);
  CHECK(same_file(folder.path() / "one", folder.path() / "two", "last/model.safetensors"));
}

TEST_CASE("train: what four processes began two go on with, and one without MPI") {
  const TemporaryFolder folder;
  const auto pairs = write_pairs(folder.path());
  REQUIRE(launch(ranks(2), training(pairs, folder.path() / "whole", {"--max-steps", "30", "--optimizer", "adam"})).code == 0);
  const auto out = folder.path() / "pieces";
  REQUIRE(launch(ranks(4), training(pairs, out, {"--max-steps", "10", "--optimizer", "adam"})).code == 0);
  REQUIRE(launch(ranks(2), {"train", "--resume", "--out", out.string(), "--max-steps", "20"}).code == 0);
  REQUIRE(run({"train", "--resume", "--out", out.string(), "--max-steps", "30", "--parts", "8"}).code == 0);
  CHECK(same_file(out, folder.path() / "whole", "last/model.safetensors"));
}

TEST_CASE("train: an error is said once, by whichever process has it, and ends all") {
  const TemporaryFolder folder;
  const auto missing = launch(ranks(4), training((folder.path() / "missing.tsv").string(), folder.path() / "out", {}));
  CHECK(missing.code != 0);
  CHECK(count(missing.errors, "missing.tsv") == 1);
  const auto pairs = write_pairs(folder.path());
  const auto three = launch(ranks(3), training(pairs, folder.path() / "out", {"--max-steps", "5"}));
  CHECK(three.code != 0);
  CHECK(count(three.errors, "there are 3 ranks, expected a power of two") >= 1);
}

TEST_CASE("train: a process that is killed ends all within ten seconds, and the last checkpoint is good") {
  const TemporaryFolder folder;
  const auto pairs = write_pairs(folder.path());
  const auto out = folder.path() / "out";
  Program program(training(pairs, out, {"--max-steps", "1000000", "--checkpoint-every", "5"}), {}, ranks(4));
  program.close_input();
  while (!fs::exists(out / "last" / "training.safetensors")) {
    INFO(program.errors());
    REQUIRE(program.runs());
    ::poll(nullptr, 0, 10);
  }
  const pid_t last = processes(out.string()).back();
  const auto begin = std::chrono::steady_clock::now();
  ::kill(last, SIGKILL);
  CHECK(program.wait() != 0);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
  CHECK(run({"run", "--model", out.string()}).code == 0);
  const auto resumed = launch(ranks(2), {"train", "--resume", "--out", out.string(), "--max-steps", "1"});
  INFO(resumed.errors);
  CHECK(resumed.code == 0);
}

TEST_CASE("train: SIGUSR1 to the launcher, and to processes too, ends all with a checkpoint") {
  const TemporaryFolder folder;
  const auto pairs = write_pairs(folder.path());
  for (const bool all : {false, true}) {
    const auto out = folder.path() / (all ? "all" : "launcher");
    Program program(training(pairs, out, {"--max-steps", "1000000"}), {}, ranks(2));
    program.close_input();
    while (!fs::exists(out / "train.json")) {  // is there from the first step on
      INFO(program.errors());
      REQUIRE(program.runs());
      ::poll(nullptr, 0, 10);
    }
    program.signal(SIGUSR1);
    if (all)  // as systemd does
      for (const pid_t rank : processes(out.string())) ::kill(rank, SIGUSR1);
    CHECK(program.wait() != 0);
    INFO(program.errors());
    CHECK(count(program.errors(), "train: stopped; go on with: translate train --resume") == 1);
    CHECK(fs::exists(out / "last" / "training.safetensors"));
    const auto resumed = launch(ranks(2), {"train", "--resume", "--out", out.string(), "--max-steps", "1"});
    CHECK(resumed.code == 0);
    CHECK(count(resumed.errors, "going on from step ") == 1);
  }
}

TEST_CASE("train: a first process that hangs is lost after the time it has, and another one says so") {
  const TemporaryFolder folder;
  const auto pairs = write_pairs(folder.path());
  const auto out = folder.path() / "out";
  ::setenv("ATTEND_RANK_SECONDS", "8", 1);
  Program program(training(pairs, out, {"--max-steps", "1000000"}), {}, ranks(4));
  ::unsetenv("ATTEND_RANK_SECONDS");
  program.close_input();
  while (!fs::exists(out / "train.json")) {
    INFO(program.errors());
    REQUIRE(program.runs());
    ::poll(nullptr, 0, 10);
  }
  const pid_t first = [&] {
    for (const pid_t rank : processes(out.string())) {
      std::ifstream file("/proc/" + std::to_string(rank) + "/environ", std::ios::binary);
      const std::string environment{std::istreambuf_iterator<char>(file), {}};
      for (const char* number : {"OMPI_COMM_WORLD_RANK=0", "PMI_RANK=0"})
        if (environment.find(std::string(1, '\0') + number + '\0') != std::string::npos) return rank;
    }
    return pid_t{-1};
  }();
  REQUIRE(first > 0);
  const auto begin = std::chrono::steady_clock::now();
  ::kill(first, SIGSTOP);
  CHECK(program.wait() != 0);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(15));
  ::kill(first, SIGKILL);  // launchers do that as well
  INFO(program.errors());
  CHECK(count(program.errors(), "rank 0 has been silent for 8 seconds and counts as lost") == 1);
}

TEST_CASE("train: what one process without MPI began goes on under a launcher, by several with other parts") {
  const TemporaryFolder folder;
  const auto pairs = write_pairs(folder.path());
  const auto out = folder.path() / "out", whole = folder.path() / "whole";
  REQUIRE(run(training(pairs, out, {"--max-steps", "10"})).code == 0);
  const auto one = launch(ranks(1), {"train", "--resume", "--out", out.string(), "--max-steps", "20"});
  INFO(one.errors);
  REQUIRE(one.code == 0);
  REQUIRE(run(training(pairs, whole, {"--max-steps", "20"})).code == 0);
  CHECK(same_file(out, whole, "last/model.safetensors"));
  const auto refused = launch(ranks(2), {"train", "--resume", "--out", out.string(), "--max-steps", "30"});
  CHECK(refused.code != 0);
  CHECK(count(refused.errors,
              "parts is 1, expected one or more for each of 2 ranks: give the run that is resumed more (--parts)") == 1);
  const auto two = launch(ranks(2), {"train", "--resume", "--out", out.string(), "--max-steps", "30", "--parts", "2"});
  INFO(two.errors);
  REQUIRE(two.code == 0);
  CHECK(count(two.errors, "parts were 1 and are 2 from here on") == 1);
  REQUIRE(run({"train", "--resume", "--out", whole.string(), "--max-steps", "30", "--parts", "2"}).code == 0);
  CHECK(same_file(out, whole, "last/model.safetensors"));
}

namespace {

/// A launcher's two processes, the second with a program and a command line of its own. Chosen by a shell: launchers have a way
/// to say so, `first : second`, at which that of Open MPI 5.0.7 crashes.
Outcome launch_two(const std::vector<std::string>& first, const std::string& program, const std::vector<std::string>& second) {
  const TemporaryFolder folder;
  const std::string script = (folder.path() / "second.sh").string();
  std::ofstream text(script);
  text << "exec '" << program << '\'';
  for (const std::string& word : second) text << " '" << word << '\'';
  text.close();
  auto launcher = ranks(2);
  launcher.insert(launcher.end(),
                  {"sh", "-c", "[ \"${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\" = 0 ] || exec sh \"$0\"; exec \"$@\"", script});
  const auto begin = std::chrono::steady_clock::now();
  auto ended = launch(launcher, first);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
  return ended;
}

/// A small model, trained for a moment.
std::string small_model(const fs::path& folder) {
  const std::string out = (folder / "model").string();
  REQUIRE(run(training(write_pairs(folder), out, {"--max-steps", "40"})).code == 0);
  return out;
}
/// Lines to translate, of which the last but one is not UTF-8.
std::string write_lines(const fs::path& folder, int lines) {
  const std::string path = (folder / "lines.txt").string();
  std::ofstream out(path);
  for (int i = 0; i < lines; ++i) out << (i + 2 == lines ? "\xC3(" : i % 3 == 0 ? "ana berta" : "carla dora emma") << '\n';
  return path;
}

}  // namespace

TEST_CASE("train: pairs in a file that only the first process sees") {
  const TemporaryFolder folder;
  const auto pairs = write_pairs(folder.path()), prepared = (folder.path() / "prepared").string();
  REQUIRE(run({"prepare", "--pairs", pairs, "--out", prepared, "--vocabulary", "60", "--validation-size", "20"}).code == 0);
  const std::vector<std::string> words{
      "train", "--prepared", "prepared", "--d-model",  "32",       "--heads",     "2",  "--layers",           "1",   "--d-ff",
      "64",    "--warmup",   "5",        "--schedule", "constant", "--max-steps", "10", "--tokens-per-batch", "256", "--out"};
  auto alone = words;
  alone[2] = prepared;
  alone.insert(alone.end(), {(folder.path() / "alone").string(), "--parts", "8"});
  REQUIRE(run(alone).code == 0);
  auto together = words;
  together.push_back("together");
  const auto ended = launch(apart(4, folder.path()), together);
  INFO(ended.errors);
  REQUIRE(ended.code == 0);
  CHECK(same_file(folder.path() / "alone", folder.path() / "together", "last/model.safetensors"));
}

TEST_CASE("run, rate: several processes write what one writes, and complain as it does") {
  const TemporaryFolder folder;
  const auto model = small_model(folder.path()), lines = write_lines(folder.path(), 60);
  const auto pairs = (folder.path() / "pairs.tsv").string(), out = (folder.path() / "out.txt").string();
  const std::vector<std::string> run_words{"run", "--model", model, "--in", lines, "--sample", "--seed", "3"};
  const std::vector<std::string> rate_words{"rate", "--model", model, "--in", pairs};
  const auto alone = run(run_words), rated = run(rate_words);
  REQUIRE(count(alone.errors, "line 59 has no translation") == 1);
  REQUIRE(rated.code == 0);
  for (const int n : {1, 2, 4}) {
    auto words = run_words;
    words.insert(words.end(), {"--out", out, "--buffer", "7", "--overwrite"});
    const auto ended = launch(ranks(n), words);
    INFO(n << " ranks: " << ended.errors);
    CHECK(ended.code != 0);  // of that line
    CHECK(count(ended.errors, "line 59 has no translation") == 1);
    CHECK(attend::io::read_file(out) == alone.output);
    words = rate_words;
    words.insert(words.end(), {"--buffer", "50"});
    CHECK(launch(ranks(n), words).output == rated.output);
  }
}

TEST_CASE("run: standard input goes to the first process, and an answer comes before the next line") {
  const TemporaryFolder folder;
  const auto model = small_model(folder.path());
  Program program({"run", "--model", model}, {}, ranks(2));
  program.write("ana berta\n");
  const std::string first = program.line();
  CHECK(first.size() > 1);
  program.write("ana berta\n");
  CHECK(program.line() == first);
  program.close_input();
  CHECK(program.wait() == 0);
}

TEST_CASE("run: a model that only the first process sees is enough") {
  const TemporaryFolder folder;
  const auto model = small_model(folder.path()), lines = write_lines(folder.path(), 20);
  const auto alone = run({"run", "--model", model, "--in", lines});
  const auto ended = launch(apart(3, folder.path()), {"run", "--model", "model", "--in", "lines.txt", "--buffer", "3"});
  INFO(ended.errors);
  CHECK(ended.output == alone.output);
}

TEST_CASE("run: what processes that were killed have done is not done again") {
  const TemporaryFolder folder;
  const auto model = small_model(folder.path()), lines = write_lines(folder.path(), 60);
  const auto out = folder.path() / "out.txt";
  const auto alone = run({"run", "--model", model, "--in", lines});
  {
    Program program({"run", "--model", model, "--out", out.string(), "--buffer", "5"}, {}, ranks(2));
    program.write("ana berta\n");
    while (!fs::exists(out.string() + ".part.json")) {
      REQUIRE(program.runs());
      ::poll(nullptr, 0, 5);
    }
    ::kill(processes(out.string()).front(), SIGKILL);
    CHECK(program.wait() != 0);
  }
  CHECK_FALSE(fs::exists(out));
  const auto resumed =
      launch(ranks(4), {"run", "--model", model, "--in", lines, "--out", out.string(), "--buffer", "5", "--resume"});
  INFO(resumed.errors);
  CHECK(attend::io::read_file(out) == alone.output);
}

TEST_CASE("translate: processes that were called otherwise, or are another program, say so before any work") {
  const TemporaryFolder folder;
  const std::string none = (folder.path() / "none").string(), other = (folder.path() / "translate").string();
  const auto refused = [](const Outcome& ended, const std::string& why) {
    INFO(ended.errors);
    CHECK(ended.code != 0);
    CHECK(ended.output.empty());
    CHECK(count(ended.errors, "translate: ranks differ from rank 0: rank 1: " + why) == 1);
  };
  const std::vector<std::string> words{"run", "--model", none, "--beam", "4"};
  refused(launch_two(words, ATTEND_TRANSLATE, {"run", "--model", none, "--beam", "1"}),
          "the command line has `--beam 1`, that of rank 0 `--beam 4`");
  refused(launch_two(words, ATTEND_TRANSLATE, {"run", "--model", none}),
          "the command line has nothing more, that of rank 0 `--beam`");
  refused(launch_two(words, ATTEND_TRANSLATE, {"rate", "--model", none}), "the command line has `rate`, that of rank 0 `run`");
  auto trained = training(none, none, {}), changed = trained;
  changed.insert(changed.end(), {"--seed", "7"});
  refused(launch_two(trained, ATTEND_TRANSLATE, changed), "the command line has `--seed`, that of rank 0 nothing more");
  fs::copy_file(ATTEND_TRANSLATE, other);
  std::ofstream(other, std::ios::binary | std::ios::app) << "more";
  refused(launch_two(words, other, words), "it runs another build of the program than rank 0");
  // Threads may differ: what there is to complain about then is the model.
  auto threads = words;
  threads.insert(threads.end(), {"--threads", "1"});
  const auto ended = launch_two(words, ATTEND_TRANSLATE, threads);
  CHECK(ended.code != 0);
  CHECK(count(ended.errors, "ranks differ") == 0);
  CHECK(count(ended.errors, "none") >= 1);
}

TEST_CASE("translate: commands that processes do not share are refused, and processes that this MPI does not see") {
  const TemporaryFolder folder;
  const auto model = small_model(folder.path()), out = (folder.path() / "out").string();
  for (const std::vector<std::string>& words : {std::vector<std::string>{"quantize", "--model", model, "--out", out},
                                                {"average", model, "--out", out},
                                                {"merge", model, "--out", out},
                                                {"prepare", "--pairs", "a", "--out", out}}) {
    const auto ended = launch(ranks(2), words);
    INFO(ended.errors);
    CHECK(ended.code != 0);
    CHECK(count(ended.errors, words.front() + ": it is for one process, and 2 were started") >= 1);
    CHECK_FALSE(fs::exists(out));
  }
  CHECK(launch(ranks(1), {"quantize", "--model", model, "--out", out}).code == 0);
  ::setenv("OMPI_COMM_WORLD_SIZE", "2", 1);  // what another MPI's launcher says
  const auto alone = run({"run", "--model", model}, "ana berta\n");
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
  CHECK(alone.code == 1);
  CHECK(alone.output.empty());
  CHECK(count(alone.errors, "2 processes were started together (OMPI_COMM_WORLD_SIZE), and ") == 1);
  CHECK(count(alone.errors, "which this program was built with, sees one: start it by that MPI's own mpirun") == 1);
}
