#include "line_work.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "attend/io/file.hpp"
#include "attend/io/json.hpp"
#include "attend/train/deal.hpp"
#include "attend/version.hpp"
#include "commands.hpp"
#include "line_input.hpp"
#include "making.hpp"
#include "model_folder.hpp"
#include "model_memory.hpp"
#include "output.hpp"

namespace translate {

namespace {

using namespace attend;
namespace fs = std::filesystem;
namespace files = attend::detail::system;

// As bytes that go from process to process.

std::string packed(const Lines& lines) {
  std::vector<std::string> texts{std::to_string(lines.before)};
  for (const auto& line : lines.lines) texts.push_back(line.text), texts.push_back(line.fault);
  return train::packed_texts(texts);
}
Lines unpacked_lines(const std::string& bytes) {
  auto texts = train::unpacked_texts(bytes);
  Lines lines{.before = std::stoull(texts.at(0)), .lines = {}};
  for (std::size_t i = 1; i + 1 < texts.size(); i += 2) lines.lines.push_back({std::move(texts[i]), std::move(texts[i + 1])});
  return lines;
}
std::string packed(const LineResults& results) {
  std::vector<std::string> texts{results.text, results.faulty ? "faulty" : "", results.error};
  texts.insert(texts.end(), results.messages.begin(), results.messages.end());
  return train::packed_texts(texts);
}
LineResults unpacked_results(const std::string& bytes) {
  auto texts = train::unpacked_texts(bytes);
  return {.text = std::move(texts.at(0)),
          .messages = {texts.begin() + 3, texts.end()},
          .faulty = !texts.at(1).empty(),
          .error = std::move(texts.at(2))};
}

/// A hash of all lines so far (FNV-1a), to tell whether they are the same as before.
class Fingerprint {
 public:
  void add(const std::string& line, const std::string& fault) {
    for (const auto* text : {&line, &fault}) {
      for (const char c : *text) mix(static_cast<unsigned char>(c));
      mix('\n');
    }
  }
  [[nodiscard]] std::string text() const { return std::to_string(hash_); }

 private:
  void mix(unsigned char byte) { hash_ = (hash_ ^ byte) * 0x100000001b3; }
  std::uint64_t hash_ = 0xcbf29ce484222325;
};

/// The options that the results of lines depend on, and the models.
Making making(const CLI::App& command, const ModelsFlags& models) {
  auto all = given_options(command);
  all["version"] = version;
  for (const char* name : {"--in", "--out", "--buffer", "--resume", "--overwrite", "--help", "--model", "--shortlist"})
    all.erase(name);
  // Before their files are read whole for the fingerprints: a model that does not fit into memory is refused at once.
  if (models.place.device == "cpu") check_memory(models.folders, models.place.products());
  std::string files;
  for (const auto& folder : models.folders) files += (files.empty() ? "" : " ") + fingerprint(model_folder(folder));
  all["the files of --model"] = files;
  if (!models.shortlist.empty()) all["the file of --shortlist"] = fingerprint(models.shortlist);
  return all;
}

/// So many lines of the input, and what they are.
struct Beginning {
  std::size_t lines = 0;
  std::string fingerprint = Fingerprint().text();
};
/// What stands in --out.part, and which lines it comes from.
struct Progress {
  Beginning read;
  std::size_t bytes = 0;
  bool faulty = false;
};

/// What a link leads to, be it there or not.
fs::path end_of_links(fs::path path) {
  for (int links = 0; links < 40 && fs::is_symlink(path); ++links) path = path.parent_path() / fs::read_symlink(path);
  return path;
}

/// Where results go.
class LineOutput {
 public:
  /// `input` is where lines come from.
  LineOutput(const char* name, const std::function<Making()>& made_with, const LineFlags& flags, const LineInput& input)
      : advice_(flags.advice) {
    if (flags.out.empty()) {
      check_value(!flags.resume && !flags.overwrite, name, flags.resume ? "--resume" : "--overwrite", " is for an --out FILE");
      return;
    }
    check_value(!flags.resume || !flags.overwrite, name, "--resume and --overwrite exclude each other");
    out_ = end_of_links(flags.out).string();
    const bool whole = fs::exists(out_);
    check_value(!whole || fs::is_regular_file(out_), name, "--out ", flags.out, " is no regular file");
    const bool begun = fs::exists(part()) && fs::file_size(part()) > 0;
    check_value(flags.resume || flags.overwrite || !(whole || begun), name, whole ? flags.out : part(),
                " is there already: go on with it by --resume, lose it by --overwrite, or choose another --out");
    if (flags.resume && whole && !begun) {
      finished_ = true;
      return;
    }
    check_value(!flags.resume || !begun || fs::exists(record()), name, part(), " is there, and ", record(),
                ", which says how far it goes, is not: lose it by --overwrite, or choose another --out");
    made_with_ = made_with();
    open(name, input);
    if (flags.resume && fs::exists(record())) {
      read(name);
    } else {
      std::error_code ignored;
      fs::remove(record(), ignored);  // of a run that is lost: it must not be taken for the record of this one
    }
    if (!files::truncate(file_.get(), progress_.bytes)) attend::detail::throw_errno("write", part());
    written_ = progress_.bytes;
  }
  ~LineOutput() {
    if (!file_) return;
    if (written_ == 0) files::remove(part());  // nothing came of it
  }
  LineOutput(const LineOutput&) = delete;
  LineOutput& operator=(const LineOutput&) = delete;

  /// Whether all was done before.
  [[nodiscard]] bool finished() const { return finished_; }
  /// What was there before.
  [[nodiscard]] const Progress& progress() const { return progress_; }

  /// The results of the next lines, which are the last of `read`.
  void take(const LineResults& results, Beginning read) {
    write(results.text);
    for (const auto& message : results.messages) std::fprintf(stderr, "translate: %s\n", message.c_str());
    if (results.error.empty()) progress_.read = std::move(read);
    progress_.faulty = progress_.faulty || results.faulty;
    if (results.faulty) exit_code = 1;
    if (!results.error.empty()) throw ValueError(results.error);
    progress_.bytes = written_;
    if (file_ && Clock::now() - noted_ > std::chrono::seconds(1)) note();
  }
  /// Lets the file appear.
  void finish() {
    if (progress_.faulty) exit_code = 1;
    if (!file_) return;
    if (!files::sync(file_.get()) || !files::rename(part(), out_)) attend::detail::throw_errno("write", out_);
    file_.close();
    std::error_code ignored;
    fs::remove(record(), ignored);
    attend::detail::sync_folder("write", attend::detail::folder_of(out_));
  }
  /// Keeps what there is for a run that resumes this one.
  void keep() noexcept {
    if (!file_ || written_ == 0) return;
    try {
      note();
      std::fprintf(stderr, "translate: %zu lines are in %s; %s goes on with them\n", progress_.read.lines, part().c_str(),
                   advice_);
    } catch (...) {  // what was noted before is still good
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] std::string part() const { return out_ + ".part"; }
  [[nodiscard]] std::string record() const { return out_ + ".part.json"; }

  /// The file of what is done so far, which no other process writes.
  void open(const char* name, const LineInput& input) {
    file_ = attend::detail::Descriptor(files::open(part(), files::Open::update));
    if (!file_) attend::detail::throw_errno("write", part());
    const bool locked = files::lock(file_.get(), files::Lock::exclusive);
    const auto opened = files::status(file_.get()), named = files::status(fs::path(part())),
               read = files::status(input.descriptor());
    const bool same = opened && named && named->is(*opened), from_itself = opened && read && read->is(*opened);
    if (locked && same && !from_itself) return;
    file_.close();
    check_value(!from_itself, name, "--in is ", part(), ", where --out would be written");
    throw IoError(name, ": ", part(), " is being written by another process");
  }
  void write(const std::string& text) {
    if (!file_) {
      write_out(text);
      return;
    }
    for (std::size_t at = 0; at < text.size();) {
      const std::ptrdiff_t n = files::write(file_.get(), text.data() + at, text.size() - at);
      if (n < 0) attend::detail::throw_errno("write", part());
      at += n;
      written_ += n;
    }
  }
  void note() {
    if (!files::sync(file_.get())) attend::detail::throw_errno("write", part());
    io::Json json{{"lines", progress_.read.lines},
                  {"bytes", progress_.bytes},
                  {"faulty", progress_.faulty},
                  {"fingerprint", progress_.read.fingerprint},
                  {"made_with", made_with_}};
    io::write_json(record(), json);
    noted_ = Clock::now();
  }
  void read(const char* name) {
    const auto json = io::parse_json(io::read_file(record()), record());
    const io::JsonObject object(json, record());
    const auto count = [&](const char* key) { return static_cast<std::size_t>(object.get<std::uint64_t>(key)); };
    progress_ = {.read = {.lines = count("lines"), .fingerprint = object.get<std::string>("fingerprint")},
                 .bytes = count("bytes"),
                 .faulty = object.get<bool>("faulty")};
    check_making(read_making(object.object("made_with")), made_with_, name, "--resume: " + part());
    const auto status = files::status(file_.get());
    if (!status) attend::detail::throw_errno("read", part());
    if (status->size < progress_.bytes)
      throw FormatError(part(), " has ", status->size, " bytes, ", record(), " says ", progress_.bytes);
  }

  std::string out_;
  const char* advice_;
  attend::detail::Descriptor file_;
  bool finished_ = false;
  Making made_with_;
  Progress progress_;
  std::size_t written_ = 0;    // bytes
  Clock::time_point noted_{};  // the first results are noted at once
};

/// Cuts the input into pieces.
class LineSource {
 public:
  LineSource(const LineFlags& flags, std::size_t buffer) : input_(flags.in), buffer_(buffer) {}

  /// Passes over lines that are done. Throws ValueError if they are not the same lines.
  void skip(const Beginning& done, const char* name) {
    std::string line, fault;
    while (input_.number() < done.lines && input_.next(line, fault)) fingerprint_.add(line, fault);
    check_value(input_.number() == done.lines && fingerprint_.text() == done.fingerprint, name, "--resume: the first ",
                done.lines, " lines of ", input_.name(), " are not those that the run was begun with");
  }

  [[nodiscard]] const LineInput& input() const { return input_; }
  bool ready() { return error_ || input_.ready(); }
  /// A line that comes alone never waits for others; what could be read before an error still counts.
  bool next(std::string& piece) {
    if (error_) std::rethrow_exception(error_);
    Lines lines{.before = input_.number(), .lines = {}};
    try {
      for (Lines::Line line; input_.next(line.text, line.fault);) {
        lines.lines.push_back(line);
        fingerprint_.add(line.text, line.fault);
        if (lines.lines.size() >= buffer_ || !input_.ready()) break;
      }
    } catch (const IoError&) {
      if (lines.lines.empty()) throw;
      error_ = std::current_exception();
    }
    if (lines.lines.empty()) return false;
    piece = packed(lines);
    given_.push_back({input_.number(), fingerprint_.text()});
    return true;
  }
  /// All lines up to the end of the first piece for which this has not been asked yet.
  Beginning next_given() {
    Beginning beginning = std::move(given_.front());
    given_.pop_front();
    return beginning;
  }

 private:
  LineInput input_;
  std::size_t buffer_;
  Fingerprint fingerprint_;  // of all lines so far
  std::deque<Beginning> given_;
  std::exception_ptr error_;
};

/// What processes other than the first have.
struct NoLines {
  static bool ready() { return true; }
  static bool next(std::string&) { return false; }
};

/// The models, at paths where this process can read them.
ModelsFlags shared_models(const ModelsFlags& models, SharedFiles& files, bool leading) {
  auto own = models;
  for (auto& folder : own.folders) folder = files(leading ? model_folder(folder) : fs::path(folder)).string();
  if (!own.shortlist.empty()) own.shortlist = files(own.shortlist).string();
  return own;
}

}  // namespace

void LineFlags::add_to(CLI::App& command, const std::string& done) {
  command.add_option("--in", in, "Lines to be " + done + ", in place of standard input")->type_name("FILE");
  auto* output = command.add_option("--out", out, "Where they go, in place of standard output; appears when all is done");
  output->type_name("FILE");
  command.add_flag("--resume", resume, "Go on where a run that wrote to --out was ended")->needs(output);
  command.add_flag("--overwrite", overwrite, "Begin anew where --out is there already")->needs(output);
  command
      .add_option(
          "--buffer", buffer,
          "The most lines " + done + " together (512; 128 by each of several processes); a line that comes alone never waits")
      ->check(CLI::Range(1, 1 << 20));
}

void work_on_lines(const CLI::App& command, const LineFlags& flags, const ModelsFlags& models, const MakeWork& make_work) {
  const std::string name = command.get_name();
  work_on_lines(
      name.c_str(), [&] { return making(command, models); }, flags, models, make_work);
}

void work_on_lines(const char* name, const std::function<Making()>& made_with, const LineFlags& flags, const ModelsFlags& models,
                   const MakeWork& make_work) {
  const RankList ranks = launched_ranks();
  try {
    const bool several = ranks && ranks->size() > 1;
    check_value(!several || flags.for_one_process == nullptr, name, flags.for_one_process ? flags.for_one_process : "",
                " is for one process");
    std::optional<LineOutput> output;
    std::optional<LineSource> source;
    bool finished = false;
    if (leads(ranks)) {
      source.emplace(flags, flags.buffer > 0 ? flags.buffer : several ? 128 : 512);
      output.emplace(name, made_with, flags, source->input());
      finished = output->finished();
      if (finished) std::fprintf(stderr, "translate: %s is there as a whole\n", flags.out.c_str());
      else source->skip(output->progress().read, name);
    }
    if (ranks) ranks->broadcast(finished);
    if (finished) return;
    SharedFiles files(ranks);
    const auto work = make_work(several ? shared_models(models, files, leads(ranks)) : models);
    const auto do_piece = [&](const std::string& piece) { return packed(work(unpacked_lines(piece))); };
    if (!leads(ranks)) {
      train::deal(ranks.get(), NoLines(), do_piece, [](const std::string&) {});
      return;
    }
    try {
      train::deal(ranks.get(), *source, do_piece,
                  [&](const std::string& bytes) { output->take(unpacked_results(bytes), source->next_given()); });
    } catch (...) {
      output->keep();
      throw;
    }
    output->finish();
  } catch (const std::exception& e) {  // which the others would otherwise wait for
    if (ranks) ranks->fail(e.what());
    throw;
  }
}

}  // namespace translate
