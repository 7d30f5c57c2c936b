#include "catch.hpp"
#include "docs/markdown.hpp"

namespace fs = std::filesystem;

namespace {

/// The text of all sources, with string literals that continue on the next line joined.
std::string sources(const fs::path& root) {
  std::string text;
  for (const char* folder : {"include/attend", "examples/translate"})
    for (const auto& entry : fs::recursive_directory_iterator(root / folder))
      if (const auto e = entry.path().extension(); e == ".hpp" || e == ".cpp" || e == ".cuh") text += docs::read(entry.path());
  std::string joined;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"' && !joined.empty() && joined.back() != '\\') {
      std::size_t next = i + 1;
      while (next < text.size() && std::isspace(static_cast<unsigned char>(text[next]))) ++next;
      if (next > i + 1 && next < text.size() && text[next] == '"') {
        i = next;
        continue;
      }
    }
    joined += text[i];
  }
  return joined;
}

}  // namespace

// A message stands in a row of a table of docs/errors.md, as code; what differs from case to case is `…`. It may begin with the
// name of an operation, which the sources put before a message in one place for many.
TEST_CASE("messages that the error guide quotes are those of the sources") {
  const fs::path root = ATTEND_SOURCE_DIR;
  const auto text = sources(root);
  int checked = 0;
  for (const auto& line : docs::read_page(root, "docs/errors.md").prose) {
    if (!docs::starts_with(line.text, "| `")) continue;
    std::string message = line.text.substr(3, line.text.find('`', 3) - 3);
    INFO("docs/errors.md:" << line.number << ": " << message);
    bool any = false;
    const auto colon = message.find(": ");
    if (const auto name = message.substr(0, colon); colon != std::string::npos && name.find_first_of(" …") == std::string::npos) {
      INFO("its operation: " << name);
      CHECK((text.find(name + ": ") != std::string::npos || text.find('"' + name + '"') != std::string::npos));
      message.erase(0, colon + 2);
    }
    for (std::size_t at = 0; at <= message.size();) {
      const auto end = std::min(message.find("…", at), message.size());
      if (const auto part = message.substr(at, end - at); docs::trimmed(part).size() > 2) {
        INFO("its part: " << part);
        CHECK(text.find(part) != std::string::npos);
        any = true;
      }
      at = end + std::string("…").size();
    }
    CHECK(any);
    ++checked;
  }
  CHECK(checked > 30);
}
