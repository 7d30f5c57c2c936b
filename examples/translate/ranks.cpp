#include "ranks.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <random>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/core/number_text.hpp"
#include "attend/io/file.hpp"

#if defined(TRANSLATE_WITH_MPI)
#include <fcntl.h>
#include <unistd.h>

#include "attend/core/printable.hpp"
#include "attend/cpu/processor.hpp"
#include "attend/mpi.hpp"
#include "attend/train/ranks.hpp"
#include "attend/version.hpp"
#endif

namespace translate {

namespace {

namespace fs = std::filesystem;
using namespace attend;

/// How many processes the launcher of this one says it has started, and by which variable; one if there is none that is known.
/// What the innermost launcher says counts: mpirun within a step of SLURM starts processes of its own. SLURM_NTASKS will not do,
/// which a batch script has too.
struct Launched {
  int size = 1;
  const char* variable = "";
};
Launched launched() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    int size = 1;
    if (const char* text = std::getenv(name); text != nullptr && parse_number(std::string_view(text), size)) return {size, name};
  }
  return {};
}

#if defined(TRANSLATE_WITH_MPI)
/// Silences this process.
void be_silent() {
  for (std::FILE* stream : {stdout, stderr})
    if (std::freopen("/dev/null", "w", stream) == nullptr) throw IoError("ranks: /dev/null cannot be opened");
}

/// Prints a line even from a process that is silent.
mpi::LostLeader last_words() {
  static const int errors = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
  return [](const std::string& line) {
    const std::string text = "translate: " + line + "\n";
    (void)!::write(errors, text.data(), text.size());
  };
}

/// The command line without what each process may have its own of.
std::vector<std::string> shared_arguments() {
  std::vector<std::string> shared;
  for (std::size_t i = 0; i < command_line.size(); ++i) {
    if (command_line[i] == "--threads") ++i;
    else if (!command_line[i].starts_with("--threads=")) shared.push_back(command_line[i]);
  }
  return shared;
}
/// The word there, after the option whose value it may be.
std::string quoted_argument(std::span<const std::string> words, std::size_t i) {
  if (i >= words.size()) return "nothing more";
  const bool is_value = i > 0 && words[i - 1].starts_with("--") && !words[i].starts_with("-");
  return "`" + attend::detail::printable((is_value ? words[i - 1] + " " : "") + words[i]) + "`";
}
/// Changes with any byte of this program; empty where that cannot be known.
std::string build() {
  try {
    return fingerprint("/proc/self/exe");
  } catch (const std::exception&) {
    return "";
  }
}

/// Throws ValueError in all ranks unless they are the same program, called with the same arguments.
void check_alike(const RankList& ranks) {
  std::vector<std::string> ours{"version " + std::string(version) + " with the instructions " + std::string(processor().name),
                                build()};
  constexpr std::size_t before = 2;
  for (auto& word : shared_arguments()) ours.push_back(std::move(word));
  std::string packed = train::packed_texts(ours);
  ranks->broadcast(packed);
  const auto first = train::unpacked_texts(packed);
  std::string fault;
  if (first.size() < before || ours[0] != first[0]) {
    fault = ours[0] + ", rank 0 " + (first.empty() ? "" : first[0]);
  } else if (ours != first) {
    const std::span<const std::string> words = std::span(ours).subspan(before), theirs = std::span(first).subspan(before);
    std::size_t i = 0;
    while (i < words.size() && i < theirs.size() && words[i] == theirs[i]) ++i;
    fault = i < words.size() || i < theirs.size()
                ? "the command line has " + quoted_argument(words, i) + ", that of rank 0 " + quoted_argument(theirs, i)
                : "it runs another build of the program than rank 0";
  }
  train::Ranks(ranks).check("ranks differ from rank 0", fault);
}
#endif

}  // namespace

RankList launched_ranks() {
  const auto [size, variable] = launched();
#if defined(TRANSLATE_WITH_MPI)
  if (!mpi::launched() && size == 1) return nullptr;
  auto ranks = mpi::launched() ? mpi::world(1800, last_words()) : nullptr;
  if (size > 1 && (!ranks || ranks->size() == 1))
    throw ValueError(std::to_string(size), " processes were started together (", variable, "), and ", mpi::library(),
                     ", which this program was built with, sees one: start it by that MPI's own mpirun, or under SLURM by ",
                     "srun --mpi=pmix");
  if (!leads(ranks)) be_silent();
  check_alike(ranks);
  return ranks;
#else
  if (size > 1)
    throw ValueError(std::to_string(size), " processes were started together (", variable,
                     "), and this program was built without MPI: build it with -D ATTEND_MPI=ON");
  return nullptr;
#endif
}

void check_one_process(const char* command) {
  const int size = launched().size;
  check_value(size <= 1, command, "it is for one process, and ", size, " were started");
}

void share(const RankList& ranks, text::Corpus& corpus) {
  if (!ranks) return;
  std::vector<std::string> texts;
  for (const auto& pair : corpus) texts.push_back(pair.source), texts.push_back(pair.target);
  std::string packed = train::packed_texts(texts);
  ranks->broadcast(packed);
  if (leads(ranks)) return;
  texts = train::unpacked_texts(packed);
  for (std::size_t i = 0; i + 1 < texts.size(); i += 2) corpus.pairs.push_back({texts[i], texts[i + 1]});
}

namespace {

/// The regular files of a folder by their names, or the one file.
std::vector<fs::path> files_of(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

/// Copies files of the first process into a folder of each of the others.
void share_files(const RankList& ranks, const std::vector<fs::path>& files, const fs::path& folder) {
  std::size_t n = files.size();
  ranks->broadcast(n);
  for (std::size_t i = 0; i < n; ++i) {
    std::string name = leads(ranks) ? files[i].filename().string() : "";
    ranks->broadcast(name);
    std::optional<io::InputFile> in;
    std::ofstream out;
    if (leads(ranks)) in.emplace(files[i]);
    else out.open(folder / name, std::ios::binary);
    std::size_t size = in ? in->size() : 0;
    ranks->broadcast(size);
    std::vector<std::byte> block(std::min(size, std::size_t{1} << 24));
    for (std::size_t at = 0; at < size; at += block.size()) {
      const auto part = std::span(block).first(std::min(block.size(), size - at));
      if (in) in->read_at(at, part);
      ranks->broadcast(part);
      out.write(reinterpret_cast<const char*>(part.data()), static_cast<std::streamsize>(part.size()));
    }
    if (!in && !out.flush()) throw IoError("ranks: ", (folder / name).string(), " cannot be written");
  }
}

}  // namespace

void share(const RankList& ranks, const fs::path& folder) {
  if (ranks) share_files(ranks, leads(ranks) ? files_of(folder) : std::vector<fs::path>(), folder);
}

std::string fingerprint(const fs::path& path) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto mix = [&](std::string_view bytes) {  // FNV-1a, eight bytes at a time
    std::uint64_t word = bytes.size();
    for (std::size_t at = 0; at <= bytes.size(); at += sizeof word) {
      hash = (hash ^ word) * 0x100000001b3;
      hash ^= hash >> 29;  // or high bytes would never reach low ones
      word = 0;
      std::memcpy(&word, bytes.data() + at, std::min(sizeof word, bytes.size() - at));
    }
    hash = (hash ^ word) * 0x100000001b3;
  };
  std::vector<std::byte> block(std::size_t{1} << 20);
  for (const auto& file : files_of(path)) {
    mix(file.filename().string());
    const io::InputFile input(file);
    for (std::size_t at = 0; at < input.size(); at += block.size()) {
      const auto part = std::span(block).first(std::min(block.size(), input.size() - at));
      input.read_at(at, part);
      mix({reinterpret_cast<const char*>(part.data()), part.size()});
    }
  }
  return std::to_string(hash);
}

fs::path SharedFiles::operator()(fs::path path, const Fingerprint& print) {
  if (!ranks_ || ranks_->size() == 1) return path;
  path = fs::weakly_canonical(path);  // without `..`
  std::string name = (path.has_filename() ? path : path.parent_path()).string();
  ranks_->broadcast(name);
  path = name;
  std::string mine;
  try {
    mine = print(path);
  } catch (const Error&) {
    if (leads(ranks_)) throw;
  } catch (const fs::filesystem_error&) {
    if (leads(ranks_)) throw;
  }
  const auto all = ranks_->gather(mine);
  if (std::all_of(all.begin(), all.end(), [&](const auto& other) { return other == all.front(); })) return path;
  bool is_folder = leads(ranks_) && fs::is_directory(path);
  ranks_->broadcast(is_folder);
  const auto& copy = copies_.emplace_back(std::make_unique<TemporaryFolder>());
  const fs::path to = copy->path() / path.filename();
  if (!leads(ranks_) && is_folder) fs::create_directories(to);
  share_files(ranks_, leads(ranks_) ? files_of(path) : std::vector<fs::path>(), is_folder ? to : copy->path());
  return leads(ranks_) ? path : to;
}

TemporaryFolder::TemporaryFolder() {
  std::error_code ignored;
  const fs::path place = fs::temp_directory_path(ignored);
  std::random_device random;
  bool made = false;
  do {
    path_ = place / ("translate-" + std::to_string(random()) + "-" + std::to_string(random()));
    made = attend::detail::system::make_private_folder(path_);
  } while (!made && errno == EEXIST);
  if (!made) throw IoError("ranks: no folder can be made in ", place.string());
}
TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace translate
