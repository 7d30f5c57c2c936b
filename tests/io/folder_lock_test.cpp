#include "attend/io/folder_lock.hpp"

#if !defined(_WIN32)
#include <sys/wait.h>
#include <unistd.h>
#endif

#include <array>
#include <csignal>
#include <filesystem>
#include <optional>
#include <string>

#include "attend/io/average.hpp"
#include "catch.hpp"
#include "temporary_folder.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

TEST_CASE("FolderLock: one at a time has it, and it leaves nothing behind") {
  const TemporaryFolder folder;
  std::optional<io::FolderLock> first(std::in_place, folder.path());
  CHECK_THROWS_WITH(io::FolderLock(folder.path()), ContainsSubstring(folder.path().string() + " is in use: another training"));
  CHECK_THROWS_AS(io::FolderLock(folder.path()), IoError);
  const io::FolderLock other(folder / "inner");  // another folder
  first.reset();
  CHECK_FALSE(fs::exists(folder / ".attend-lock"));
  first.emplace(folder.path());
  CHECK(fs::exists(folder / ".attend-lock"));
}

TEST_CASE("FolderLock: a folder that was made for it goes with it, unless something has come into it") {
  const TemporaryFolder folder;
  { const io::FolderLock lock(folder / "a/b"); }
  CHECK(fs::exists(folder / "a"));
  CHECK_FALSE(fs::exists(folder / "a/b"));
  {
    const io::FolderLock lock(folder / "a/b");
    io::write_file_atomically(folder / "a/b/file", "mine");
  }
  CHECK(fs::exists(folder / "a/b/file"));
  CHECK_THROWS_AS(io::FolderLock(folder / "a/b/file"), IoError);
}

#if !defined(_WIN32)
TEST_CASE("FolderLock: that of a process that was killed is free, and the file that stays behind means nothing") {
  const TemporaryFolder folder;
  std::array<int, 2> ready{};
  REQUIRE(::pipe(ready.data()) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const io::FolderLock lock(folder.path());
    const char done = 'x';
    if (::write(ready[1], &done, 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  CHECK_THROWS_AS(io::FolderLock(folder.path()), IoError);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]), ::close(ready[1]);
  CHECK(fs::exists(folder / ".attend-lock"));
  { const io::FolderLock lock(folder.path()); }
  CHECK_FALSE(fs::exists(folder / ".attend-lock"));
}
#endif
