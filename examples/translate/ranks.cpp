#include "ranks.hpp"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <system_error>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/core/number_text.hpp"
#include "attend/io/file.hpp"

#if defined(TRANSLATE_WITH_MPI)
#include "attend/mpi.hpp"
#endif

namespace translate {

namespace {

namespace fs = std::filesystem;
using namespace attend;

/// Lets this process be silent.
void be_silent() {
  for (std::FILE* stream : {stdout, stderr})
    if (std::freopen("/dev/null", "w", stream) == nullptr) throw IoError("ranks: /dev/null cannot be opened");
}

#if !defined(TRANSLATE_WITH_MPI)
/// How many processes the launchers that are known say they have started.
int launched_size() {
  int size = 1;
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"})
    if (const char* text = std::getenv(name)) (void)parse_number(std::string_view(text), size);
  return size;
}
#endif

}  // namespace

RankList launched_ranks() {
#if defined(TRANSLATE_WITH_MPI)
  if (!mpi::launched()) return nullptr;
  auto ranks = mpi::world();
  if (!leads(ranks)) be_silent();
  return ranks;
#else
  (void)&be_silent;
  if (const int size = launched_size(); size > 1)
    throw ValueError(std::to_string(size),
                     " processes were started together, and this program was built without MPI: build it with ",
                     "-D ATTEND_MPI=ON");
  return nullptr;
#endif
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

void share(const RankList& ranks, const fs::path& folder) {
  if (!ranks) return;
  std::vector<std::string> files;
  if (leads(ranks))
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.is_regular_file())
        files.push_back(entry.path().filename().string()), files.push_back(io::read_file(entry.path()));
  std::string packed = train::packed_texts(files);
  ranks->broadcast(packed);
  if (leads(ranks)) return;
  files = train::unpacked_texts(packed);
  for (std::size_t i = 0; i + 1 < files.size(); i += 2) {
    std::ofstream out(folder / files[i], std::ios::binary);
    out << files[i + 1];
    if (!out.flush()) throw IoError("ranks: ", (folder / files[i]).string(), " cannot be written");
  }
}

TemporaryFolder::TemporaryFolder() {
  std::error_code ignored;
  const fs::path place = fs::temp_directory_path(ignored);
  std::string name = (place / "translate-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw IoError("ranks: no folder can be made in ", place.string());
  path_ = name;
}
TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace translate
