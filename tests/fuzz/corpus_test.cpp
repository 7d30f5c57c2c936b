// The corpus of the fuzz targets, each file through its target: what was once found stays mended.

#include <cstdint>
#include <filesystem>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/io/file.hpp"
#include "catch.hpp"
#include "input.hpp"
#include "targets.hpp"

using namespace attend;
namespace fs = std::filesystem;

namespace {

const fs::path corpus = ATTEND_FUZZ_CORPUS;

fuzz::Bytes bytes_of(const std::string& text) { return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}; }

}  // namespace

TEST_CASE("fuzz: every file of the corpus is taken, or refused as documented") {
  for (const auto& target : fuzz::targets()) {
    DYNAMIC_SECTION(target.name) {
      int files = 0;
      for (const auto& file : fs::directory_iterator(corpus / target.name)) {
        INFO(file.path().string());
        CHECK_NOTHROW(target.run(bytes_of(io::read_file(file.path()))));
        ++files;
      }
      CHECK(files > 0);
      CHECK_NOTHROW(target.run({}));
    }
  }
}

TEST_CASE("fuzz: the corpus is small, and all of it belongs to a target") {
  std::set<std::string> names;
  for (const auto& target : fuzz::targets()) names.insert(target.name);
#if defined(ATTEND_FUZZ_PROGRAM)
  for (const auto& folder : fs::directory_iterator(corpus)) CHECK(names.count(folder.path().filename().string()) == 1);
#endif
  std::uintmax_t size = 0;
  for (const auto& file : fs::recursive_directory_iterator(corpus))
    if (file.is_regular_file()) size += file.file_size();
  CHECK(size < 300'000);
}

TEST_CASE("fuzz: what no reader may answer goes on to whoever runs the target") {
  const auto says = [](const std::string& message) { return [=] { throw FormatError(message); }; };
  CHECK(fuzz::answers<FormatError>([] {}));
  CHECK_FALSE(fuzz::answers<FormatError>(says("file: is broken")));
  CHECK_FALSE(fuzz::answers<IoError, FormatError>(says("file: is broken")));
  CHECK_THROWS_AS(fuzz::answers<ValueError>(says("file: is broken")), FormatError);
  CHECK_THROWS_AS(fuzz::answers<>(says("file: is broken")), FormatError);
  CHECK_THROWS_AS(fuzz::answers<Error>([] { throw MemoryError("no memory"); }), MemoryError);
  CHECK_THROWS_AS(fuzz::answers<Error>([] { throw std::bad_alloc(); }), std::bad_alloc);
  CHECK_THROWS_AS(fuzz::answers<FormatError>(says("tensor 'a\nb'")), std::logic_error);
  CHECK_THROWS_AS(fuzz::answers<FormatError>(says("tensor '\x1B[2J'")), std::logic_error);
  CHECK_THROWS_AS(fuzz::answers<FormatError>(says(std::string(100'000, 'a'))), std::logic_error);
}
