#include "attend/io/file.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "catch.hpp"
#include "limited_file_size.hpp"
#include "temporary_folder.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;

namespace {

std::size_t files_in(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
}

}  // namespace

TEST_CASE("read_file gives back what write_file_atomically wrote") {
  const TemporaryFolder folder;
  std::string all_bytes;
  for (int i = 0; i < 100'000; ++i) all_bytes += static_cast<char>(i % 256);
  for (const std::string& contents : {std::string(), std::string("x"), std::string("one\r\ntwo\0three", 14), all_bytes}) {
    io::write_file_atomically(folder / "file", contents);
    REQUIRE(io::read_file(folder / "file") == contents);
  }
  REQUIRE(files_in(folder.path()) == 1);
}

TEST_CASE("write_file_atomically takes pieces from a callback and counts them") {
  const TemporaryFolder folder;
  io::write_file_atomically(folder / "file", [](io::FileSink& sink) {
    sink.write("one ");
    sink.write(std::as_bytes(std::span<const char>("two", 3)));
    REQUIRE(sink.written() == 7);
  });
  REQUIRE(io::read_file(folder / "file") == "one two");
}

#if !defined(_WIN32)
TEST_CASE("a write that fails in the middle leaves the old file and nothing else") {
  const TemporaryFolder folder;
  io::write_file_atomically(folder / "file", "good");
  const std::string large(1 << 20, 'x');
  {
    const LimitedFileSize limit(1 << 16);
    REQUIRE_THROWS_AS(io::write_file_atomically(folder / "file", large), IoError);
    REQUIRE_THROWS_WITH(io::write_file_atomically(folder / "file", large),
                        ContainsSubstring((folder / "file").string()) && ContainsSubstring("large"));
  }
  REQUIRE(io::read_file(folder / "file") == "good");
  REQUIRE(files_in(folder.path()) == 1);
  io::write_file_atomically(folder / "file", large);
  REQUIRE(io::read_file(folder / "file") == large);
}
#endif

TEST_CASE("an exception of the callback leaves the old file and nothing else, and goes on") {
  const TemporaryFolder folder;
  const auto fail = [](io::FileSink& sink) {
    sink.write("half");
    throw ValueError("mine");
  };
  REQUIRE_THROWS_WITH(io::write_file_atomically(folder / "file", fail), "mine");
  REQUIRE(files_in(folder.path()) == 0);
  io::write_file_atomically(folder / "file", "good");
  REQUIRE_THROWS_WITH(io::write_file_atomically(folder / "file", fail), "mine");
  REQUIRE(io::read_file(folder / "file") == "good");
  REQUIRE(files_in(folder.path()) == 1);
}

TEST_CASE("write_file_atomically refuses what is no place for a file") {
  const TemporaryFolder folder;
  REQUIRE_THROWS_AS(io::write_file_atomically(folder / "missing/file", ""), IoError);
  REQUIRE_THROWS_WITH(io::write_file_atomically(folder / "missing/file", ""), ContainsSubstring("missing/file: No such file"));
  REQUIRE_THROWS_WITH(io::write_file_atomically(folder.path(), ""), ContainsSubstring("is a folder"));
#if defined(_WIN32)
  REQUIRE_THROWS_WITH(io::write_file_atomically("NUL", ""), ContainsSubstring("is a pipe or a device"));
#else
  REQUIRE_THROWS_WITH(io::write_file_atomically("/dev/null", ""), ContainsSubstring("is a pipe or a device"));
  REQUIRE(std::filesystem::is_character_file("/dev/null"));
#endif
}

#if !defined(_WIN32)
TEST_CASE("write_file_atomically keeps a file's permissions and a link to it") {
  const TemporaryFolder folder;
  io::write_file_atomically(folder / "file", "old");
  std::filesystem::permissions(folder / "file", std::filesystem::perms(0640));
  std::filesystem::create_symlink("file", folder / "link");
  io::write_file_atomically(folder / "link", "new");
  REQUIRE(std::filesystem::is_symlink(folder / "link"));
  REQUIRE(io::read_file(folder / "file") == "new");
  REQUIRE(std::filesystem::status(folder / "file").permissions() == std::filesystem::perms(0640));
}
#endif

TEST_CASE("read_file names what is wrong") {
  const TemporaryFolder folder;
  REQUIRE_THROWS_AS(io::read_file(folder / "missing"), IoError);
  REQUIRE_THROWS_WITH(io::read_file(folder / "missing"), ContainsSubstring("missing: No such file"));
  REQUIRE_THROWS_AS(io::read_file(folder.path()), IoError);
  io::write_file_atomically(folder / "file", "12345");
  REQUIRE(io::read_file(folder / "file", 5) == "12345");
  REQUIRE_THROWS_AS(io::read_file(folder / "file", 4), FormatError);
#if !defined(_WIN32)
  std::filesystem::resize_file(folder / "file", std::uintmax_t{1} << 40);  // a file of holes
  if constexpr (sizeof(std::size_t) == 8)
    REQUIRE_THROWS_WITH(io::read_file(folder / "file"), ContainsSubstring("has 1099511627776 bytes"));
  else REQUIRE_THROWS_WITH(io::read_file(folder / "file"), ContainsSubstring("Value too large"));
#endif
}

#if !defined(_WIN32)
TEST_CASE("read_file reads files that do not tell their size") { REQUIRE_FALSE(io::read_file("/proc/self/status").empty()); }
#endif

TEST_CASE("InputFile reads at any offset and says where the file ends") {
  const TemporaryFolder folder;
  io::write_file_atomically(folder / "file", "0123456789");
  const io::InputFile file(folder / "file");
  REQUIRE(file.size() == 10);
  std::vector<char> bytes(4);
  const auto out = std::as_writable_bytes(std::span<char>(bytes));
  file.read_at(3, out);
  REQUIRE(std::string(bytes.begin(), bytes.end()) == "3456");
  file.read_at(10, out.first(0));
  REQUIRE_THROWS_WITH(file.read_at(8, out), ContainsSubstring("ends at byte 10, expected 4 bytes from 8 on"));
  std::filesystem::resize_file(folder / "file", 2);  // behind its back
  REQUIRE_THROWS_AS(file.read_at(0, out), FormatError);
  REQUIRE_THROWS_WITH(io::InputFile(folder.path()), ContainsSubstring("is a folder"));
#if !defined(_WIN32)
  REQUIRE_THROWS_WITH(io::InputFile("/dev/zero"), ContainsSubstring("is a pipe or a device"));
#endif
  REQUIRE_THROWS_AS(io::InputFile(folder / "missing"), IoError);
}
