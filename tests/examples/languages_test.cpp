// The program with models of many languages: each of its commands chooses two of them.

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "../pretrained/make_folder.hpp"
#include "attend/io/file.hpp"
#include "attend/io/json.hpp"
#include "attend/load.hpp"
#include "catch.hpp"
#include "files.hpp"
#include "words.hpp"

namespace {

namespace fs = std::filesystem;
using namespace attend;
using Catch::Matchers::ContainsSubstring;

const Files files;

/// A random NLLB of 202 languages, for all tests.
const std::string& nllb() {
  static const std::string folder = (pretrained::make(files("nllb"), "m2m_100", "nllb"), files("nllb"));
  return folder;
}

const std::string& pairs() {
  static const std::string path = [] {
    std::string tsv;
    for (const char* a : {"the house", "a river", "the garden", "my letter", "your stone", "this window"})
      for (const char* b : {"is small", "is green", "is quiet"}) tsv += std::string(a) + " " + b + "\t" + b + " is " + a + "\n";
    return files.write("pairs.tsv", tsv);
  }();
  return path;
}

Words training(const std::string& folder, const Words& more) {
  return with({"train", "--out", folder, "--max-steps", "3"}, more);
}
const Words to_french{"--from", "eng_Latn", "--to", "fra_Latn"}, to_english{"--from", "fra_Latn", "--to", "eng_Latn"};

/// The languages of the tokenizer in a folder.
std::string languages(const std::string& folder) {
  const auto tokenizer = load_tokenizer(folder);
  return tokenizer.source_language() + " " + tokenizer.target_language();
}
std::string translated(const std::string& model, const Words& more = {}) {
  const auto outcome = run(with({"run", "--model", model, "--format", "json"}, more), "the green house\n");
  REQUIRE(outcome.code == 0);
  return outcome.output;
}

}  // namespace

TEST_CASE("translate: all that cuts text into tokens takes languages, and refuses them in one way", "[translate]") {
  const std::string from_what = "of the tokenizer of " + nllb() + ", expected one of ";
  pretrained::make(files("t5"), "t5", "t5", {{"decoder_start_token_id", 0}});
  const std::vector<Words> commands{{"run", "--model"},
                                    {"rate", "--model"},
                                    {"explain", "the house", "--out", files("page.html"), "--model"},
                                    {"shortlist", "--pairs", pairs(), "--out", files("list"), "--model"},
                                    {"prepare", "--pairs", pairs(), "--out", files("refused"), "--model"},
                                    {"train", "--pairs", pairs(), "--out", files("refused"), "--init"}};
  for (const auto& command : commands) {
    const auto on = [&](const std::string& model, const Words& more) { return with(with(command, {model}), more); };
    fails(on(nllb(), {"--from", "eng_Latn", "--to", "fre_Latn"}),
          "--to is 'fre_Latn', which is none of the 202 languages " + from_what + "fra_Latn, ");
    const auto unknown = run(on(nllb(), {"--from", "xx", "--to", "fra_Latn"}));
    CHECK_THAT(unknown.errors, ContainsSubstring("--from is 'xx'"));
    for (const char* one : {"ace_Arab", "eng_Latn", "zul_Latn"}) CHECK_THAT(unknown.errors, ContainsSubstring(one));
    fails(on(files("t5"), to_french), "--from and --to choose languages, and the tokenizer of " + files("t5") + " has none");
    fails(on(nllb(), {"--to", "fra_Latn"}), "--to requires --from", 2);
    fails(on(nllb(), {"--from", "fra_Latn"}), "--from requires --to", 2);
  }
  CHECK_FALSE(fs::exists(files("refused")));
  for (const char* command : {"prepare", "train"})
    fails(with({command, "--pairs", pairs(), "--out", files("refused")}, to_french),
          "--from and --to choose among the languages of a");
}

TEST_CASE("translate train: in the languages that are chosen, which are the model's from then on", "[translate]") {
  const std::string folder = files("french");
  const auto outcome = run(training(folder, with({"--init", nllb(), "--pairs", pairs()}, to_french)));
  REQUIRE(outcome.code == 0);
  CHECK_THAT(outcome.errors, ContainsSubstring("subwords, from eng_Latn to fra_Latn, "));
  for (const char* part : {"/best", "/last"}) CHECK(languages(folder + part) == "eng_Latn fra_Latn");
  CHECK_THAT(translated(folder), ContainsSubstring(R"(["fra_Latn",)"));
  CHECK(translated(folder) == translated(folder, to_french));
  CHECK_THAT(translated(folder, to_english), ContainsSubstring(R"(["eng_Latn",)"));

  // Pairs the other way round: --from is the language of the sources as they stand in the file.
  REQUIRE(run(training(files("reverse"), with({"--init", nllb(), "--pairs", pairs(), "--reverse"}, to_french))).code == 0);
  CHECK(languages(files("reverse/last")) == "fra_Latn eng_Latn");
  // What the tokenizer of a model has chosen stays.
  REQUIRE(run(training(files("again"), {"--init", folder, "--pairs", pairs(), "--reverse"})).code == 0);
  CHECK(languages(files("again/last")) == "eng_Latn fra_Latn");
  REQUIRE(run(training(files("german"), {"--init", folder, "--pairs", pairs(), "--from", "deu_Latn", "--to", "eng_Latn"})).code ==
          0);
  CHECK(languages(files("german/last")) == "deu_Latn eng_Latn");

  // A run goes on in its languages.
  const auto resumed = run({"train", "--resume", "--out", folder, "--max-steps", "4"});
  CHECK(resumed.code == 0);
  CHECK_THAT(resumed.errors, ContainsSubstring("from eng_Latn to fra_Latn"));
  CHECK(run(with({"train", "--resume", "--out", folder, "--max-steps", "5"}, to_french)).code == 0);
  fails(with({"train", "--resume", "--out", folder, "--max-steps", "6"}, to_english),
        "--resume goes on with the model of " + folder +
            ", which translates from eng_Latn to fra_Latn, so it cannot translate from fra_Latn to eng_Latn");
  const auto reverse = run({"train", "--resume", "--out", files("reverse"), "--max-steps", "4"});
  CHECK(reverse.code == 0);
  CHECK(languages(files("reverse/last")) == "fra_Latn eng_Latn");
}

TEST_CASE("translate run: a model of many languages asks for one, unless its folder or the command line says it", "[translate]") {
  const auto asks = [](const Words& command) {
    const auto outcome = run(command, "the green house\n");
    CHECK(outcome.code == 0);
    return outcome.errors.find("nothing says which of its 202 languages the model is to translate into: add --from") !=
           std::string::npos;
  };
  CHECK(asks({"run", "--model", nllb()}));
  CHECK_FALSE(asks(with({"run", "--model", nllb()}, to_french)));
  const auto french = load_tokenizer(nllb()).with_languages("eng_Latn", "fra_Latn").forced_begin();
  pretrained::make(files("forced"), "m2m_100", "nllb", {},
                   (R"({"num_beams": 1, "max_length": 9, "forced_bos_token_id": )" + std::to_string(french) + "}").c_str());
  CHECK_FALSE(asks({"run", "--model", files("forced")}));
}

TEST_CASE("translate: where the source's text says the target's language, --to does", "[translate]") {
  pretrained::make(files("madlad"), "t5", "madlad", {{"decoder_start_token_id", 0}});
  const auto said = run({"run", "--model", files("madlad"), "--format", "json"}, "<2de> the green house\n");
  REQUIRE(said.code == 0);
  const auto chosen = run({"run", "--model", files("madlad"), "--format", "json", "--to", "de"}, "the green house\n");
  REQUIRE(chosen.code == 0);
  const auto translations = [](const std::string& json) { return io::parse_json(json, "output")["translations"]; };
  CHECK(translations(said.output) == translations(chosen.output));
  CHECK(run({"run", "--model", files("madlad"), "--to", "de", "--from", "en"}, "the green house\n").code == 0);
  fails({"run", "--model", files("madlad"), "--to", "fr"}, "--to is 'fr', which is none of the 2 languages");
  // Trained on, with the language chosen or said by the text itself.
  const std::string folder = files("madlad_german");
  REQUIRE(run(training(folder, {"--init", files("madlad"), "--pairs", pairs(), "--to", "de"})).code == 0);
  CHECK(languages(folder + "/last") == " de");
  CHECK(run(training(files("madlad_said"), {"--init", files("madlad"), "--pairs", pairs()})).code == 0);
  fails(training(files("refused"), {"--init", files("madlad"), "--pairs", pairs(), "--to", "de", "--reverse"}),
        "--reverse turns --from and --to around, and there is no --from");
}

TEST_CASE("translate train, prepare: targets of a model of many languages must be in one of them", "[translate]") {
  const std::string message =
      "the tokenizer of " + nllb() + " has 202 languages, and none is chosen for targets: add --from and --to";
  fails(training(files("nowhere"), {"--init", nllb(), "--pairs", pairs()}), "train: " + message);
  fails({"prepare", "--pairs", pairs(), "--out", files("nowhere"), "--model", nllb()}, "prepare: " + message);
  CHECK_FALSE(fs::exists(files("nowhere")));
  // The tokenizer's own files may choose it.
  fs::copy(nllb(), files("chosen"));
  auto settings = io::read_json(files("chosen/tokenizer_config.json"));
  settings["tgt_lang"] = "ita_Latn";
  io::write_json(files("chosen/tokenizer_config.json"), settings);
  CHECK(run(training(files("italian"), {"--init", files("chosen"), "--pairs", pairs()})).code == 0);
  CHECK(languages(files("italian/last")) == "eng_Latn ita_Latn");
}

TEST_CASE("translate prepare: pairs in their languages, which a training on them keeps", "[translate]") {
  const Words prepare{"prepare", "--pairs", pairs(), "--model", nllb(), "--validation-size", "3"};
  const auto done = run(with(with(prepare, {"--out", files("prepared")}), to_french));
  REQUIRE(done.code == 0);
  CHECK_THAT(done.errors, ContainsSubstring("subwords, from eng_Latn to fra_Latn\n"));
  CHECK(languages(files("prepared")) == "eng_Latn fra_Latn");
  const Words prepared{"--prepared", files("prepared"), "--init"};
  REQUIRE(run(training(files("of_prepared"), with(prepared, {nllb()}))).code == 0);
  CHECK(languages(files("of_prepared/last")) == "eng_Latn fra_Latn");
  CHECK(run(training(files("same"), with(with(prepared, {nllb()}), to_french))).code == 0);
  const auto bytes = [&](const char* run) { return io::read_file(files(run + std::string("/last/model.safetensors"))); };
  CHECK(bytes("same") == bytes("of_prepared"));

  const std::string other =
      "--prepared is from eng_Latn to fra_Latn, and the training from fra_Latn to eng_Latn: train with --from "
      "eng_Latn --to fra_Latn, or prepare the pairs with --from fra_Latn --to eng_Latn";
  fails(training(files("wrong"), with(with(prepared, {nllb()}), to_english)), other);
  fails(training(files("wrong"), with({"--prepared", files("prepared")}, to_english)), other);
  REQUIRE(run(with(with(prepare, {"--out", files("turned"), "--reverse"}), to_french)).code == 0);
  CHECK(languages(files("turned")) == "fra_Latn eng_Latn");
  REQUIRE(run(training(files("english"), {"--prepared", files("turned"), "--init", nllb()})).code == 0);
  fails(training(files("wrong"), with(prepared, {files("english")})), other);
  CHECK_FALSE(fs::exists(files("wrong")));
  fails({"train", "--resume", "--out", files("english"), "--prepared", files("prepared")},
        "--prepared is from eng_Latn to fra_Latn");
}

TEST_CASE("translate train --teacher: in the languages of the prepared pairs, or of the model that learns", "[translate]") {
  const std::string prepared = files("prepared_taught"), folder = files("taught");
  REQUIRE(run(with({"prepare", "--pairs", pairs(), "--model", nllb(), "--validation-size", "3", "--out", prepared}, to_french))
              .code == 0);
  const Words sizes{"--d-model", "8", "--heads", "2", "--layers", "1", "--max-length", "40"}, taught{"--teacher", nllb()};
  REQUIRE(run(training(folder, with(with(taught, {"--prepared", prepared}), sizes))).code == 0);
  CHECK(languages(folder + "/last") == "eng_Latn fra_Latn");
  const auto resumed = run({"train", "--resume", "--out", folder, "--max-steps", "4"});
  CAPTURE(resumed.errors);
  CHECK(resumed.code == 0);
  CHECK_THAT(resumed.errors, ContainsSubstring("going on from step 3"));
  CHECK(run(with({"train", "--resume", "--out", folder, "--max-steps", "5"}, to_french)).code == 0);
  for (const Words& of : {Words{"--prepared", prepared}, Words{"--pairs", pairs()}, with({"--pairs", pairs()}, to_french)}) {
    const auto more = run(training(files("taught_more"), with(with(taught, of), {"--init", folder, "--overwrite"})));
    CAPTURE(of, more.errors);
    CHECK(more.code == 0);
    CHECK(languages(files("taught_more/last")) == "eng_Latn fra_Latn");
    CHECK(run({"train", "--resume", "--out", files("taught_more"), "--max-steps", "4"}).code == 0);
  }
  // One whose folder has chosen another language would take the pairs for that.
  fs::copy(nllb(), files("italian_teacher"));
  auto settings = io::read_json(files("italian_teacher/tokenizer_config.json"));
  settings["tgt_lang"] = "ita_Latn";
  io::write_json(files("italian_teacher/tokenizer_config.json"), settings);
  fails(training(files("wrong"), {"--teacher", files("italian_teacher"), "--init", folder, "--prepared", prepared}),
        "--teacher " + files("italian_teacher") + " has another tokenizer than the model of " + folder);
}

TEST_CASE("translate explain, shortlist: in the languages that are chosen", "[translate]") {
  REQUIRE(run(with({"explain", "the green house", "--model", nllb(), "--out", files("page.html")}, to_french)).code == 0);
  const std::string page = io::read_file(files("page.html"));
  CHECK_THAT(page, ContainsSubstring("eng_Latn") && ContainsSubstring("fra_Latn"));
  // A translation that is given begins with the language too, and rates as `rate` has it.
  REQUIRE(
      run(with({"explain", "the green house", "--target", "a river", "--model", nllb(), "--out", files("given.html")}, to_french))
          .code == 0);
  CHECK_THAT(io::read_file(files("given.html")), ContainsSubstring("fra_Latn"));
  const auto rated = run(with({"rate", "--model", nllb()}, to_french), "the green house\ta river\n");
  const std::string number = rated.output.substr(1, rated.output.find('\t') - 1);  // without its sign
  CHECK_THAT(io::read_file(files("given.html")), ContainsSubstring("log-probability <b>\u2212" + number + "</b>"));

  const auto list = [&](const std::string& name, const Words& more) {
    REQUIRE(run(with({"shortlist", "--pairs", pairs(), "--model", nllb(), "--out", files(name)}, more)).code == 0);
    return io::read_file(files(name));
  };
  const std::string french = list("french.list", to_french);
  CHECK(french != list("english.list", to_english));
  CHECK(french == list("french_again.list", to_french));
}

TEST_CASE("translate train --init, run --out: whatever the weights of a folder are called", "[translate]") {
  fs::copy(nllb(), files("parts"));
  fs::rename(files("parts/model.safetensors"), files("parts/model-00001-of-00001.safetensors"));
  io::Json index{{"metadata", {{"total_size", 0}}}};
  const auto weights = io::SafetensorsFile::open(files("parts/model-00001-of-00001.safetensors"));
  for (const auto& t : weights.tensors()) index["weight_map"][t.name] = "model-00001-of-00001.safetensors";
  io::write_json(files("parts/model.safetensors.index.json"), index);
  CHECK(run(training(files("of_parts"), with({"--init", files("parts"), "--pairs", pairs()}, to_french))).code == 0);
  const auto written = run(with({"run", "--model", files("parts"), "--out", files("parts.txt")}, to_french), "the house\n");
  CHECK(written.code == 0);
  CHECK(written.errors.empty());
}

namespace {

/// How `load` finds a model to be searched.
io::Json search_of(const std::string& folder) { return decode::search_to_json(load_search(folder)); }

}  // namespace

TEST_CASE("translate train --init: the model is searched as its folder said", "[translate]") {
  pretrained::make(files("bart"), "bart", "bart", {}, pretrained::unusual_generation(0).c_str());
  const std::string bart = files("bart"), folder = files("of_bart");
  REQUIRE(search_of(bart) != decode::search_to_json({}));
  REQUIRE(
      run(training(folder, {"--init", bart, "--pairs", pairs(), "--checkpoint-every", "1", "--keep-checkpoints", "2"})).code ==
      0);
  for (const char* part : {"", "/best", "/last", "/step-2"}) CHECK(search_of(folder + part) == search_of(bart));
  CHECK_THAT(translated(folder), ContainsSubstring(R"(["<s>",)"));
  REQUIRE(run({"explain", "the green house", "--model", folder, "--out", files("bart.html")}).code == 0);
  CHECK_THAT(io::read_file(files("bart.html")), ContainsSubstring("beam of 3"));
  CHECK(run({"train", "--resume", "--out", folder, "--max-steps", "4"}).code == 0);
  CHECK(search_of(folder + "/last") == search_of(bart));
  REQUIRE(run({"average", folder, "--out", files("mean")}).code == 0);
  CHECK(search_of(files("mean")) == search_of(bart));
  // Where another run takes its place, so does that one's search.
  REQUIRE(run(with(training(folder, {"--init", nllb(), "--pairs", pairs(), "--overwrite"}), to_french)).code == 0);
  CHECK(search_of(folder + "/last") == search_of(nllb()));
  REQUIRE(run(training(folder, {"--pairs", pairs(), "--overwrite", "--d-model", "8", "--heads", "2", "--layers", "1",
                                "--vocabulary", "60"}))
              .code == 0);
  CHECK_FALSE(fs::exists(folder + "/last/search.json"));

  // Targets begin with the first token of translations, prepared ones too.
  const Words prepare{"prepare", "--pairs", pairs(), "--model", bart, "--validation-size", "3", "--out", files("prepared_bart")};
  REQUIRE(run(prepare).code == 0);
  const Words prepared{"--prepared", files("prepared_bart"), "--init", bart};
  REQUIRE(run(training(files("of_prepared_bart"), prepared)).code == 0);
  CHECK(load_tokenizer(files("of_prepared_bart/last")).forced_begin() == 0);
  auto settings = io::read_json(files("prepared_bart/tokenizer_config.json"));
  settings.erase("forced_bos_token_id");
  io::write_json(files("prepared_bart/tokenizer_config.json"), settings);
  fails(training(files("without"), prepared), "--prepared has targets that begin with no token of its own, and those of " + bart +
                                                  " begin with <s>: prepare --model " + bart + " once more");
  CHECK_FALSE(fs::exists(files("without")));

  // The language that was chosen comes in the place of the folder's.
  const auto tokenizer = text::load_pretrained_tokenizer(pretrained::tokenizers() / "nllb");
  pretrained::make(files("to_german"), "m2m_100", "nllb", {},
                   pretrained::unusual_generation(tokenizer.token("deu_Latn")).c_str());
  REQUIRE(run(training(files("of_german"), with({"--init", files("to_german"), "--pairs", pairs()}, to_french))).code == 0);
  auto expected = search_of(files("to_german"));
  CHECK(expected["first"] == tokenizer.token("deu_Latn"));
  expected["first"] = tokenizer.token("fra_Latn");
  CHECK(search_of(files("of_german/last")) == expected);
  CHECK_THAT(translated(files("of_german")), ContainsSubstring(R"(["fra_Latn",)"));
}
