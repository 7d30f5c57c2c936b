#include <cstdlib>

#include "catch.hpp"
#include "docs/pages.hpp"

namespace fs = std::filesystem;

// That the code of the pages compiles shows in that the program ATTEND_PAGES was built from it.
TEST_CASE("the code of the pages prints what they say it prints") {
  std::string program;
  const auto runs = docs::make_program(ATTEND_SOURCE_DIR, program);
  REQUIRE(runs.size() > 5);
  const fs::path work = ATTEND_PAGES_WORK, output = work / "output.txt";
  for (std::size_t i = 0; i < runs.size(); ++i) {
    INFO(runs[i].where);
    const fs::path folder = work / std::to_string(i);
    fs::remove_all(folder);
    fs::create_directories(folder);
    const std::string command =
        "cd '" + folder.string() + "' && '" ATTEND_PAGES "' " + std::to_string(i) + " > '" + output.string() + "'";
    CHECK(std::system(command.c_str()) == 0);
    CHECK(docs::read(output) == runs[i].expected);
  }
}
