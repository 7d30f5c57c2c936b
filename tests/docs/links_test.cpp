#include "catch.hpp"
#include "docs/markdown.hpp"

namespace fs = std::filesystem;

namespace {

const fs::path root = ATTEND_SOURCE_DIR;

}  // namespace

TEST_CASE("links between pages lead to files and headings that exist") {
  const auto pages = docs::read_pages(root);
  REQUIRE(pages.size() > 10);
  int checked = 0;
  for (const auto& page : pages)
    for (const auto& line : page.prose)
      for (const auto& link : docs::links(line.text)) {
        if (link.find("://") != std::string::npos || docs::starts_with(link, "mailto:")) continue;
        INFO(page.path.string() << ":" << line.number << ": " << link);
        const auto hash = link.find('#');
        const fs::path target = hash == 0 ? page.path : (page.path.parent_path() / link.substr(0, hash)).lexically_normal();
        CHECK_FALSE(docs::starts_with(target.string(), ".."));
        CHECK(fs::exists(root / target));
        if (hash != std::string::npos && target.extension() == ".md" && fs::exists(root / target))
          CHECK(docs::anchors(docs::read_page(root, target)).count(link.substr(hash + 1)) == 1);
        ++checked;
      }
  CHECK(checked > 50);
}

TEST_CASE("every page of docs/ is reached from docs/README.md") {
  std::set<std::string> reached;
  const auto entrance = docs::read_page(root, "docs/README.md");
  for (const auto& line : entrance.prose)
    for (const auto& link : docs::links(line.text))
      reached.insert(("docs" / fs::path(link.substr(0, link.find('#')))).lexically_normal().string());
  for (const auto& page : docs::read_pages(root))
    if (docs::starts_with(page.path.string(), "docs/") && page.path != "docs/README.md") {
      INFO(page.path.string());
      CHECK(reached.count(page.path.string()) == 1);
    }
}

TEST_CASE("blocks that are said to be a file, or to stand in one, are that file's text") {
  for (const auto& page : docs::read_pages(root))
    for (const auto& block : page.blocks) {
      INFO(page.path.string() << ":" << block.line);
      if (!block.task.empty()) CHECK((std::set<std::string>{"file", "from", "cpp", "cpp run", "cpp no"}.count(block.task) == 1));
      if (block.task == "file") CHECK(block.text == docs::read(root / docs::trimmed(block.task_text)));
      if (block.task == "from") CHECK(docs::read(root / docs::trimmed(block.task_text)).find(block.text) != std::string::npos);
    }
}
