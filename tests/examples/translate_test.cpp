// The program itself: exit codes, what it says, and that it loses nobody's work.

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "attend/io/file.hpp"
#include "attend/io/safetensors.hpp"
#include "attend/train/pair_file.hpp"
#include "catch.hpp"
#include "files.hpp"
#include "sanitized.hpp"
#include "words.hpp"

namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

const Files files;

/// 72 pairs in words that are easy to learn.
std::string pairs() {
  return files.write("pairs.tsv", sentences({{{"I", "yo"}, {"Ana", "Ana"}, {"we", "nosotros"}, {"she", "ella"}},
                                             {{"see", "vemos"}, {"want", "queremos"}, {"have", "tenemos"}},
                                             {{"tea", "t\u00e9"},
                                              {"bread", "pan"},
                                              {"books", "libros"},
                                              {"a cat", "un gato"},
                                              {"a house", "una casa"},
                                              {"water", "agua"}}}));
}

/// The command line of a training that takes a moment.
Words training(const std::string& out, const Words& more = {}) {
  Words words{"train",
              "--pairs",
              pairs(),
              "--out",
              out,
              "--d-model",
              "16",
              "--heads",
              "2",
              "--layers",
              "1",
              "--vocabulary",
              "60",
              "--tokens-per-batch",
              "120",
              "--validation-size",
              "6",
              "--epochs",
              "0",
              "--patience",
              "0",
              "--validate-every",
              "7",
              "--warmup",
              "10",
              "--optimizer",
              "adam",
              "--schedule",
              "inverse_sqrt",
              "--learning-rate",
              "0.003"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// The command line without an option and its value.
Words without(const std::string& option, Words words) {
  const auto at = std::find(words.begin(), words.end(), option);
  words.erase(at, at + 2);
  return words;
}

/// A model that was trained once for all tests.
const std::string& model() {
  static const std::string folder = [] {
    const auto trained = run(training(files("model"), {"--max-steps", "42"}));
    if (trained.code != 0) throw std::runtime_error(trained.errors);
    return files("model");
  }();
  return folder;
}

std::string bytes(const std::string& run, const std::string& name) { return attend::io::read_file(fs::path(run) / name); }

/// One line on standard error that has this in it, nothing on standard output.

/// As fails, with nothing on standard output.
void fails_silently(const Words& words, const std::string& message, int code = 1, const std::string& input = "") {
  CAPTURE(words);
  CHECK(fails(words, message, code, input).output.empty());
}

}  // namespace

TEST_CASE("translate: help ends with 0, a command line that makes no sense with 2", "[translate]") {
  for (const char* command : {"demo", "train", "run", "rate", "shortlist", "average", "score", "bench"}) {
    const auto help = run({command, "--help"});
    CHECK(help.code == 0);
    CHECK(help.errors.empty());
    CHECK_THAT(help.output, ContainsSubstring("Usage: translate " + std::string(command)) ||
                                ContainsSubstring("\ntranslate " + std::string(command) + " [OPTIONS]"));
  }
  CHECK_THAT(run({"--help"}).output, ContainsSubstring("Examples:"));
  CHECK(run({"help"}).output == run({"--help"}).output);
  for (const char* command : {"train", "run", "help"}) {
    const auto help = run({"help", command});
    CHECK(help.code == 0);
    CHECK(help.errors.empty());
    CHECK(help.output == run({command, "--help"}).output);
  }
  fails_silently({"help", "translte"}, "translate: translte is unknown, expected demo, train, prepare, distill, run, ", 2);
  fails_silently({}, "say what to do: demo, train, prepare, distill, run, ", 2);
  fails_silently({"translte"}, "translte is unknown, expected demo, train, prepare, distill, run, ", 2);
  fails_silently({"run"}, "--model is required (translate run --help says more)", 2);
  fails_silently({"run", "--modle", "m"}, "translate: --modle is unknown (translate run --help says more)", 2);
  fails_silently({"run", "--modle=m"}, "translate: --modle is unknown (translate run --help says more)", 2);
  fails_silently({"run", "--model", "m", "--baem", "2"}, "translate: --baem is unknown (translate run --help says more)", 2);
  fails_silently({"score", "test.es"}, "translate: test.es is unknown (translate score --help says more)", 2);
  fails_silently({"run", "--model", "m", "--beam", "0"}, "--beam: Value 0, expected 1 to 1000", 2);
  fails_silently({"run", "--model", "m", "--top-k", "5"}, "--top-k requires --sample", 2);
  fails_silently({"train", "--pairs", "x", "--source", "y", "--target", "z", "--out", "o"}, " excludes --", 2);
}

TEST_CASE("translate train: a network of other parts is trained, goes on and translates", "[translate]") {
  const std::string folder = files("modern");
  const auto first = run(
      training(folder, {"--max-steps", "7", "--norm", "pre", "--norm-kind", "rms", "--gated", "--activation", "silu",
                        "--kv-heads", "1", "--positions", "rotary", "--rotary-fraction", "0.5", "--no-bias", "--no-head-bias"}));
  REQUIRE(first.code == 0);
  CHECK_THAT(first.errors, ContainsSubstring("pre-norm, rms norms, gated silu, positions rotary, no biases"));
  REQUIRE(run({"train", "--resume", "--out", folder, "--max-steps", "9"}).code == 0);
  const auto weights = attend::io::SafetensorsFile::open(fs::path(folder) / "last" / "model.safetensors");
  for (const auto& t : weights.tensors()) CHECK_THAT(t.name, !ContainsSubstring("bias"));
  CHECK(weights.read<float>("encoder.layers.0.self_attn.k_proj.weight").size() == 16 * 8);
  const auto translated = run({"run", "--model", folder}, "I see tea.\nwe want bread.\n");
  CHECK(translated.code == 0);
  CHECK(std::count(translated.output.begin(), translated.output.end(), '\n') == 2);

  const std::string t5 = files("t5");
  REQUIRE(run(training(t5, {"--max-steps", "7", "--norm-kind", "rms", "--positions", "relative", "--position-buckets", "8",
                            "--d-k", "12", "--attention-scale", "1", "--no-scale-embedding", "--scale-head", "--norm-embedding"}))
              .code == 0);
  CHECK(run({"run", "--model", t5}, "I see tea.\n").code == 0);
}

TEST_CASE("translate: what cannot be done ends with 1 and one line that names it", "[translate]") {
  const std::string nowhere = files("nowhere"), reference = files.write("reference.txt", "uno\ndos\n");
  fails_silently({"run", "--model", nowhere}, nowhere);
  fails_silently({"run", "--model", reference}, reference);
  fails_silently({"run", "--model", model(), "--n-best", "9"}, "n_best is 9, expected 1 to beam, 4");
  fails_silently({"train", "--pairs", nowhere, "--out", files("new")}, "No such file");
  fails_silently({"train", "--pairs", reference, "--out", files("new")}, "a tab in none of them");
  fails_silently({"train", "--pairs", pairs(), "--out", reference}, "is a file, expected a folder");
  fails_silently({"train", "--resume", "--out", nowhere}, "there is no checkpoint in " + nowhere);
  fails_silently({"score", "--reference", reference}, "standard input has 1 lines, " + reference + " has 2", 1, "uno\n");
  fails_silently({"score", "--reference", reference}, "standard input: line 2 is not UTF-8", 1, "uno\n\xff\n");
  fails_silently({"demo", "--out", model()}, "is not empty");
  set_variable("ATTEND_THREADS", "many");
  fails_silently({"score", "--reference", reference}, "ATTEND_THREADS is 'many', expected a number from 1 to 1024", 1,
                 "uno\ndos\n");
  fails_silently({"run", "--model", model(), "--out", files("many.txt")}, "ATTEND_THREADS is 'many'", 1, "hello\n");
  CHECK_FALSE(fs::exists(files("many.txt")));
  CHECK(run({"run", "--model", model(), "--threads", "2"}, "hello\n").code == 0);
  set_variable("ATTEND_THREADS", "");
  const auto elsewhere = run({"run", "--model", model(), "--precision", "tf32"});
  CHECK(elsewhere.errors == "translate: --precision tf32 is for a GPU: add --device cuda\n");
  CHECK_FALSE(fs::exists(files("new")));
  CHECK_FALSE(fs::exists(nowhere));
}

#if !defined(_WIN32)
TEST_CASE("translate run: a model that does not fit into memory is refused before it is read", "[translate]") {
  if (sanitized || sizeof(std::size_t) < 8) return;  // programs of 32 bits open no file of that size
  const std::string folder = files("large");
  fs::copy(model() + "/best", folder);
  // Tensors of half a billion numbers, the first of more; all but the header is a hole in the file.
  const auto write_model = [&](const std::string& type, std::size_t bytes, const std::vector<std::string>& names) {
    std::string header;
    std::size_t end = 0;
    for (const auto& name : names) {
      const std::size_t rows = end == 0 ? 60'000 : 50'000, begin = std::exchange(end, end + rows * 10'000 * bytes);
      header += (begin == 0 ? "{\"" : ",\"") + name + R"(":{"dtype":")" + type + R"(","shape":[)" + std::to_string(rows) +
                R"(,10000],"data_offsets":[)" + std::to_string(begin) + "," + std::to_string(end) + "]}";
    }
    header += "}";
    std::string size(8, '\0');
    for (std::size_t i = 0; i < 2; ++i) size[i] = static_cast<char>(header.size() >> (8 * i));
    attend::io::write_file_atomically(fs::path(folder) / "model.safetensors", size + header);
    fs::resize_file(fs::path(folder) / "model.safetensors", size.size() + header.size() + end);
  };
  write_model("F32", 4, {"table", "a", "b"});
  const auto run_within = [&](const std::vector<std::string>& arguments) {
    Program program(arguments, {}, {"/bin/sh", "-c", "ulimit -v 1500000; exec \"$@\"", "sh"});
    program.close_input();
    CHECK(program.rest().empty());
    CHECK(program.wait() == 1);
    return program.errors();
  };
  const std::string errors = run_within({"run", "--model", folder, "--out", files("large.txt")});
  CHECK(errors.starts_with("translate: the model of " + folder + " takes more than 4 GB of memory, of which "));
  CHECK(errors.ends_with(" are free; with --precision int8 it takes a quarter of what it does in float32\n"));
  CHECK_FALSE(fs::exists(files("large.txt")));
  CHECK_THAT(run_within({"run", "--model", folder, "--precision", "int8"}), !ContainsSubstring("GB of memory"));
  const std::vector<std::string> train{"train", "--init", folder, "--pairs", pairs(), "--out", files("large_run")};
  const auto with = [&](std::initializer_list<std::string> more) {
    auto words = train;
    words.insert(words.end(), more);
    return words;
  };
  const auto refused = [&](const std::vector<std::string>& words, const std::string& gigabytes) {
    const std::string refusal = run_within(words);
    CHECK(refusal.starts_with("translate: training the model of " + folder + " takes more than " + gigabytes +
                              " GB of memory, of which "));
    CHECK(refusal.ends_with(" are free; with --adapter-rank only small matrices beside it are trained\n"));
    CHECK_FALSE(fs::exists(files("large_run")));
  };
  // Weights and gradients of 4 GB each, Adam's two moments, a moving average.
  refused(train, "16");
  refused(with({"--average-decay", "0.99"}), "20");
  refused(with({"--optimizer", "sgd"}), "12");
  refused(with({"--optimizer", "sgd", "--momentum", "0"}), "8");
  // What leaves the weights as they are takes no gradients of them.
  CHECK_THAT(run_within(with({"--adapter-rank", "2"})), !ContainsSubstring("GB of memory"));
  CHECK_THAT(run_within(with({"--freeze", "encoder"})), !ContainsSubstring("GB of memory"));
  const std::string adapted = files("large_adapted");
  CHECK(run({"train", "--init", model(), "--adapter-rank", "2", "--pairs", pairs(), "--max-steps", "1", "--out", adapted}).code ==
        0);
  const std::string config = bytes(folder, "config.json");
  attend::io::write_file_atomically(fs::path(folder) / "config.json", bytes(adapted, "last/config.json"));
  CHECK_THAT(run_within(train), !ContainsSubstring("GB of memory"));
  attend::io::write_file_atomically(fs::path(folder) / "config.json", config);
  // The same in 8-bit integers, and as tables that a file holds several times.
  write_model("I8", 1, {"table", "a", "b"});
  CHECK_THAT(run_within({"run", "--model", folder}), !ContainsSubstring("GB of memory"));
  write_model("F32", 4, {"table", "decoder.embed_tokens.weight", "encoder.embed_tokens.weight", "lm_head.weight"});
  CHECK_THAT(run_within({"run", "--model", folder}), !ContainsSubstring("GB of memory"));
}
#endif

TEST_CASE("translate run: a file that is missing or damaged is named", "[translate]") {
  const std::string folder = files("damaged");
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.model"}) {
    const std::string whole = bytes(model() + "/best", name);
    for (const std::size_t length : {std::size_t{0}, std::size_t{5}, whole.size() / 2, whole.size() - 2}) {
      fs::remove_all(folder);
      fs::copy(model() + "/best", folder);
      attend::io::write_file_atomically(fs::path(folder) / name, whole.substr(0, length));
      fails_silently({"run", "--model", folder}, name, 1, "hello\n");
    }
    fs::remove(fs::path(folder) / name);
    fails_silently({"run", "--model", folder}, name[0] == 'm' ? "is no model" : name, 1, "hello\n");
  }
}

TEST_CASE("translate run: a line for a line, each at once", "[translate]") {
  Program program({"run", "--model", model(), "--beam", "2"});
  program.write("\xEF\xBB\xBFI see tea.\r\n");
  const std::string first = program.line();
  CHECK(first.size() > 1);
  program.write("\n");
  CHECK(program.line() == "\n");
  program.write("I see tea.\nwe wa");  // half a line keeps nobody waiting
  CHECK(program.line() == first);
  program.write("nt a cat.\n");
  CHECK(program.line().back() == '\n');
  program.write("I see tea.");  // no end
  program.close_input();
  CHECK(program.rest() == first);
  CHECK(program.wait() == 0);
  CHECK(program.errors().empty());
}

TEST_CASE("translate run: a line at fault costs no other its translation", "[translate]") {
  std::string lines;
  for (int i = 0; i < 20; ++i) lines += "Ana wants bread.\n";
  std::string long_line = "I";
  for (int i = 0; i < 400; ++i) long_line += " see";
  const std::string good = run({"run", "--model", model()}, "Ana wants bread.\n").output;
  std::string expected;
  for (int i = 0; i < 20; ++i) expected += good;
  expected += "\n" + good;
  for (const auto& [line, message] : {std::pair<std::string, std::string>{"\xC3(", "line 21 has no translation: it is not UTF-8"},
                                      {long_line, "line 21 has no translation: Translator: sentence 21 has "},
                                      {std::string((1 << 20) + 70'000, 'a'), "line 21 has no translation: it has more than "}}) {
    const std::string input = files.write("faults.txt", lines + line + "\nAna wants bread.");
    const auto outcome = run_on_file({"run", "--model", model(), "--buffer", "16"}, input);
    CHECK(outcome.code == 1);
    CHECK(outcome.output == expected);
    CHECK(outcome.complaints() == 1);
    CHECK_THAT(outcome.errors, ContainsSubstring(message));
  }
  const auto last = run({"run", "--model", model()}, "Ana wants bread.\n\xff");
  CHECK(last.code == 1);
  CHECK(last.output == good + "\n");
}

TEST_CASE("translate run: from file to file, which appears as a whole, and on from where a run was killed", "[translate]") {
  const std::string lines = "Ana wants bread.\nI see tea.\n\xC3(\nwe want a cat.\n";
  const std::string input = files.write("in.txt", lines), output = files("out.txt");
  const auto plain = run_on_file({"run", "--model", model()}, input);
  const auto remove = [&] {
    for (const char* end : {"", ".part", ".part.json"}) fs::remove(output + end);
  };
  remove();
  const Words words{"run", "--model", model(), "--in", input, "--out", output};
  const auto first = run(words);
  CHECK(first.code == 1);  // of the line that is not UTF-8
  CHECK(first.output.empty());
  CHECK(bytes(files.path(), "out.txt") == plain.output);
  CHECK_FALSE(fs::exists(output + ".part"));
  CHECK_FALSE(fs::exists(output + ".part.json"));

  const auto again = run(words);
  CHECK(again.code == 1);
  CHECK_THAT(again.errors, ContainsSubstring("out.txt is there already"));
  CHECK(run(with(words, {"--resume"})).code == 0);  // there is nothing left to do
  CHECK(run(with(words, {"--overwrite", "--resume"})).code == 1);
  CHECK(run(with(words, {"--overwrite"})).code == 1);
  CHECK(bytes(files.path(), "out.txt") == plain.output);

  remove();
  {
    Program killed({"run", "--model", model(), "--out", output});
    killed.write("Ana wants bread.\n");
    while (!fs::exists(output + ".part.json")) REQUIRE(killed.runs());
    CHECK_THAT(run({"run", "--model", model(), "--in", input, "--out", output, "--overwrite"}).errors,
               ContainsSubstring("is being written by another process"));
    killed.signal(SIGKILL);
    killed.wait();
  }
  const std::string done = bytes(files.path(), "out.txt.part");
  REQUIRE(done == plain.output.substr(0, plain.output.find('\n') + 1));
  const std::string marked = std::string(done.size() - 1, 'x') + "\n";
  attend::io::write_file_atomically(output + ".part", marked + "half a li");

  CHECK_THAT(run(words).errors, ContainsSubstring("out.txt.part is there already"));
  CHECK_THAT(run(with(words, {"--resume", "--beam", "2"})).errors,
             ContainsSubstring("was begun with --beam not given, now it is 2"));
  CHECK_THAT(
      run({"run", "--model", model(), "--in", files.write("others.txt", "I see tea.\n"), "--out", output, "--resume"}).errors,
      ContainsSubstring("the first 1 lines of"));
  CHECK_THAT(run({"run", "--model", model() + "/last", "--in", input, "--out", output, "--resume"}).errors,
             ContainsSubstring("the files of --model"));
  const auto resumed = run(with(words, {"--resume"}));
  CHECK(resumed.code == 1);
  CHECK(bytes(files.path(), "out.txt") == marked + plain.output.substr(done.size()));  // what was there was not made anew

  // What a run leaves behind that ends just before it would take its note away.
  attend::io::write_file_atomically(output + ".part.json", "{}");
  CHECK(run(with(words, {"--resume"})).code == 0);
  remove();
  attend::io::write_file_atomically(output + ".part.json", "{}");
  CHECK_THAT(run(with(words, {"--resume"})).errors, ContainsSubstring("out.txt.part.json: has no lines"));
  remove();
  attend::io::write_file_atomically(output + ".part.json", "{}");
  CHECK(run(words).code == 1);  // of the line that is not UTF-8
  CHECK(bytes(files.path(), "out.txt") == plain.output);
  CHECK_FALSE(fs::exists(output + ".part.json"));
  CHECK_THAT(run({"run", "--model", model(), "--in", input, "--out", files.path()}).errors,
             ContainsSubstring("is no regular file"));
  remove();

  attend::io::write_file_atomically(output + ".part", lines);
  CHECK_THAT(run(with(words, {"--resume"})).errors, ContainsSubstring("which says how far it goes, is not"));
  CHECK_THAT(run({"run", "--model", model(), "--in", output + ".part", "--out", output, "--overwrite"}).errors,
             ContainsSubstring("where --out would be written"));
  CHECK(bytes(files.path(), "out.txt.part") == lines);
  remove();
  CHECK(run(with(words, {"--n-best", "5", "--beam", "2"})).code == 1);
  CHECK_FALSE(fs::exists(output + ".part"));  // nothing came of it
#if !defined(_WIN32)
  fs::create_symlink(files("led_to.txt"), output);
  CHECK(run(words).code == 1);
  CHECK(bytes(files.path(), "led_to.txt") == plain.output);
  CHECK(fs::is_symlink(output));
  remove();
#endif
}

TEST_CASE("translate: names of files may have any characters", "[translate]") {
  const fs::path folder = fs::path(files.path()) / u8"modèle модель 模型 𝔪", out = fs::path(files.path()) / u8"sorties é 𝔬.txt";
  fs::copy(model() + "/best", folder);
  const auto plain = run({"run", "--model", model() + "/best"}, "I see tea.\n");
  REQUIRE(plain.code == 0);
  CHECK(run({"run", "--model", folder.string(), "--out", out.string()}, "I see tea.\n").errors.empty());
  CHECK(attend::io::read_file(out) == plain.output);
  const std::string missing = (fs::path(files.path()) / u8"rién 𝔯").string();
  CHECK_THAT(run({"run", "--model", missing}).errors, ContainsSubstring(missing + " is no model"));
}

TEST_CASE("translate run: n-best lists and sampling", "[translate]") {
  const auto lists = run({"run", "--model", model(), "--beam", "8", "--n-best", "3"}, "I see tea.\n\n");
  CHECK(lists.code == 0);
  CHECK(lists.output.substr(0, 2) == "1\t");
  CHECK_THAT(lists.output, ContainsSubstring("\n2\t0.0000\t\n"));
  const Words sample{"run", "--model", model(), "--sample", "--seed", "5", "--buffer"};
  const auto with = [&](const char* buffer) {
    Words words = sample;
    words.emplace_back(buffer);
    return run(words, "I see tea.\nI see tea.\nI see tea.\n").output;
  };
  CHECK(with("1") == with("512"));  // what is drawn depends on the line's number
  CHECK(std::count(lists.output.begin(), lists.output.end(), '\n') == 4);
}

TEST_CASE("translate score: as sacreBLEU prints it", "[translate]") {
  const std::string reference = files.write("score.txt", "El gato come pan hoy.\nAna tiene t\u00e9 en la casa.\n");
  const std::string hypotheses = "El gato come pan ahora.\r\nAna tiene t\u00e9 en una casa.\r\n";
  const auto bleu = run({"score", "--reference", reference}, hypotheses);
  CHECK(bleu.output ==
        "BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp = 51.14 84.6/63.6/44.4/28.6 (BP = 1.000 ratio = 1.000 hyp_len = 13 "
        "ref_len = 13)\n");
  const auto chrf = run({"score", "--reference", reference, "--metric", "chrf", "--only-score"}, hypotheses);
  CHECK(std::stod(chrf.output) == Approx(75.3141664796223).epsilon(1e-12));
  const auto perfect = run({"score", "--reference", reference, "--only-score"}, bytes(files.path(), "score.txt"));
  CHECK(std::stod(perfect.output) == Approx(100).epsilon(1e-12));
}

#if !defined(_WIN32)
TEST_CASE("translate train: stopped and resumed is as good as not stopped, to the last bit", "[translate]") {
  const std::string whole = files("whole"), parts = files("parts");
  REQUIRE(run(training(whole, {"--max-steps", "60"})).code == 0);

  bool interrupted = false;
  for (int attempt = 0; attempt < 5 && !interrupted; ++attempt) {  // a training may end before the signal comes
    Program first(training(parts, {"--max-steps", "60", "--overwrite"}));
    REQUIRE(first.says("step 1"));
    first.signal(SIGINT);
    interrupted = first.wait() == 130;
    if (interrupted) CHECK_THAT(first.errors(), ContainsSubstring("translate train --resume --out " + parts));
  }
  REQUIRE(interrupted);
  const auto rest = run({"train", "--resume", "--out", parts});
  REQUIRE(rest.code == 0);
  CHECK_THAT(rest.errors, ContainsSubstring("going on from step "));
  for (const char* folder : {"best", "last"})
    for (const char* name : {"model.safetensors", "config.json", "tokenizer.model"})
      CHECK(bytes(whole + "/" + folder, name) == bytes(parts + "/" + folder, name));

  // Further on, with the new limit; and again, when there is nothing left to do.
  REQUIRE(run({"train", "--resume", "--out", parts, "--max-steps", "70"}).code == 0);
  REQUIRE(run(training(whole, {"--max-steps", "70", "--overwrite"})).code == 0);
  CHECK(bytes(whole, "last/model.safetensors") == bytes(parts, "last/model.safetensors"));
  CHECK_THAT(run({"train", "--resume", "--out", parts}).errors, ContainsSubstring("going on from step 70"));
}
#endif

#if !defined(_WIN32)
TEST_CASE("translate train: SIGUSR1 ends it with a checkpoint, however often it comes", "[translate]") {
  const std::string out = files("signalled");
  Program program(training(out, {"--max-steps", "1000000", "--overwrite"}));
  REQUIRE(program.says("step 1"));
  for (int times = 0; times < 50 && program.runs(); ++times) program.signal(times % 2 == 0 ? SIGUSR1 : SIGTERM);
  CHECK(program.wait() == 130);
  CHECK_THAT(run({"train", "--resume", "--out", out, "--max-steps", "1"}).errors, ContainsSubstring("going on from step "));
}
#endif

TEST_CASE("translate train: a run that is resumed keeps its parts, or gets others and says so", "[translate]") {
  const std::string out = files("parted");
  REQUIRE(run(training(out, {"--max-steps", "4"})).code == 0);
  CHECK_THAT(bytes(out, "train.json"), ContainsSubstring("\"parts\""));
  const auto more = run({"train", "--resume", "--out", out, "--max-steps", "6", "--parts", "2"});
  CHECK(more.code == 0);
  CHECK_THAT(more.errors, ContainsSubstring("warning: parts were 1 and are 2 from here on"));
  const auto kept = run({"train", "--resume", "--out", out, "--max-steps", "8"});
  CHECK(kept.code == 0);
  CHECK_THAT(kept.errors, ContainsSubstring("going on from step 6") && !ContainsSubstring("parts were"));
  auto settings = attend::io::read_json(fs::path(out) / "train.json");
  settings["parts"] = std::vector<std::string>{"1"};
  attend::io::write_json(fs::path(out) / "train.json", settings);
  CHECK_THAT(run({"train", "--resume", "--out", out, "--max-steps", "9"}).errors,
             ContainsSubstring("parts were 2 and are 1 from here on"));
  settings.erase("parts");  // as of runs of one part before
  attend::io::write_json(fs::path(out) / "train.json", settings);
  const auto old = run({"train", "--resume", "--out", out, "--max-steps", "10"});
  CHECK(old.code == 0);
  CHECK_THAT(old.errors, ContainsSubstring("going on from step 9") && !ContainsSubstring("parts were"));
}

TEST_CASE("translate: processes that a launcher has started and that do not see each other are refused", "[translate]") {
  set_variable("SLURM_STEP_NUM_TASKS", "2");
  const auto run_together = run({"run", "--model", files("none")}), merged = run({"quantize", "--model", "a", "--out", "b"});
  set_variable("SLURM_STEP_NUM_TASKS", "1");
  const auto alone = run({"run", "--model", files("none")});
  set_variable("SLURM_STEP_NUM_TASKS", "");
  CHECK(run_together.code == 1);
  CHECK_THAT(run_together.errors, ContainsSubstring("2 processes were started together (SLURM_STEP_NUM_TASKS), and "));
  CHECK(merged.code == 1);
  CHECK_THAT(merged.errors, ContainsSubstring("quantize: it is for one process, and 2 were started"));
  CHECK_THAT(alone.errors, !ContainsSubstring("started together"));
}

TEST_CASE("translate prepare: pairs once in tokens, held-out ones as text, to train on and go on with", "[translate]") {
  const std::string prepared = files("prepared"), folder = files("of_prepared");
  const std::string pairs = training("", {})[2];
  const Words prepare{"prepare", "--pairs", pairs, "--out", prepared, "--vocabulary", "60"};
  const auto done = run(with(prepare, {"--validation-size", "6", "--test-size", "4"}));
  CHECK_THAT(done.errors, ContainsSubstring(" for validation, "));
  REQUIRE(done.code == 0);
  const auto lines_of = [](const std::string& text) {
    std::set<std::string> lines, sources;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.insert(line), sources.insert(line.substr(0, line.find('\t')));
    return std::pair(lines, sources);
  };
  const auto all = lines_of(attend::io::read_file(pairs)), validation = lines_of(bytes(prepared, "validation.tsv")),
             test = lines_of(bytes(prepared, "test.tsv"));
  CHECK(validation.first.size() >= 6);
  CHECK(test.first.size() >= 1);
  CHECK(std::ranges::includes(all.first, validation.first));
  for (const auto& source : test.second) CHECK(validation.second.count(source) == 0);
  const auto in_file = attend::train::open_pairs(fs::path(prepared) / "pairs.safetensors").size();
  CHECK(static_cast<std::size_t>(in_file) == all.first.size() - validation.first.size() - test.first.size());

  fails_silently(prepare, "is there already");
  const auto too_many = run(with(prepare, {"--overwrite", "--validation-size", "100000"}));
  CHECK(too_many.code == 1);
  CHECK_THAT(too_many.errors, ContainsSubstring("expected more than the 100000 that are held out"));
  fails_silently(with(prepare, {"--overwrite", "--model", model()}), "excludes", 2);
  CHECK(bytes(prepared, "validation.tsv").size() > 0);  // what failed has left what was there

  auto words = without("--validation-size", without("--vocabulary", without("--pairs", training(folder, {"--max-steps", "20"}))));
  words = with(words, {"--prepared", prepared});
  const auto trained = run(words);
  INFO(trained.errors);
  REQUIRE(trained.code == 0);
  CHECK_THAT(trained.output, ContainsSubstring("test, "));
  CHECK(run({"run", "--model", folder}, "I see tea.\n").code == 0);
  const auto resumed = run({"train", "--resume", "--out", folder, "--max-steps", "24"});
  CHECK_THAT(resumed.errors, ContainsSubstring("going on from step 20"));
  CHECK(resumed.code == 0);

  fails_silently(with(words, {"--vocabulary", "50"}), "excludes", 2);
  fails_silently({"train", "--prepared", prepared, "--init", model(), "--out", files("other_tokens")},
                 "--prepared is in the tokens of another tokenizer");
  REQUIRE(
      run({"prepare", "--pairs", pairs, "--out", prepared, "--overwrite", "--model", model(), "--validation-size", "3"}).code ==
      0);
  CHECK(run({"train", "--prepared", prepared, "--init", model(), "--out", files("same_tokens"), "--max-steps", "2"}).code == 0);
  // A run on prepared pairs does not go on with others, and the other way round.
  CHECK_THAT(run({"train", "--resume", "--out", folder, "--pairs", pairs, "--max-steps", "30"}).errors,
             ContainsSubstring("is of another run"));

  fails_silently({"prepare", "--pairs", pairs, "--out", model() + "/best", "--overwrite"}, "holds something else");
  fails_silently({"prepare", "--pairs", prepared + "/validation.tsv", "--out", prepared, "--overwrite"}, "is in --out");
  fails_silently({"prepare", "--pairs", pairs, "--out", files("nothing"), "--validation-pairs", files("missing.tsv")},
                 "missing.tsv");
  CHECK_FALSE(fs::exists(files("nothing")));
  std::string repeated = "one\teins\n";
  for (int i = 0; i < 40; ++i) repeated += "hello\thallo " + std::to_string(i) + "\n";
  REQUIRE(run({"prepare", "--pairs", files.write("repeated.tsv", repeated), "--out", files("repeated"), "--model", model(),
               "--validation-size", "2"})
              .code == 0);
  CHECK(bytes(files("repeated"), "validation.tsv") == "one\teins\n");  // not the forty of one source
}

TEST_CASE("translate train: the number of threads changes no bit", "[translate]") {
  const auto weights = [](const std::string& threads) {
    const std::string folder = files("threads" + threads);
    const auto trained =
        run(training(folder, {"--threads", threads, "--max-steps", "5", "--d-model", "32", "--tokens-per-batch", "400"}));
    REQUIRE(trained.code == 0);
    return bytes(folder, "last/model.safetensors");
  };
  const std::string one = weights("1");
  CHECK(one == weights("2"));
  CHECK(one == weights("7"));
}

TEST_CASE("translate train: a run that is there is neither lost nor mixed with another", "[translate]") {
  const std::string run_folder = files("kept");
  REQUIRE(run(training(run_folder, {"--max-steps", "8"})).code == 0);
  const auto state = [&] {
    std::string all;
    for (const char* name : {"train.json", "best/model.safetensors", "last/model.safetensors", "last/training.safetensors"})
      all += bytes(run_folder, name);
    return all;
  };
  const std::string before = state();
  fails_silently(training(run_folder, {"--max-steps", "9"}), "holds another run");
  const auto refused = [&](const Words& more, const std::string& message) {
    Words words{"train", "--resume", "--out", run_folder};
    words.insert(words.end(), more.begin(), more.end());
    const auto outcome = run(words);
    CHECK(outcome.code == 1);
    CHECK_THAT(outcome.errors, ContainsSubstring(message));
  };
  refused({"--d-model", "32"}, "--d-model cannot become 32, it was 16");
  refused({"--seed", "2"}, "is of another run");
  refused({"--overwrite"}, "exclude each other");
  CHECK(state() == before);
  CHECK(run({"train", "--resume", "--out", run_folder, "--d-model", "16"}).code == 0);
  const auto unmeasured = run(training(files("other"), {"--validation-size", "0", "--max-steps", "3"}));
  CHECK(unmeasured.code == 1);
  CHECK_THAT(unmeasured.errors, ContainsSubstring("train: --validate-every needs validation pairs"));
  CHECK_THAT(unmeasured.errors, !ContainsSubstring("learning subwords"));
  CHECK(run(without("--validate-every", training(files("other"), {"--validation-size", "0", "--max-steps", "3"}))).code == 0);
}

TEST_CASE("translate train --no-bleu validates by the loss alone, and goes on so", "[translate]") {
  const std::string folder = files("by loss"), usual = files("by bleu");
  const auto done = run(training(folder, {"--max-steps", "14", "--no-bleu"}));
  REQUIRE(done.code == 0);
  CHECK_THAT(done.errors, ContainsSubstring("validation at step 7: loss ") && ContainsSubstring("validation at step 14: loss "));
  CHECK_THAT(done.errors, !ContainsSubstring("BLEU"));
  // It learns what it would if it were translated.
  const auto translated = run(training(usual, {"--max-steps", "14", "--best-by", "loss"}));
  CHECK(translated.code == 0);
  CHECK_THAT(translated.errors, ContainsSubstring("BLEU"));
  for (const char* name : {"best/model.safetensors", "last/model.safetensors"})
    CHECK((bytes(folder, name) == bytes(usual, name)));
  const auto longer = run({"train", "--resume", "--out", folder, "--max-steps", "21"});
  CHECK(longer.code == 0);
  CHECK_THAT(longer.errors, ContainsSubstring("validation at step 21: loss ") && !ContainsSubstring("BLEU"));
  fails_silently(training(files("neither"), {"--no-bleu", "--best-by", "bleu"}),
                 "--no-bleu and --best-by bleu exclude each other");
}

TEST_CASE("translate train: one at a time trains into a folder", "[translate]") {
  const std::string folder = files("shared");
  Program first(training(folder, {"--max-steps", "1000000"}));
  REQUIRE(first.says("validation at step 14"));  // the checkpoint of the one before is written
  for (const Words& words : {training(folder, {"--overwrite"}), Words{"train", "--resume", "--out", folder}}) {
    const auto second = run(words);
    CHECK(second.code == 1);
    CHECK(second.complaints() == 1);
    CHECK_THAT(second.errors, ContainsSubstring(folder + " is in use: another training or averaging writes there"));
  }
  first.signal(SIGKILL);
  first.wait();
  const auto after = run({"train", "--resume", "--out", folder, "--max-steps", "1"});  // which is over
  CHECK(after.code == 0);
  CHECK_THAT(after.errors, ContainsSubstring("going on from step "));
}

TEST_CASE("translate train: the pairs of all files, and validation pairs that are too long are left out", "[translate]") {
  const std::string more = files.write("more.tsv", "I see milk.\tyo vemos leche.\nAna has milk.\tAna tenemos leche.\n");
  std::string long_pair = "I see tea.";
  for (int i = 0; i < 40; ++i) long_pair += " Ana wants bread.";
  const std::string validation = files.write("validation.tsv", "I see tea.\tyo vemos te.\n" + long_pair + "\tyo vemos te.\n");
  const std::string folder = files("several");
  Words words =
      without("--validation-size", training(folder, {"--pairs", more, "--validation-pairs", validation, "--validation-pairs",
                                                     more, "--max-length", "30", "--max-steps", "14"}));
  const auto trained = run(words);
  CHECK(trained.code == 0);
  for (const std::string& said : {more + ": 2 lines, 2 pairs", std::string("train: 74 pairs to learn from, 4 for validation"),
                                  std::string("  validation 3 pairs (1 left out: longer than 30 tokens)")})
    CHECK_THAT(trained.errors, ContainsSubstring(said));
  CHECK(run({"train", "--resume", "--out", folder, "--max-steps", "16"}).code == 0);  // from the same files
  const auto none =
      run(without("--validation-size", training(files("none"), {"--validation-pairs", files.write("none.tsv", "\t\n")})));
  CHECK(none.code == 1);
  CHECK_THAT(none.errors, ContainsSubstring("train: there is no sentence pair in --validation-pairs to validate with"));
  const auto uneven = run({"train", "--source", more, "--source", more, "--target", more, "--out", files("uneven")});
  CHECK(uneven.code == 1);
  CHECK_THAT(uneven.errors, ContainsSubstring("--source came 2 times and --target 1, expected as often"));
}

TEST_CASE("translate train: says how it will train, and what is odd about the pairs", "[translate]") {
  std::string tsv;
  for (int i = 0; i < 60; ++i) tsv += std::to_string(1276 + i) + "\tyo veo el gato " + std::to_string(i) + ".\n";
  const auto outcome =
      run({"train", "--pairs", files.write("numbers.tsv", tsv), "--out", files("numbers"), "--max-steps", "2", "--d-model", "16",
           "--heads", "2", "--layers", "1", "--vocabulary", "60", "--matrix-rate", "0.5", "--r-drop", "3"});
  CHECK(outcome.code == 0);
  for (const char* said : {"only 54 pairs", "the source has no letter in 100 % (54 of 54) of the pairs; is it the right column?",
                           "train: 1 + 1 layers of 16 / 32, 2 heads, dropout 0.3", "  batches    at most 1024 tokens",
                           "  optimizer  muon, learning rate 0.011 (matrices 0.0057)", "R-Drop 3", "  length     2 steps",
                           "  validation 6 pairs, up to twenty times"})
    CHECK_THAT(outcome.errors, ContainsSubstring(said));
}

TEST_CASE("translate train --test-pairs: a file of its own to score the best model with", "[translate]") {
  const auto test = files.write("test.tsv", "I see tea.\tyo vemos t\u00e9.\n\tnobody\n");
  const auto outcome = run(training(files("tested"), {"--max-steps", "1", "--test-pairs", test}));
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.errors, ContainsSubstring("66 pairs to learn from, 6 for validation, 1 for test"));
  CHECK_THAT(outcome.output, ContainsSubstring("test, 1 pairs") && ContainsSubstring("reference: yo vemos t\u00e9."));
  const auto resumed = run({"train", "--resume", "--out", files("tested"), "--max-steps", "2"});
  CHECK_THAT(resumed.output, ContainsSubstring("test, 1 pairs"));
  const auto reversed = run(training(files("turned"), {"--max-steps", "1", "--test-pairs", test, "--reverse"}));
  CHECK_THAT(reversed.output, ContainsSubstring("reference: I see tea."));
  CHECK(run(training(files("both"), {"--test-size", "2", "--test-pairs", test})).code == 2);
  CHECK_THAT(run(training(files("none"), {"--test-pairs", files.write("empty.tsv", "\n")})).errors,
             ContainsSubstring("train: there is no sentence pair in --test-pairs to test with"));
}

TEST_CASE("translate train: who reads its progress may go away", "[translate]") {
  Program program(training(files("unread"), {"--max-steps", "20", "--test-size", "4"}));
  program.close_output();
  const int code = program.wait();
  CHECK(code == 1);  // the test's score could not be printed; the run is whole
  CHECK(run({"train", "--resume", "--out", files("unread")}).code == 0);
}
