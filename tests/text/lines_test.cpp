#include "attend/text/lines.hpp"

#include <string>
#include <vector>

#include "attend/core/error.hpp"
#include "catch.hpp"
#include "temporary_folder.hpp"

using namespace attend;
using namespace std::string_literals;
using text::read_lines;
using Lines = std::vector<std::string>;

TEST_CASE("lines: ends of both kinds, a byte order mark, and a last line with or without an end") {
  const TemporaryFolder folder;
  CHECK(read_lines(folder.write("a", "one\ntwo\n")) == Lines{"one", "two"});
  CHECK(read_lines(folder.write("b", "one\r\ntwo\r\nthree")) == Lines{"one", "two", "three"});
  CHECK(read_lines(folder.write("c", "\xEF\xBB\xBF\xC3\xA9\n\n x \n")) == Lines{"é", "", " x "});
  CHECK(read_lines(folder.write("d", "\n")) == Lines{""});
  CHECK(read_lines(folder.write("e", "")).empty());
  CHECK(read_lines(folder.write("f", "\xEF\xBB\xBF")).empty());
  CHECK(read_lines(folder.write("g", "a\0b\n"s)) == Lines{"a\0b"s});
  CHECK(read_lines(folder.write("h", "\r\n")) == Lines{""});
}

TEST_CASE("lines: a file that is missing, a folder, not UTF-8") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(read_lines(folder / "missing"), IoError);
  CHECK_THROWS_WITH(read_lines(folder / "missing"), "read: " + (folder / "missing").string() + ": No such file or directory");
  CHECK_THROWS_AS(read_lines(folder / ""), IoError);
  const auto latin = folder.write("latin1", "eins\nzwei\nf\xFCnf\n");
  CHECK_THROWS_AS(read_lines(latin), FormatError);
  CHECK_THROWS_WITH(read_lines(latin), "read_lines: " + latin.string() + ", line 3: byte 2 of the line is 0xFC, expected UTF-8");
}
