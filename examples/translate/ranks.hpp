#pragma once

#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "attend/text/corpus.hpp"
#include "attend/train/communicator.hpp"

/// What several processes of this program share, if mpirun or the like started them.
namespace translate {

using RankList = std::shared_ptr<attend::train::Communicator>;

/// What this program was called with, without its name. `main` says so.
inline std::vector<std::string> command_line;

/// The processes that were started together; null if this one was started alone. From then on only the first of them prints, and
/// the others tell it of their errors; if the first is lost, one of them says so. Throws ValueError if several were started and
/// the program was built without MPI or with another, and, in all of them, if they are not called with the same arguments (but
/// for `--threads`) or are not the same program.
RankList launched_ranks();
/// Throws ValueError if the launcher's environment says that it has started several processes: for a command whose work they do
/// not share, so that all would do, and write, the same. Asks no MPI.
void check_one_process(const char* command);
/// Whether this is the one that prints, reads and writes files.
inline bool leads(const RankList& ranks) { return !ranks || ranks->rank() == 0; }

/// Sends what the first process has to all.
void share(const RankList& ranks, attend::text::Corpus& corpus);
/// A folder of this process's own, removed with this object.
class TemporaryFolder {
 public:
  /// Throws IoError if there is no place for one.
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};
/// Sends the files of the first process's folder to all, which put them into theirs.
void share(const RankList& ranks, const std::filesystem::path& folder);
/// Changes with any byte and any name of the files of a folder, or of a file. Throws IoError if they cannot be read.
std::string fingerprint(const std::filesystem::path& path);

/// Files and folders of the first process, at paths where this one can read them: those files themselves, or, if this process
/// sees others there or none, copies, which are removed with this object.
class SharedFiles {
 public:
  using Fingerprint = std::function<std::string(const std::filesystem::path&)>;
  explicit SharedFiles(RankList ranks) : ranks_(std::move(ranks)) {}
  /// The first process says which; the others' `path` does not matter. What has the same fingerprint is the same.
  std::filesystem::path operator()(std::filesystem::path path, const Fingerprint& print = fingerprint);

 private:
  RankList ranks_;
  std::vector<std::unique_ptr<TemporaryFolder>> copies_;
};

}  // namespace translate
