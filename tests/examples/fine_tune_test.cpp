// The program on an existing model: training on from it, with parts of it frozen, and the mean of checkpoints.

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "../pretrained/make_folder.hpp"
#include "attend/io/file.hpp"
#include "attend/io/safetensors.hpp"
#include "attend/load.hpp"
#include "catch.hpp"
#include "files.hpp"
#include "words.hpp"

namespace {

namespace fs = std::filesystem;
using namespace attend;
using Catch::Matchers::ContainsSubstring;

const Files files;

/// Sentences of three words, which `verb` makes those of one field or another.
std::string pairs(const std::string& verb) {
  return files.write(verb + ".tsv",
                     sentences({{{"I", "yo"}, {"Ana", "Ana"}, {"we", "nosotros"}, {"she", "ella"}, {"he", "el"}, {"you", "tu"}},
                                {{verb, verb + "o"}},
                                {{"tea", "te"}, {"bread", "pan"}, {"books", "libros"}, {"water", "agua"}, {"milk", "leche"}}}));
}

Words train(const std::string& data, const std::string& folder, const Words& more) {
  Words words{"train", "--pairs",  pairs(data), "--out",      folder, "--tokens-per-batch", "60", "--validation-size",
              "3",     "--epochs", "0",         "--patience", "0",    "--warmup",           "5",  "--validate-every",
              "10"};
  return with(std::move(words), more);
}

/// A model of both fields, trained once for all tests.
const std::string& base() {
  static const std::string folder = [] {
    const auto trained = run(train(
        "use", files("base"),
        {"--d-model", "16", "--heads", "2", "--layers", "1", "--vocabulary", "50", "--max-steps", "30", "--checkpoint-every", "6",
         "--keep-checkpoints", "3", "--csv", files("base.csv"), "--tensorboard", files("board")}));
    if (trained.code != 0) throw std::runtime_error(trained.errors);
    return files("base");
  }();
  return folder;
}

io::SafetensorsFile weights(const std::string& folder) {
  return io::SafetensorsFile::open(fs::path(folder) / "model.safetensors");
}

/// Checks that a training on from base() writes the same files whether or not it is stopped and goes on: that in the folder
/// `name`, and that in the same with `-stopped`.
void check_stopped_and_resumed(const std::string& name, Words how, const Words& written) {
  how.insert(how.end(), {"--init", base(), "--max-steps", "80"});
  REQUIRE(run(train("have", files(name), how)).code == 0);
  const std::string stopped = files(name + "-stopped");
  how.emplace_back("--overwrite");
  bool interrupted = false;
  for (int attempt = 0; attempt < 5 && !interrupted; ++attempt) {  // a training may end before the signal comes
    Program first(train("have", stopped, how));
    REQUIRE(first.says("step 1"));
    first.signal(SIGINT);
    interrupted = first.wait() == 130;
  }
  REQUIRE(interrupted);
  REQUIRE(run({"train", "--resume", "--out", stopped}).code == 0);
  for (const auto& file : written) CHECK(io::read_file(fs::path(files(name)) / file) == io::read_file(fs::path(stopped) / file));
}

}  // namespace

TEST_CASE("translate train --init: goes on from a model, with its tokenizer, and leaves alone what is frozen", "[translate]") {
  const std::string tuned = files("tuned");
  const auto outcome =
      run(train("have", tuned,
                {"--init", base(), "--freeze", "encoder.layers.*", "--freeze", "encoder.embed*", "--optimizer", "adamw",
                 "--weight-decay", "0.5", "--average-decay", "0.9", "--max-steps", "20", "--dropout", "0.05"}));
  REQUIRE(outcome.code == 0);
  CHECK_THAT(outcome.errors,
             ContainsSubstring("match encoder.embed* and stay as they are; with them decoder.embed_tokens.weight"));
  CHECK_THAT(outcome.errors, ContainsSubstring(" frozen ones"));
  CHECK(io::read_file(fs::path(tuned) / "best" / "tokenizer.model") ==
        io::read_file(fs::path(base()) / "best" / "tokenizer.model"));
  CHECK_THAT(io::read_file(fs::path(tuned) / "best" / "config.json"), ContainsSubstring("\"residual\": 0.05"));
  const auto before = weights(base() + "/best");
  for (const char* folder : {"/best", "/last"}) {
    const auto after = weights(tuned + folder);
    REQUIRE(after.tensors().size() == before.tensors().size());
    for (const auto& t : before.tensors()) {
      INFO(t.name);
      CHECK((before.read<float>(t.name) == after.read<float>(t.name)) == t.name.starts_with("encoder."));
    }
  }
  CHECK(run({"run", "--model", tuned}, "").code == 0);
}

TEST_CASE("translate train --init: a run goes on without the model that it began with, and not over it", "[translate]") {
  fs::copy(base() + "/best", files("gone"));
  fails(train("want", files("gone"), {"--init", files("gone"), "--max-steps", "2"}),
        "holds a model, which `translate run` would take");
  REQUIRE(run(train("want", files("heir"), {"--init", files("gone"), "--max-steps", "2"})).code == 0);
  fs::remove_all(files("gone"));
  CHECK(run({"train", "--resume", "--out", files("heir"), "--max-steps", "4"}).code == 0);
}

#if !defined(_WIN32)
TEST_CASE("translate train --init: stopped and resumed, the bits are the same", "[translate]") {
  check_stopped_and_resumed("frozen", {"--freeze", "decoder.layers.0.self_attn.*"},
                            {"best/model.safetensors", "last/model.safetensors", "last/tokenizer.model"});
  fails({"train", "--resume", "--out", files("frozen-stopped"), "--init", files("other")}, "so --init cannot become");
}
#endif

TEST_CASE("translate train --init: what does not go with it is refused before anything is done", "[translate]") {
  const std::string folder = files("refused");
  fails(train("have", folder, {"--init", base(), "--d-model", "32"}),
        "--d-model is for a new model; that of --init stays as it is");
  fails(train("have", folder, {"--init", base(), "--vocabulary", "60"}), "--vocabulary is for a new model");
  fails(train("have", folder, {"--init", files("nowhere")}), "is no model");
  fails(train("have", folder, {"--keep-checkpoints", "2"}), "--keep-checkpoints goes with --checkpoint-every");
  fails(train("have", folder, {"--init", base(), "--weight-decay", "0.1"}),
        "--weight-decay goes with --optimizer adamw, sgd or muon");
  fails(train("have", folder, {"--optimizer", "adam", "--no-cautious"}), "--no-cautious goes with --optimizer muon");
  fails(train("have", folder, {"--init", base(), "--matrix-rate", "0.5"}), "--matrix-rate goes with --optimizer muon");
  fails(train("have", folder, {"--init", base(), "--momentum", "0.9"}), "--momentum goes with --optimizer sgd or muon");
  fails(train("have", folder, {"--optimizer", "adamw", "--momentum", "0.9"}), "--momentum goes with --optimizer sgd or muon");
  CHECK_FALSE(fs::exists(folder));
  // The pairs and the model's width may have chosen Adam, which is known once they are read, before subwords are learnt.
  const auto chosen = run(train("have", folder, {"--d-model", "256", "--heads", "4", "--weight-decay", "0.1"}));
  CHECK(chosen.code == 1);
  CHECK_THAT(chosen.errors,
             ContainsSubstring("--weight-decay goes with --optimizer adamw, sgd or muon, and this run takes adam"));
  CHECK_THAT(chosen.errors, !ContainsSubstring("learning subwords"));
  const auto nothing = run(train("have", folder, {"--init", base(), "--freeze", "encoder"}));
  CHECK(nothing.code == 1);
  CHECK_THAT(nothing.errors, ContainsSubstring("freeze: none of ") && ContainsSubstring("matches `encoder`"));
}

TEST_CASE("translate train --init: from a Marian model of Hugging Face's, whose tokenizer stays", "[translate]") {
  const fs::path data = fs::path(ATTEND_REFERENCE_DEFAULT_DIR) / ".." / ".." / "marian" / "data";
  for (const std::string name : {"relu_separate", "swish"}) {
    INFO(name);
    const std::string marian = (data / name).string(), tuned = files("marian_" + name);
    REQUIRE(run(train("have", tuned, {"--init", marian, "--freeze", "encoder.*", "--max-steps", "6", "--test-size", "2"})).code ==
            0);
    for (const char* file : {"source.spm", "target.spm"})
      CHECK(io::read_file(fs::path(tuned) / "best" / file) == io::read_file(data / name / file));
    const auto rest = run({"train", "--resume", "--out", tuned, "--max-steps", "8"});
    CHECK(rest.code == 0);
    CHECK_THAT(rest.errors, ContainsSubstring("going on from step 6"));
    CHECK(run({"run", "--model", tuned}, "I have tea.\n").code == 0);
    const auto before = weights(marian), after = weights(tuned + "/last");
    CHECK(before.read<float>("model.encoder.layers.0.fc1.weight") == after.read<float>("encoder.layers.0.fc1.weight"));
    CHECK(before.read<float>("model.decoder.layers.0.fc1.weight") != after.read<float>("decoder.layers.0.fc1.weight"));
    CHECK(run({"average", marian, marian, "--out", files("mean_" + name)}).code == 0);
    CHECK(run({"run", "--model", files("mean_" + name)}, "I have tea.\n").output ==
          run({"run", "--model", marian}, "I have tea.\n").output);
  }
}

TEST_CASE("translate train --adapter-rank: adapters learn and all else stays; merged, the model translates alike",
          "[translate]") {
  const std::string marian = (fs::path(ATTEND_REFERENCE_DEFAULT_DIR) / ".." / ".." / "marian" / "data" / "swish").string();
  const std::string tuned = files("adapted"), sentences = "I have tea.\nAna has books.\nshe is here\n";
  const Words how{"--init",
                  marian,
                  "--adapter-rank",
                  "3",
                  "--adapter-alpha",
                  "12",
                  "--adapter-modules",
                  "q_proj",
                  "--adapter-modules",
                  "fc1",
                  "--adapter-dropout",
                  "0.125",
                  "--learning-rate",
                  "0.05",
                  "--max-steps",
                  "20"};
  const auto outcome = run(train("have", tuned, how));
  REQUIRE(outcome.code == 0);
  CHECK_THAT(outcome.errors, ContainsSubstring("adapters of rank 3 in ") && ContainsSubstring("all else stays as it is"));
  CHECK_THAT(io::read_file(fs::path(tuned) / "best" / "config.json"),
             ContainsSubstring("\"alpha\": 12") && ContainsSubstring("\"rank\": 3") && ContainsSubstring("0.125"));
  std::size_t adapters = 0;
  {
    const auto before = weights(marian), after = weights(tuned + "/last");
    for (const char* name : {"encoder.layers.0.fc1.weight", "decoder.layers.0.encoder_attn.q_proj.weight"})
      CHECK(before.read<float>(std::string("model.") + name) == after.read<float>(name));
    for (const auto& t : after.tensors()) {
      if (!t.name.ends_with("lora_B.weight")) continue;
      ++adapters;
      const auto values = after.read<float>(t.name);
      CHECK(std::any_of(values.begin(), values.end(), [](float x) { return x != 0; }));
    }
  }
  CHECK(adapters > 3);

  const auto translated = run({"run", "--model", tuned}, sentences).output;
  CHECK(translated != run({"run", "--model", marian}, sentences).output);
  REQUIRE(run({"merge", tuned, "--out", files("merged")}).code == 0);
  CHECK(run({"run", "--model", files("merged")}, sentences).output == translated);
  CHECK(io::read_file(files("merged/search.json")) == io::read_file(fs::path(tuned) / "best" / "search.json"));
  const auto merged = weights(files("merged"));
  for (const auto& t : merged.tensors()) CHECK(t.name.find("lora") == t.name.npos);

  // By themselves, by the names of the family that they were trained beside, and back into it.
  REQUIRE(run({"adapters", tuned, "--base", marian, "--out", files("alone")}).code == 0);
  const auto alone = io::SafetensorsFile::open(files("alone/adapter_model.safetensors"));
  CHECK(alone.contains("base_model.model.model.encoder.layers.0.fc1.lora_A.weight"));
  CHECK(alone.tensors().size() == 2 * adapters);
  REQUIRE(run({"merge", marian, "--adapters", files("alone"), "--out", files("merged2")}).code == 0);
  CHECK(io::read_file(files("merged/model.safetensors")) == io::read_file(files("merged2/model.safetensors")));
  REQUIRE(run({"adapters", tuned, "--out", files("own")}).code == 0);
  CHECK(io::SafetensorsFile::open(files("own/adapter_model.safetensors"))
            .contains("base_model.model.encoder.layers.0.fc1.lora_A.weight"));

  // Trained on, the adapters go on learning; resumed, they are those of the run.
  const auto further = run(train("have", files("further"), {"--init", tuned, "--max-steps", "4"}));
  CHECK(further.code == 0);
  CHECK_THAT(further.errors, ContainsSubstring("adapters of rank 3"));
  const auto resumed = run({"train", "--resume", "--out", tuned, "--max-steps", "24"});
  CHECK(resumed.code == 0);
  CHECK_THAT(resumed.errors, ContainsSubstring("going on from step 20"));

  fails({"merge", marian, "--out", files("none")}, "has no adapters; give those of --adapters");
  fails({"merge", tuned, "--adapters", files("alone"), "--out", files("none")}, "has adapters of its own");
  fails({"merge", base(), "--adapters", files("alone"), "--out", files("none")}, "does not fit the model");
  fails({"merge", tuned, "--out", files("merged")}, "holds a model already");
  fails({"merge", tuned, "--out", base()}, "is the folder of a training");
  fails({"adapters", base(), "--out", files("none")}, "has no adapters");
  fails({"adapters", tuned, "--out", files("merged")}, "holds a model already");
  fails(train("have", files("none"), {"--init", base(), "--adapter-alpha", "3"}), "--adapter-alpha goes with --adapter-rank");
  fails(train("have", files("none"), {"--adapter-rank", "3"}), "--adapter-rank goes with --init");
  fails({"train", "--resume", "--out", tuned, "--adapter-rank", "4"}, "so --adapter-rank cannot become 4, it was 3");
  CHECK_FALSE(fs::exists(files("none")));
  const auto twice = run(train("have", files("none"), {"--init", tuned, "--adapter-rank", "3"}));
  CHECK(twice.code == 1);
  CHECK_THAT(twice.errors, ContainsSubstring("with an adapter already"));
}

TEST_CASE("translate train --adapter-rank: what products round anyway is held and saved in bfloat16", "[translate]") {
  const Words how{"--init", base(), "--adapter-rank", "2", "--dropout", "0.2", "--precision", "bf16", "--max-steps", "6"};
  const std::string tuned = files("adapted in bf16");
  REQUIRE(run(train("have", tuned, how)).code == 0);
  const auto before = weights(base() + "/best"), after = weights(tuned + "/last");
  const std::string fc1 = "encoder.layers.0.fc1.weight", table = "encoder.embed_tokens.weight";
  CHECK(after.info(fc1).dtype == io::DType::bf16);
  CHECK(after.info(table).dtype == io::DType::f32);
  const auto floats = before.read<float>(fc1), held = after.read<float>(fc1);
  REQUIRE(held.size() == floats.size());
  for (std::size_t i = 0; i < held.size(); ++i) CHECK(held[i] == static_cast<float>(bfloat16(floats[i])));

  const io::LoadFor purpose(Precision::full);
  const auto trained = load(tuned + "/last");
  CHECK(trained.model.encoder.layers[0].feed_forward.fc1.weight.value().in_bfloat16() != nullptr);
  CHECK(trained.model.options.encoder.dropout.residual == 0.2);
  CHECK_THAT(run({"train", "--resume", "--out", tuned, "--max-steps", "8"}).errors, ContainsSubstring("going on from step 6"));
  CHECK(weights(tuned + "/last").info(fc1).dtype == io::DType::bf16);
  REQUIRE(run({"merge", tuned, "--out", files("merged from bf16")}).code == 0);
  CHECK(weights(files("merged from bf16")).info(fc1).dtype == io::DType::f32);
}

#if !defined(_WIN32)
TEST_CASE("translate train --adapter-rank: stopped and resumed, the bits are the same", "[translate]") {
  const Words written{"best/model.safetensors", "last/model.safetensors", "last/config.json"};
  check_stopped_and_resumed("adapters", {"--adapter-rank", "4", "--adapter-dropout", "0.2"}, written);
  check_stopped_and_resumed("adapters in bf16", {"--adapter-rank", "4", "--precision", "bf16"}, written);
}
#endif

TEST_CASE("translate export: what was trained on is one of its family again, and a model of one's own a Marian", "[translate]") {
  pretrained::make(files("t5"), "t5", "t5", {{"decoder_start_token_id", 0}});
  const std::string sentences = "I have tea.\nAna has books.\n", tuned = files("tuned_t5"), t5 = files("t5_again");
  REQUIRE(run(train("have", tuned, {"--init", files("t5"), "--max-steps", "4"})).code == 0);
  const auto translated = [&](const std::string& folder, const Words& more = {}) {
    const auto outcome = run(with({"run", "--model", folder}, more), sentences);
    CHECK(outcome.code == 0);
    return outcome.output;
  };
  const auto outcome = run({"export", tuned, "--base", files("t5"), "--out", t5});
  REQUIRE(outcome.code == 0);
  CHECK_THAT(outcome.errors, ContainsSubstring("a model of the family t5 is in "));
  CHECK(pretrained_family(t5) == "t5");
  CHECK(translated(t5) == translated(tuned));
  CHECK(weights(t5).read<float>("shared.weight") == weights(tuned + "/best").read<float>("encoder.embed_tokens.weight"));
  CHECK(weights(t5).read<float>("shared.weight") != weights(files("t5")).read<float>("shared.weight"));
  CHECK(io::read_file(t5 + "/spiece.model") == io::read_file(files("t5/spiece.model")));
  REQUIRE(run({"export", t5, "--stored", "bfloat16", "--out", files("t5_half")}).code == 0);
  CHECK(weights(files("t5_half")).info("shared.weight").dtype == io::DType::bf16);

  REQUIRE(run({"export", base(), "--out", files("as_marian")}).code == 0);
  CHECK(pretrained_family(files("as_marian")) == "marian");
  const Words how{"--beam", "1", "--max-tokens", "10"};  // by default they are searched differently
  CHECK(translated(files("as_marian"), how) == translated(base(), how));
  const std::string marian = (fs::path(ATTEND_REFERENCE_DEFAULT_DIR) / ".." / ".." / "marian" / "data" / "swish").string();
  REQUIRE(run({"export", marian, "--out", files("marian_again")}).code == 0);
  CHECK(translated(files("marian_again")) == translated(marian));

  fails({"export", tuned, "--base", tuned, "--out", files("none")}, "is no model of the transformers library");
  fails({"export", tuned, "--out", files("none")}, "name the folder with which its training began by --base");
  fails({"export", tuned, "--base", marian, "--out", files("none")}, "has a tokenizer of another family than Marian's");
  fails({"export", tuned, "--base", files("t5"), "--out", t5}, "holds a model already");
  CHECK_FALSE(fs::exists(files("none")));
}

TEST_CASE("translate average: of the checkpoints that a training kept, and of models", "[translate]") {
  const auto all = run({"average", base(), "--out", files("mean")});
  REQUIRE(all.code == 0);
  for (const char* step : {"step-18", "step-24", "step-30"}) CHECK_THAT(all.errors, ContainsSubstring(step));
  const auto mean = weights(files("mean"));
  for (const auto& t : mean.tensors()) {
    std::vector<double> sum(static_cast<std::size_t>(t.shape.size()));
    for (const char* step : {"/step-18", "/step-24", "/step-30"}) {
      const auto values = weights(base() + step).read<double>(t.name);
      std::transform(sum.begin(), sum.end(), values.begin(), sum.begin(), std::plus<>());
    }
    const auto got = mean.read<float>(t.name);
    for (std::size_t i = 0; i < got.size(); ++i) REQUIRE(got[i] == static_cast<float>(sum[i] / 3));
  }
  CHECK(run({"run", "--model", files("mean")}, "I use tea.\n").code == 0);

  const auto two = run({"average", base(), "--last", "2", "--out", files("mean2")});
  CHECK_THAT(two.errors, !ContainsSubstring("step-18") && ContainsSubstring("step-24"));
  CHECK(run({"average", base() + "/best", base() + "/last", "--out", files("mean3")}).code == 0);
  fails({"average", base(), "--out", files("mean")}, "holds a model already");
  fails({"average", base(), "--out", base()}, "is the folder of a training");
  fails({"average", files("nowhere"), "--out", files("mean4")}, "is no model");
  REQUIRE(run(train("have", files("wider"),
                    {"--d-model", "8", "--heads", "2", "--layers", "1", "--vocabulary", "50", "--max-steps", "1"}))
              .code == 0);
  fails({"average", base(), files("wider"), "--out", files("mean4")}, "encoder.d_model is 8, expected 16");
  CHECK_FALSE(fs::exists(files("mean4")));
}

TEST_CASE("translate train: the curve as CSV and for TensorBoard", "[translate]") {
  const std::string csv = io::read_file((base(), files("base.csv")));
  CHECK(csv.starts_with("step,epoch,seconds,"));
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 1 + 3 + 3);
  REQUIRE(fs::is_directory(files("board")));
  const fs::path events = fs::directory_iterator(files("board"))->path();
  CHECK_THAT(io::read_file(events), ContainsSubstring("brain.Event:2") && ContainsSubstring("validation/bleu"));
  fails(train("use", files("again"), {"--csv", files("base.csv")}), "base.csv is there already");
}

TEST_CASE("translate: --precision bf16 trains and translates on the CPU, and a run goes on in it", "[translate]") {
  const std::string folder = files("bf16");
  const Words how{"--init", base(), "--precision", "bf16", "--max-steps", "6"};
  const auto trained = run(train("have", folder, how));
  REQUIRE(trained.code == 0);
  CHECK_THAT(trained.errors, ContainsSubstring("products   in bf16\n"));
  REQUIRE(run(train("have", files("float32"), {"--init", base(), "--max-steps", "6"})).code == 0);
  CHECK(io::read_file(fs::path(folder) / "last" / "model.safetensors") != io::read_file(files("float32/last/model.safetensors")));
  CHECK_THAT(run({"train", "--resume", "--out", folder, "--precision", "float32", "--max-steps", "8"}).errors,
             ContainsSubstring("precision bf16 (this run: full)"));
  CHECK_THAT(run({"train", "--resume", "--out", folder, "--max-steps", "8"}).errors, ContainsSubstring("going on from step 6"));
  const auto full = run({"run", "--model", folder}, "I have tea.\n"),
             bf16 = run({"run", "--model", folder, "--precision", "bf16"}, "I have tea.\n");
  CHECK(full.code == 0);
  CHECK(bf16.code == 0);
  CHECK(std::count(bf16.output.begin(), bf16.output.end(), '\n') == 1);
}
