#include "attend/io/folder.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "catch.hpp"
#include "limited_file_size.hpp"
#include "temporary_folder.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;
using std::filesystem::path;

namespace {

/// A writer of the two files that make up these tests' model.
auto model(const std::string& contents) {
  return [contents](const path& staging) {
    io::write_file_atomically(staging / "config", contents);
    io::write_file_atomically(staging / "weights", contents);
  };
}

std::vector<std::string> names_in(const path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// What a reader finds, without a lock that would outlive the look.
std::string found(const path& folder, const std::string& name) {
  const io::FolderReader reader(folder);
  return reader.contains(name) ? io::read_file(reader.file(name)) : "nothing";
}

const std::vector<std::string> model_names = {"config", "weights"};

}  // namespace

TEST_CASE("write_folder_atomically makes a folder, its parents too, and replaces its files") {
  const TemporaryFolder temporary;
  const path folder = temporary / "runs/first/model";
  io::write_folder_atomically(folder, model("old"));
  REQUIRE(names_in(folder) == model_names);
  io::write_folder_atomically(folder, model("new"));
  REQUIRE(names_in(folder) == model_names);
  REQUIRE(found(folder, "config") == "new");
  REQUIRE(found(folder, "weights") == "new");
}

TEST_CASE("files of others in the folder stay, and what was asked for goes") {
  const TemporaryFolder folder;
  io::write_file_atomically(folder / "notes", "mine");
  io::write_file_atomically(folder / "optimizer", "stale");
  std::filesystem::create_directory(folder / "plots");
  io::write_folder_atomically(folder.path(), model("new"), {.remove = {"optimizer", "never-there", "config"}});
  REQUIRE(names_in(folder.path()) == std::vector<std::string>{"config", "notes", "plots", "weights"});
  REQUIRE(io::read_file(folder / "notes") == "mine");
  REQUIRE_THROWS_AS(io::write_folder_atomically(folder.path(), model("x"), {.remove = {"../notes"}}), ValueError);
  REQUIRE_THROWS_AS(io::write_folder_atomically(folder.path(), model("x"), {.remove = {"plots"}}), IoError);
  REQUIRE(found(folder.path(), "config") == "new");
}

TEST_CASE("names of files in a folder may have any characters") {
  const TemporaryFolder folder;
  const path odd(u8"été 模型 𝔪.txt");
  const auto write = [&](const std::string& contents) {
    io::write_folder_atomically(folder.path(), [&](const path& staging) { io::write_file_atomically(staging / odd, contents); });
  };
  write("old");
  write("new");
  REQUIRE(io::read_file(folder.path() / odd) == "new");
  REQUIRE(io::FolderReader(folder.path()).file(odd.string()) == folder.path() / odd);
  io::write_folder_atomically(folder.path(), [](const path&) {}, {.remove = {odd.string()}});
  REQUIRE(names_in(folder.path()).empty());
}

#if !defined(_WIN32)
TEST_CASE("a folder whose new files do not fit on the disk keeps the old ones") {
  const TemporaryFolder folder;
  io::write_folder_atomically(folder.path(), model("old"));
  {
    const LimitedFileSize limit(1 << 16);
    const auto write = [](const path& staging) {
      io::write_file_atomically(staging / "config", "new");
      io::write_file_atomically(staging / "weights", std::string(1 << 20, 'x'));
    };
    REQUIRE_THROWS_AS(io::write_folder_atomically(folder.path(), write), IoError);
    REQUIRE_THROWS_AS(io::write_folder_atomically(folder / "model", write), IoError);
  }
  REQUIRE(names_in(folder.path()) == model_names);  // no trace, and no folder "model"
  REQUIRE(found(folder.path(), "config") == "old");
}
#endif

TEST_CASE("write_folder_atomically refuses what it could not put in place, before anything changes") {
  const TemporaryFolder folder;
  io::write_folder_atomically(folder.path(), model("old"));
  std::filesystem::create_directory(folder / "tokenizer");
  const auto onto_a_folder = [](const path& staging) {
    model("new")(staging);
    io::write_file_atomically(staging / "tokenizer", "new");
  };
  REQUIRE_THROWS_WITH(io::write_folder_atomically(folder.path(), onto_a_folder), ContainsSubstring("tokenizer is a folder"));
  const auto nested = [](const path& staging) { std::filesystem::create_directory(staging / "inner"); };
  REQUIRE_THROWS_WITH(io::write_folder_atomically(folder.path(), nested), ContainsSubstring("expected plain files"));
  REQUIRE_THROWS_AS(io::write_folder_atomically(folder / "config", model("new")), IoError);
  REQUIRE(found(folder.path(), "config") == "old");
  REQUIRE(names_in(folder.path()) == std::vector<std::string>{"config", "tokenizer", "weights"});
}

TEST_CASE("a crash before the new files count leaves the old ones, and the next writer clears up") {
  const TemporaryFolder folder;
  io::write_folder_atomically(folder.path(), model("old"));
  std::filesystem::create_directory(folder / ".attend-new-1-0");
  io::write_file_atomically(folder / ".attend-new-1-0/config", "half");
  REQUIRE(found(folder.path(), "config") == "old");
  io::write_folder_atomically(folder.path(), model("new"));
  REQUIRE(names_in(folder.path()) == model_names);
  REQUIRE(found(folder.path(), "config") == "new");
}

TEST_CASE("a writer leaves alone what another is writing") {
  const TemporaryFolder folder;
  io::write_folder_atomically(folder.path(), [&](const path& staging) {
    model("outer")(staging);
    io::write_folder_atomically(folder.path(), model("inner"));
    REQUIRE(found(folder.path(), "config") == "inner");
  });
  REQUIRE(found(folder.path(), "config") == "outer");
  REQUIRE(names_in(folder.path()) == model_names);
}

TEST_CASE("a crash while files are put in place is finished by whoever comes next") {
  const TemporaryFolder folder;
  io::write_folder_atomically(folder.path(), model("old"));
  io::write_file_atomically(folder / "optimizer", "old");
  const auto crash = [&](bool config_in_place) {
    std::filesystem::create_directory(folder / ".attend-pending");
    io::write_file_atomically(folder / ".attend-pending/weights", "new");
    io::write_file_atomically(folder / (config_in_place ? "config" : ".attend-pending/config"), "new");
    io::write_file_atomically(folder / ".attend-pending/.attend-remove", "optimizer\n../outside\n");
  };
  const bool config_in_place = GENERATE(false, true);
  crash(config_in_place);

  SECTION("a reader") {
    REQUIRE(found(folder.path(), "config") == "new");
    REQUIRE(found(folder.path(), "weights") == "new");
    REQUIRE(found(folder.path(), "optimizer") == "nothing");
    REQUIRE(names_in(folder.path()) == model_names);
  }
  SECTION("a reader that may not write sees the same") {
    const detail::Descriptor other_reader = detail::open_folder("test", folder.path());
    REQUIRE(
        detail::lock_folder(other_reader, detail::system::Lock::shared, detail::no_patience));  // keeps the reader from finishing
    REQUIRE(found(folder.path(), "config") == "new");
    REQUIRE(found(folder.path(), "weights") == "new");
    REQUIRE(found(folder.path(), "optimizer") == "nothing");
    REQUIRE(std::filesystem::exists(folder / ".attend-pending"));
  }
  SECTION("a writer of other files") {
    io::write_folder_atomically(folder.path(), [](const path& staging) { io::write_file_atomically(staging / "notes", "x"); });
    REQUIRE(names_in(folder.path()) == std::vector<std::string>{"config", "notes", "weights"});
    REQUIRE(found(folder.path(), "config") == "new");
  }
}

TEST_CASE("FolderReader names what is missing") {
  const TemporaryFolder folder;
  io::write_file_atomically(folder / "config", "");
  const io::FolderReader reader(folder.path());
  REQUIRE(reader.contains("config"));
  REQUIRE_FALSE(reader.contains("tokenizer.model"));
  REQUIRE_THROWS_AS(reader.file("tokenizer.model"), IoError);
  REQUIRE_THROWS_WITH(reader.file("tokenizer.model"), ContainsSubstring("has no tokenizer.model"));
  REQUIRE_THROWS_AS(io::FolderReader(folder / "missing"), IoError);
  REQUIRE_THROWS_WITH(io::FolderReader(folder / "config"), ContainsSubstring("is a file, expected a folder"));
}
