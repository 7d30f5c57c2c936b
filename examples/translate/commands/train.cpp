// translate train: a model from sentence pairs.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "any_translator.hpp"
#include "attend/io/folder_lock.hpp"
#include "attend/load.hpp"
#include "attend/text/bleu.hpp"
#include "attend/text/corpus.hpp"
#include "attend/text/sentencepiece.hpp"
#include "attend/text/suspicions.hpp"
#include "attend/train/fit.hpp"
#include "attend/train/interrupt.hpp"
#include "attend/train/run_folder.hpp"
#include "attend/train/teacher.hpp"
#include "attend/translate/translator.hpp"
#include "commands.hpp"
#include "console.hpp"
#include "first_model.hpp"
#include "model_folder.hpp"
#include "model_memory.hpp"
#include "prepared.hpp"
#include "train_settings.hpp"
#include "training.hpp"

#if defined(TRANSLATE_WITH_NCCL)
#include "attend/nccl.hpp"
#endif

namespace translate {

namespace {

using namespace attend;
namespace fs = std::filesystem;

/// What is learnt from: pairs as text, or in a file, in tokens already.
struct TrainingData {
  text::Corpus train, validation, test;
  std::optional<PreparedPairs> prepared;

  [[nodiscard]] index_t size() const { return prepared ? prepared->pairs.size() : train.size(); }
};

/// The data in each rank: what the first one reads, or a file that all see.
TrainingData training_data(const TrainCommand& flags, SharedFiles& shared) {
  if (!flags.prepared.empty()) {
    const fs::path folder = shared(flags.prepared, prepared_fingerprint);
    TrainingData data;
    data.prepared = open_prepared(folder);
    data.validation = data.prepared->validation, data.test = data.prepared->test;
    return data;
  }
  TrainingData data;
  if (leads(flags.ranks)) {
    auto parts = split_pairs("train", flags);
    data = {std::move(parts.train), std::move(parts.validation), std::move(parts.test), {}};
  }
  share(flags.ranks, data.train);
  share(flags.ranks, data.validation);
  return data;
}

/// `3 + 3 layers of 256 / 1024, 4 heads, dropout 0.15, one matrix for embeddings and head, initialisation residual_scaled`, and
/// what else is not the paper's.
std::string size_text(const nn::ModelOptions& o) {
  const auto both = [](const auto& a, const auto& b) {
    return a == b ? number_text(a) : number_text(a) + " and " + number_text(b);
  };
  const auto &e = o.encoder, &d = o.decoder;
  std::string text = number_text(e.layers) + " + " + number_text(d.layers) + " layers of " + both(e.d_model, d.d_model) + " / " +
                     both(e.d_ff, d.d_ff) + ", " + both(e.heads, d.heads) + " heads";
  if (d.norm_order == nn::NormOrder::pre) text += ", pre-norm";
  if (d.norm.kind != NormKind::layer) text += ", " + name_of(d.norm.kind) + " norms";
  if (d.gated) text += ", gated " + name_of(d.activation);
  if (d.positions != nn::PositionKind::sinusoidal) text += ", positions " + name_of(d.positions);
  if (!d.bias) text += ", no biases";
  text += ", dropout " + both(e.dropout.residual, d.dropout.residual);
  if (o.tie_head)
    text += o.share_embeddings ? ", one matrix for embeddings and head" : ", one matrix for target embedding and head";
  return text + ", initialisation " + name_of(d.initialisation);
}

/// What is wanted of `fit`. Without validation pairs nothing can be judged by them, unless the command line insists.
/// `teacher`: whom it learns from besides, or null.
template <class Model>
train::FitOptions fit_options(const CLI::App& command, const TrainCommand& flags, const Model& network, const Model* teacher,
                              const TrainingData& data) {
  const nn::ModelOptions& model = network.options;
  const text::Corpus& validation = data.validation;
  auto o = flags.train.options(train::run_facts(network, data.size()), !flags.init.empty(), model.decoder.d_model);
  o.validation = validation;
  o.warn_of_corpus = false;  // it is done, before the subwords were learnt
  if (validation.empty() && command.get_option("--patience")->count() == 0) o.patience = 0;
  if (flags.no_bleu || (validation.empty() && command.get_option("--best-by")->count() == 0)) o.best_by = train::Metric::loss;
  for (const Model* reader : {&network, teacher})
    if (reader != nullptr)
      o.max_length = std::min({o.max_length, reader->options.encoder.max_length, reader->options.decoder.max_length});
  o.communicator = flags.ranks;
  o.parts = flags.train.fit.given.parts;  // by the number of ranks
  o.precision = flags.place.products();
  o.output = flags.out;
  o.resume = flags.resume;
  o.overwrite = flags.overwrite;
  return o;
}

template <class T, Device D>
void report_test(const fs::path& folder, const text::Corpus& test) {
  const io::LoadFor purpose(Precision::full);
  const auto best = load<T, D>(folder);
  auto search = best.search;
  search.long_input = decode::LongInput::split;  // a sentence too long for the model counts like any other
  const decode::Translator translator(best.model, best.tokenizer, search);
  const auto translations = translator(test.sources());
  std::printf("test, %lld pairs, beam %lld, %s: %s\n", static_cast<long long>(test.size()),
              static_cast<long long>(translator.options().beam), folder.string().c_str(),
              text::bleu(translations, test.targets()).text().c_str());
  for (index_t i = 0; i < std::min<index_t>(10, test.size()); ++i)
    std::printf("  %s\n    %s\n    reference: %s\n", test[i].source.c_str(), nth(translations, i).c_str(),
                test[i].target.c_str());
}

/// Finds out before the work begins what would keep it from ending well.
void check_output(const TrainCommand& flags) {
  check_value(!flags.out.empty(), "train", "--out is empty, expected a folder");
  check_value(!flags.resume || !flags.overwrite, "train", "--resume and --overwrite exclude each other");
  std::error_code ignored;
  const bool exists = fs::exists(flags.out, ignored);
  if (exists && !fs::is_directory(flags.out, ignored)) throw IoError("train: ", flags.out, " is a file, expected a folder");
  if (flags.resume && !(exists && train::RunFolder(flags.out).has_state()))
    throw IoError("train: there is no checkpoint in ", flags.out, " to resume from");
  check_value(flags.resume || flags.overwrite || !exists || !train::RunFolder(flags.out).holds_run(), "train", flags.out,
              " holds another run: go on with it by --resume, lose it by --overwrite, or choose another --out");
  check_value(flags.resume || !exists || !io::FolderReader(flags.out).contains("config.json"), "train", flags.out,
              " holds a model, which `translate run` would take in place of the one that is trained; choose another --out");
  const auto& csv = flags.train.fit.given.csv;
  check_value(csv.empty() || flags.resume || flags.overwrite || !fs::exists(csv, ignored), "train", csv.string(),
              " is there already: go on with its run by --resume, lose it by --overwrite, or choose another --csv");
}

/// The folder whose model a training begins with: of the run that is resumed, of --init, or none.
const std::string& first_folder(const TrainCommand& flags) { return flags.resume ? flags.out : flags.init; }

/// The folder whose tokenizer it has: the same, or of --teacher, of the prepared pairs, or none.
const std::string& tokenizer_folder(const TrainCommand& flags) {
  const std::string& first = first_folder(flags);
  return !first.empty() ? first : !flags.teacher.empty() ? flags.teacher : flags.prepared;
}

/// `own`, the tokenizer of a folder, in the languages of the command line. If it names none and `own` has none for targets, in
/// those of `others`, which may be null.
text::AnyTokenizer in_languages(const TrainCommand& flags, const text::AnyTokenizer& own, const std::string& folder,
                                const text::AnyTokenizer* others = nullptr) {
  auto languages = flags.reverse ? flags.languages.reversed() : flags.languages;
  if (others != nullptr && !languages.given() && own.target_language().empty() && !others->target_language().empty())
    languages = {others->source_language(), others->target_language()};
  return languages.choose(own, folder);
}

/// The tokenizer to train with: `own`, that of `tokenizer_folder`. Targets begin as the model's `search` has it. It is in the
/// languages that the command line names; if it names none and the model has none for targets, in those of the prepared pairs.
/// Throws ValueError if these or the run that is resumed are in others, and for targets in no language.
text::AnyTokenizer training_tokenizer(const TrainCommand& flags, const text::AnyTokenizer& own,
                                      const decode::TranslatorOptions& search, const text::AnyTokenizer* prepared) {
  const std::string& folder = tokenizer_folder(flags);
  auto chosen = in_languages(flags, own, folder, flags.resume ? nullptr : prepared);
  if (flags.resume) {
    check_value(languages_text(chosen) == languages_text(own), "train", "--resume goes on with the model of ", folder,
                ", which translates ", languages_text(own), ", so it cannot translate ", languages_text(chosen));
  } else {
    check_target_language("train", chosen, folder);
    chosen = tokenizer_for_training(chosen, search);
  }
  if (prepared) check_prepared(*prepared, chosen, folder);
  return chosen;
}

/// Whether a token is the same piece of text in sources as in targets.
bool shares_tokens(const text::AnyTokenizer& tokenizer) {
  bool same = tokenizer.size() == tokenizer.target_size();
  for (token_t t = 0; same && t < tokenizer.size(); ++t) same = tokenizer.piece(t) == tokenizer.target_piece(t);
  return same;
}

/// Throws ValueError if the command line wants one embedding for sources and targets, for a student whose teacher has separate
/// vocabularies. If it says nothing of embeddings, such a student has two.
void check_tie(const TrainCommand& flags) {
  check_value(!flags.model.says_tie() || !flags.model.options(1000, train::recipe(1000)).share_embeddings, "train", "--tie ",
              flags.model.tie, " shares the embeddings of sources and targets, and the vocabularies of --teacher ", flags.teacher,
              " are separate; expected --tie head or none");
}

/// The same for the languages, and for whether prepared pairs go with the model, as far as the tokenizers alone can tell.
void check_tokenizer(const TrainCommand& flags) {
  std::optional<text::AnyTokenizer> prepared, own;
  decode::TranslatorOptions search;
  if (!flags.prepared.empty()) own = prepared = load_tokenizer(flags.prepared);
  const std::string& folder = tokenizer_folder(flags);
  if (flags.resume) own = load_tokenizer(train::RunFolder(flags.out).last());
  else if (folder != flags.prepared) own = tokenizer_of(folder), search = load_search(model_folder(folder));
  check_value(own || !flags.languages.given(), "train",
              "--from and --to choose among the languages of a model, and a new one has none: add --init or --teacher");
  if (!own) return;
  const auto chosen = training_tokenizer(flags, *own, search, prepared ? &*prepared : nullptr);
  if (flags.teacher.empty()) return;
  if (!flags.resume && flags.init.empty()) {  // a new model in the teacher's tokens
    if (!shares_tokens(chosen)) check_tie(flags);
    return;
  }
  // The model may have its languages from the prepared pairs, or of itself; the teacher then reads the pairs in them too.
  auto theirs = tokenizer_of(flags.teacher);
  const auto* languages = theirs.languages() == chosen.languages() ? &chosen : nullptr;
  theirs =
      tokenizer_for_training(in_languages(flags, theirs, flags.teacher, languages), load_search(model_folder(flags.teacher)));
  check_value(are_alike(chosen, theirs), "train", "--teacher ", flags.teacher, " has another tokenizer than the model of ",
              folder, ", and word by word they can be compared only with the same");
}

/// What the pairs suggest for a new model. A GPU does in minutes what takes processors hours: there they alone choose the sizes.
train::Recipe recipe_of(const TrainCommand& flags, index_t pairs) {
  return train::recipe(pairs, flags.place.device == "cpu" ? flags.train.minutes : 0);
}

/// Throws ValueError if there can be no such new model, or no such training of it.
void check_sizes(const TrainCommand& flags, index_t pairs) {
  const auto sizes = flags.model.options(1000, recipe_of(flags, pairs));
  nn::check(nn::model_options(sizes));
  (void)flags.train.options({.pairs = pairs, .width = sizes.d_model}, false, sizes.d_model);
}

/// Throws ValueError if the command line wants validations and there are no pairs for them.
void check_validation(const CLI::App& command, bool validates) {
  check_value(validates || command.get_option("--validate-every")->count() == 0, "train",
              "--validate-every needs validation pairs: more pairs, another --validation-size, or --validation-pairs");
}

/// With the tokenizer to train with in place of its folder's.
template <class T, Device D>
TranslationModel<T, D> for_training(TranslationModel<T, D> loaded, const TrainCommand& flags, const TrainingData& data) {
  loaded.tokenizer =
      training_tokenizer(flags, loaded.tokenizer, loaded.search, data.prepared ? &data.prepared->tokenizer : nullptr);
  // Translations are made to begin as targets do: in the language that was chosen, say, in place of the folder's.
  if (loaded.search.first >= 0) loaded.search.first = loaded.tokenizer.forced_begin();
  return loaded;
}

/// A new model with the vocabularies of a teacher, and its tokenizer and search.
template <class T, Device D>
TranslationModel<T, D> new_student(const TrainCommand& flags, const TranslationModel<T, D>& teacher, const TrainingData& data) {
  auto student = for_training(teacher, flags, data);
  check_sizes(flags, data.size());
  auto options = flags.model.options(0, recipe_of(flags, data.size()));
  options.source_vocabulary = teacher.model.options.encoder.vocabulary;
  options.target_vocabulary = teacher.model.options.decoder.vocabulary;
  if (options.source_vocabulary != options.target_vocabulary || !shares_tokens(student.tokenizer)) {
    check_tie(flags);  // it is seen earlier, but for a model with other vocabularies than its tokenizer
    options.share_embeddings = false;
  }
  student.model = nn::Transformer<T, D>(options);
  return student;
}

/// Whether the matrices of a folder's model stay as they are beside adapters that learn, on the processor: they then need not be
/// floats.
bool keeps_matrices(const TrainCommand& flags) {
  const std::string& folder = first_folder(flags);
  return flags.place.device == "cpu" && !folder.empty() && (flags.adapters.wanted() || trains_adapters(folder));
}

/// The model and the tokenizer to begin with, and how the model is searched: those of the run that is resumed, of `--init`, or
/// new ones. `teacher` may be null.
template <class T, Device D>
TranslationModel<T, D> first_model(const TrainCommand& flags, const TranslationModel<T, D>* teacher, const TrainingData& data) {
  if (flags.resume || !flags.init.empty()) {
    std::optional<io::LoadFor> purpose;
    if (keeps_matrices(flags)) purpose.emplace(flags.resume ? Precision::full : flags.place.products(), io::Use::adapters);
    auto loaded = for_training(load<T, D>(flags.resume ? fs::path(flags.out) / "last" : fs::path(flags.init)), flags, data);
    if (!flags.resume) {
      loaded.model = with_dropout(loaded.model, flags.model);
      if (flags.adapters.wanted()) nn::add_adapters(loaded.model, flags.adapters.flags.given);
    }
    return loaded;
  }
  if (teacher != nullptr) return new_student(flags, *teacher, data);
  const auto recipe = recipe_of(flags, data.size());
  check_sizes(flags, data.size());  // before minutes are spent on subwords
  if (!data.prepared) std::fprintf(stderr, "train: learning subwords\n");
  text::AnyTokenizer tokenizer =
      data.prepared
          ? data.prepared->tokenizer
          : text::SentencePiece::train(data.train, {.vocabulary = flags.vocabulary > 0 ? flags.vocabulary : recipe.vocabulary});
  nn::Transformer<T, D> model(flags.model.options(tokenizer.size(), recipe));
  return {.model = std::move(model), .tokenizer = std::move(tokenizer)};
}

/// The same in each rank: what the first one has, which alone sees the files, and alone needs to know of searches.
template <class T, Device D>
TranslationModel<T, D> first_model_of_ranks(const TrainCommand& flags, const TranslationModel<T, D>* teacher,
                                            const TrainingData& data) {
  if (!flags.ranks) return first_model<T, D>(flags, teacher, data);
  const TemporaryFolder folder;
  if (!leads(flags.ranks)) {
    share(flags.ranks, folder.path());
    const io::LoadFor purpose(Precision::full);  // what the first one holds in bfloat16 stays so
    return load<T, D>(folder.path());
  }
  auto first = first_model<T, D>(flags, teacher, data);
  io::save(folder.path(), first.model, first.tokenizer, {.stored = {}});
  share(flags.ranks, folder.path());
  return first;
}

index_t parts_of(const TrainCommand& flags) {
  const auto& given = flags.train.fit.given;
  return train::completed({.communicator = flags.ranks, .parts = given.parts, .fast_sums = given.fast_sums}, {}).parts;
}

/// Trains, once it is known where and in what numbers. `lock` is that of the folder, if there is one already.
template <class T, Device D>
void train_model(const CLI::App& command, const TrainCommand& flags, std::optional<io::FolderLock>& lock) {
  const fs::path out = flags.out;
  SharedFiles shared(flags.ranks);
  const auto data = training_data(flags, shared);
  check_validation(command, !data.validation.empty());
  seed(flags.train.fit.given.seed);
  if (!lock && leads(flags.ranks)) {
    lock.emplace(out);    // makes it, or says why it cannot be
    check_output(flags);  // another run may have come and gone meanwhile
  }
  for (const auto& suspicion : text::suspicions(data.train)) std::fprintf(stderr, "train: warning: %s\n", suspicion.c_str());
  std::optional<TranslationModel<T, D>> teacher;
  if (!flags.teacher.empty()) {
    const io::LoadFor purpose(Precision::full);  // nothing in it learns
    teacher = load<T, D>(shared(leads(flags.ranks) ? model_folder(flags.teacher) : fs::path()));
    std::fprintf(stderr, "train: the teacher is %s, %s\n", flags.teacher.c_str(), size_text(teacher->model.options).c_str());
  }
  auto first = first_model_of_ranks<T, D>(flags, teacher ? &*teacher : nullptr, data);
  auto& model = first.model;
  const auto& tokenizer = first.tokenizer;
  report_adapters(model);
  freeze(model, flags.freeze);
  auto options = fit_options(command, flags, model, teacher ? &teacher->model : nullptr, data);
  // The settings of a run that is refused, or whose models cannot be read, must not take the place of those of the run that is
  // there: they are saved at the first step, or with a model that is saved before it.
  bool unsaved = leads(flags.ranks);
  const auto save_settings_once = [&] {
    if (std::exchange(unsaved, false)) save_settings(command, out, parts_of(flags));
  };
  options.on_step = [&](const train::CurvePoint&) { save_settings_once(); };
  options.save_more = [&](const fs::path& folder) {
    save_settings_once();
    decode::save_search(folder, first.search);
  };
  const decode::Translator greedy(model, tokenizer, {.beam = 1, .precision = options.precision});
  if (!data.validation.empty() && !flags.no_bleu)
    options.translate = [&greedy](const std::vector<std::string>& sources) { return greedy(sources); };
  const std::string languages = languages_text(tokenizer);
  std::fprintf(stderr,
               "train: %lld pairs to learn from, %lld for validation, %lld for test; %lld subwords%s, %d threads\n"
               "train: Ctrl-C stops and saves; checkpoints are in %s\n"
               "train: every setting has an option, see translate train --help\n"
               "train: %s\n",
               static_cast<long long>(data.size()), static_cast<long long>(data.validation.size()),
               static_cast<long long>(data.test.size()), static_cast<long long>(tokenizer.size()),
               (languages.empty() ? "" : ", " + languages).c_str(), threads(), flags.out.c_str(),
               size_text(model.options).c_str());

  std::optional<train::StopOnInterrupt> interrupt(std::in_place);
  options.stop = &interrupt->flag();
  options.lock = lock ? &*lock : nullptr;
  const auto taught_by = teacher ? train::Teacher<T, D>(teacher->model) : train::Teacher<T, D>();
  const auto report = data.prepared ? train::fit(model, data.prepared->pairs, tokenizer, options, taught_by)
                                    : train::fit(model, data.train, tokenizer, options, taught_by);
  if (report.stopped == train::StopReason::interrupted) interrupt->ignore_afterwards();
  interrupt.reset();
  if (report.stopped == train::StopReason::interrupted) {
    std::fprintf(stderr, "train: stopped; go on with: translate train --resume --out %s\n", flags.out.c_str());
    exit_code = 130;
    return;
  }
  if (!leads(flags.ranks)) return;
  if (!data.test.empty()) report_test<T, D>(train::model_folder(out), data.test);
  std::fprintf(stderr, "train: translate with: translate run --model %s\n", flags.out.c_str());
}

/// The same ranks, each with a GPU of its own, where that is where they train.
RankList on_devices(RankList ranks, [[maybe_unused]] const Place& place) {
#if defined(TRANSLATE_WITH_NCCL)
  if (ranks && place.device == "cuda") return nccl::world(std::move(ranks));
#endif
  return ranks;
}

void start_rank(CLI::App& command, TrainCommand& flags, std::optional<io::FolderLock>& lock) {
  if (leads(flags.ranks)) {
    std::error_code ignored;
    if (!flags.teacher.empty()) check_teacher_apart("train", flags.teacher, flags.out);
    if (!lock && fs::is_directory(flags.out, ignored)) lock.emplace(flags.out);
    check_output(flags);
  }
  if (flags.resume) {
    const fs::path path = fs::path(flags.out) / settings_name;
    std::string settings = leads(flags.ranks) ? io::read_file(path) : "";
    if (flags.ranks) flags.ranks->broadcast(settings);
    restore_settings(command, flags.out, settings, path.string());
  }
  check_training(command, flags);
  flags.ranks = on_devices(flags.ranks, flags.place);
  flags.place.with_types(
      [&](auto types) { train_model<typename decltype(types)::T, typename decltype(types)::D>(command, flags, lock); });
}

}  // namespace

void check_training(const CLI::App& command, const TrainCommand& flags) {
  if (!flags.init.empty()) {
    check_init(command);
    if (!flags.resume && leads(flags.ranks)) {  // a run that goes on has its own model
      if (!keeps_matrices(flags))
        check_floats("train", flags.init, "; beside them adapters alone are trained, on the CPU (--adapter-rank)");
      const bool whole = !flags.adapters.wanted() && flags.freeze.empty();
      if (flags.place.device == "cpu" && whole && !trains_adapters(flags.init))
        check_memory_to_train(flags.init, flags.train.kept_for_a_weight());
    }
  } else {
    nn::check(nn::model_options(flags.model.options(1000, train::recipe(1000))));
  }
  if (leads(flags.ranks) && flags.place.precision == "bf16" && keeps_matrices(flags))
    check_value(!is_quantized(first_folder(flags)), "train", "--precision bf16 and the model of ", first_folder(flags),
                ", which is of 8-bit integers, exclude each other");
  flags.adapters.check(!flags.init.empty());
  flags.train.check(!flags.init.empty());
  const auto& fit = flags.train.fit;
  check_value(!flags.no_bleu || !fit.has("--best-by") || fit.given.best_by == train::Metric::loss, "train",
              "--no-bleu and --best-by bleu exclude each other");
  if (flags.teacher.empty()) {
    for (const char* name : {"--distillation-weight", "--distillation-temperature"})
      check_value(!fit.has(name), "train", name, " goes with --teacher");
  } else {
    check_value(command.get_option("--vocabulary")->count() == 0, "train",
                "--vocabulary is for subwords that are learnt; a student has those of its --teacher");
    check_value(fit.given.r_drop == 0, "train", "--r-drop and --teacher exclude each other");
    check_value(fit.given.distillation_weight > 0, "train", "--distillation-weight is 0, so that --teacher would not be asked");
    if (leads(flags.ranks)) check_floats("train", flags.teacher);
  }
  if (leads(flags.ranks)) check_tokenizer(flags);
}

void check_teacher(const TrainCommand& flags) {
  const io::LoadFor purpose(Precision::full);
  flags.place.with_types(
      [&](auto types) { (void)load<typename decltype(types)::T, typename decltype(types)::D>(model_folder(flags.teacher)); });
}

void check_new_training(const CLI::App& command, const TrainCommand& flags, index_t pairs, bool validates) {
  check_validation(command, validates);
  check_sizes(flags, pairs);
}

void start_training(CLI::App& command, TrainCommand& flags, std::optional<io::FolderLock>& lock) {
  outlive_readers();  // where who reads the progress goes away, the training does not
  flags.ranks = launched_ranks();
  try {
    start_rank(command, flags, lock);
  } catch (const std::exception& e) {  // which the others would otherwise wait for
    if (flags.ranks) flags.ranks->fail(e.what());
    throw;
  }
}

void add_train(CLI::App& app) {
  auto* command = app.add_subcommand("train", "Train a model on sentence pairs");
  command->footer(
      "Holds some pairs out, learns subwords of both languages from the others, and trains a model on them. At each\n"
      "validation it translates the held-out pairs; the best model so far is in best/ of --out, the last one in last/.\n"
      "Ctrl-C saves and stops; --resume goes on as if it had never stopped. Under mpirun -n 8 eight processes train it\n"
      "together, where the program was built with MPI.\n\n"
      "  translate train --pairs en-es.tsv --out model --minutes 45\n"
      "  translate train --resume --out model\n"
      "  translate train --teacher large --preset tiny --pairs en-es.tsv --out small\n"
      "  translate train --init model --freeze 'encoder.*' --pairs law.tsv --out law\n"
      "  translate train --init model --adapter-rank 8 --pairs law.tsv --out law\n"
      "  translate run --model model");
  auto flags = std::make_shared<TrainCommand>();
  add_training(*command, *flags);
  command->callback([command, flags] {
    std::optional<io::FolderLock> lock;  // what is there may be another run's, which goes on
    start_training(*command, *flags, lock);
  });
}

}  // namespace translate
