#include "attend/io/weight_files.hpp"

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "attend/io/safetensors_writer.hpp"
#include "attend/io/tensors.hpp"
#include "catch.hpp"
#include "temporary_folder.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::filesystem::path made = std::filesystem::path(ATTEND_REFERENCE_DEFAULT_DIR) / "../../io/torch_files";

/// Writes a safetensors file of one number for each name.
void write_part(const std::filesystem::path& path, const std::vector<std::string>& names) {
  io::SafetensorsWriter writer;
  for (const auto& name : names) writer.add<float>(name, {1}, std::vector<float>{static_cast<float>(name.front())});
  writer.write(path);
}

void write_index(const TemporaryFolder& folder, const io::Json& map) {
  io::write_json(folder / "model.safetensors.index.json", {{"metadata", {{"total_size", 8}}}, {"weight_map", map}});
}

io::WeightFiles open(const std::filesystem::path& folder) { return io::WeightFiles::open(io::FolderReader(folder)); }

}  // namespace

TEST_CASE("weight files: one file or several, of either format") {
  const TemporaryFolder folder;
  std::filesystem::copy_file(made / "state.bin", folder / "pytorch_model.bin");
  const auto bin = open(folder.path());
  CHECK(bin.tensors().size() == 20);
  CHECK(bin.path().filename() == "pytorch_model.bin");
  CHECK(io::read_tensor<float>(bin, "turned")(0, 1) == 4);

  const auto sharded = open(made / "sharded");
  REQUIRE(sharded.tensors().size() == 3);
  CHECK(sharded.tensors()[2].name == "c");
  CHECK(sharded.contains("b"));
  CHECK_FALSE(sharded.contains("d"));
  CHECK(io::read_tensor<float>(sharded, "a")(1) == 2);
  CHECK(io::read_tensor<double>(sharded, "c")(0) == 4);
  CHECK_THROWS_WITH(sharded.info("d"), ContainsSubstring("pytorch_model.bin.index.json has no tensor 'd' (it has 3)"));

  write_part(folder / "model-1.safetensors", {"b", "a"});
  write_part(folder / "model-2.safetensors", {"c"});
  write_index(folder, {{"a", "model-1.safetensors"}, {"b", "model-1.safetensors"}, {"c", "model-2.safetensors"}});
  const auto parts = open(folder.path());  // before pytorch_model.bin
  CHECK(parts.tensors().size() == 3);
  CHECK(io::read_tensor<float>(parts, "c")(0) == 'c');

  write_part(folder / "model.safetensors", {"z"});
  CHECK(open(folder.path()).contains("z"));
}

TEST_CASE("weight files: all that is wrong with an index stands in one message") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(open(folder.path()), ContainsSubstring("has no weights, expected model.safetensors or pytorch_model.bin"));
  write_part(folder / "model-1.safetensors", {"a", "b"});
  write_part(folder / "model-2.safetensors", {"b", "c"});
  write_index(
      folder,
      {{"a", "model-1.safetensors"}, {"c", "model-2.safetensors"}, {"d", "model-2.safetensors"}, {"e", "model-3.safetensors"}});
  CHECK_THROWS_WITH(open(folder.path()), ContainsSubstring("files that are missing: model-3.safetensors") &&
                                             ContainsSubstring("tensors that are not where it says: d (model-2.safetensors)") &&
                                             ContainsSubstring("tensors that are in two files: b"));
  for (const char* name : {"../model.safetensors", "a/b.bin", "model.txt", ""}) {
    write_index(folder, {{"a", name}});
    CHECK_THROWS_WITH(open(folder.path()), ContainsSubstring("expected a file in the same folder"));
  }
  write_index(folder, io::Json::object());
  CHECK_THROWS_WITH(open(folder.path()), ContainsSubstring("weight_map is empty"));
  write_index(folder, {{"a", 3}});
  CHECK_THROWS_WITH(open(folder.path()), ContainsSubstring("weight_map.a is 3, expected a string"));
}
