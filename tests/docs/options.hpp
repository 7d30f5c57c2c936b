#pragma once

#include <regex>
#include <set>

#include "markdown.hpp"

/// The structs of options in the headers, and docs/options.md, which lists their fields in order. It is made from the headers
/// (the target `docs_options` writes it); that it is right is the compiler's to say, see pages.hpp.
namespace docs {

struct Field {
  std::string name, type, preset, text;  ///< the preset is empty if there is none
};

struct OptionStruct {
  std::string name;    ///< `nn::StackOptions`; a template has `<T, D>` behind it
  std::string header;  ///< `attend/nn/options.hpp`
  std::string text;    ///< the comment before it
  std::vector<Field> fields;
};

/// Adds what follows the slashes of a comment.
inline void add_comment(std::string& text, const std::string& line, std::size_t slashes) {
  const std::string words = trimmed(line.substr(slashes));
  if (!words.empty()) text += (text.empty() ? "" : " ") + words;
}

/// The fields that a declaration makes, without its semicolon: `index_t d_k = 0, d_v = 0`. None for a function.
inline std::vector<Field> fields_of(const std::string& declaration) {
  static const std::regex other(R"(^(static|using|friend|template|enum|struct|explicit|operator)\b.*)");
  std::vector<Field> fields;
  if (std::regex_match(declaration, other)) return fields;
  std::string head, preset, type;
  bool in_head = true;
  int angle = 0, depth = 0;
  const auto finish = [&] {
    head = trimmed(head);
    const auto end = head.find_last_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    if (end != std::string::npos) type = trimmed(head.substr(0, end + 1));
    fields.push_back({end == std::string::npos ? head : head.substr(end + 1), type, trimmed(preset), ""});
    head.clear(), preset.clear();
    in_head = true;
  };
  for (const char c : declaration) {
    if (in_head && c == '<') ++angle;
    if (in_head && c == '>') --angle;
    if (c == '(' || c == '{' || c == '[') ++depth;
    if (c == ')' || c == '}' || c == ']') --depth;
    if (in_head && c == '(' && angle == 0) return {};  // a function
    if (c == ',' && angle == 0 && depth == 0) finish();
    else if (in_head && c == '=' && angle == 0 && depth == 0) in_head = false;
    else (in_head ? head : preset) += c;
  }
  finish();
  return fields;
}

/// The fields between the braces of a struct.
inline std::vector<Field> read_fields(const std::vector<std::string>& body) {
  std::vector<Field> fields;
  std::size_t latest = 0;  // where those of the latest declaration begin
  std::string statement, before;
  int depth = 0;
  for (const std::string& line : body) {
    const std::string text = trimmed(line);
    if (starts_with(text, "///<")) {  // goes on with the comment of the line before
      for (std::size_t i = latest; i < fields.size(); ++i) add_comment(fields[i].text, text, 4);
      continue;
    }
    if (starts_with(text, "//")) {
      if (starts_with(text, "///")) add_comment(before, text, 3);
      continue;
    }
    const auto comment = text.find("//");
    const std::string code = trimmed(text.substr(0, comment));
    statement += (statement.empty() ? "" : " ") + code;
    for (const char c : code) depth += c == '{' || c == '(' ? 1 : c == '}' || c == ')' ? -1 : 0;
    if (depth > 0 || statement.empty()) {
      if (statement.empty()) before.clear();
      continue;
    }
    if (statement.back() == ';') {
      latest = fields.size();
      for (Field& field : fields_of(statement.substr(0, statement.size() - 1))) {
        field.text = before;
        if (comment != std::string::npos && text.compare(comment, 4, "///<") == 0) add_comment(field.text, text, comment + 4);
        fields.push_back(field);
      }
    } else if (statement.back() != '}') {
      continue;  // goes on in the next line
    }
    statement.clear(), before.clear();
  }
  return fields;
}

/// The option structs of one header: those whose names say that they are.
inline std::vector<OptionStruct> read_options(const std::filesystem::path& include, const std::filesystem::path& header) {
  static const std::regex opens(R"(^namespace ([\w:]+) \{$)"), closes(R"(^\}  // namespace.*)"),
      begins(R"(^struct (\w*Options|Constraints|DropoutRates|InitialValues|SublayerPlace|\w+Call) \{$)"),
      of_types(R"(^template <class T, Device D = Cpu>$)");
  std::vector<OptionStruct> list;
  std::vector<std::string> spaces;
  std::string before;
  bool is_template = false;
  const auto all = lines(read(include / header));
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::smatch match;
    if (starts_with(all[i], "///")) {
      add_comment(before, all[i], 3);
      continue;
    }
    if (std::regex_match(all[i], of_types)) {
      is_template = true;
      continue;
    }
    if (std::regex_match(all[i], match, opens)) spaces.push_back(match[1]);
    if (std::regex_match(all[i], closes) && !spaces.empty()) spaces.pop_back();
    if (std::regex_match(all[i], match, begins)) {
      std::string space;
      for (const auto& s : spaces) space += s + "::";
      std::vector<std::string> body;
      const std::string name = match[1];
      for (++i; i < all.size() && all[i] != "};"; ++i) body.push_back(all[i]);
      if (starts_with(space, "attend::") && space.find("detail") == std::string::npos)
        list.push_back({space.substr(8) + name + (is_template ? "<T, D>" : ""), header.string(), before, read_fields(body)});
    }
    before.clear(), is_template = false;
  }
  return list;
}

/// Those of all headers, floor by floor.
inline std::vector<OptionStruct> read_all_options(const std::filesystem::path& root) {
  const std::filesystem::path include = root / "include";
  const std::vector<std::string> floors{
      "core", "kernels", "autograd", "cpu",       "ops",        "nn",     "optim",  "decode",
      "io",   "text",    "train",    "translate", "pretrained", "marian", "attend", "cuda"};  // attend: above the floors
  std::vector<std::filesystem::path> headers;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(include))
    if (entry.path().extension() == ".hpp") headers.push_back(entry.path().lexically_relative(include));
  const auto place = [&](const std::filesystem::path& header) {
    const std::string folder = header.parent_path().filename().string();
    return std::pair{std::find(floors.begin(), floors.end(), folder) - floors.begin(), header.string()};
  };
  std::sort(headers.begin(), headers.end(), [&](const auto& a, const auto& b) { return place(a) < place(b); });
  std::vector<OptionStruct> list;
  for (const auto& header : headers)
    for (auto& options : read_options(include, header)) list.push_back(std::move(options));
  return list;
}

/// A cell of a table.
inline std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

/// What docs/options.md is to be.
inline std::string options_page(const std::filesystem::path& root) {
  std::string page =
      "# Options\n\n"
      "Every struct of options, with its fields in their order. That is the order which designated initializers must have:\n\n"
      "```cpp\n"
      "const decode::TranslatorOptions good{.beam = 8, .n_best = 2, .max_length = 100};  // whatever is left out keeps its "
      "default\n"
      "```\n\n"
      "`{.n_best = 2, .beam = 8}` does not compile. `T` and `D` are the type of the numbers and the device, `<float>` for "
      "example.\n"
      "This page is made from the headers (`cmake --build build --target docs_options`), and the tests compile each of its "
      "tables.\n";
  for (const auto& options : read_all_options(root)) {
    page += "\n## `" + options.name + "`\n\n" + (options.text.empty() ? "" : options.text + " ") + "Header: `" + options.header +
            "`.\n\n| field | type | default | |\n|---|---|---|---|\n";
    for (const auto& field : options.fields)
      page += "| `" + field.name + "` | `" + cell(field.type) + "` | " +
              (field.preset.empty() ? "" : "`" + cell(field.preset) + "`") + " | " + cell(field.text) + " |\n";
  }
  return page;
}

/// A function for each table of docs/options.md that names all fields of the struct in the page's order, and takes the struct
/// apart into as many: it compiles if the order and the number are right. The headers that they stand in are among `includes`.
inline std::string options_program(const std::filesystem::path& root, std::set<std::string>& includes) {
  std::string program;
  std::string name;
  std::vector<std::string> fields;
  int count = 0;
  const auto finish = [&] {
    if (name.empty()) return;
    if (const auto types = name.find("<T, D>"); types != std::string::npos) name.replace(types, 6, "<float>");
    std::string all, parts;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      all += (i == 0 ? "" : ", ") + ("." + fields[i]) + " = o." + fields[i];
      parts += (i == 0 ? "f" : ", f") + std::to_string(i);
    }
    program += "namespace options_" + std::to_string(++count) + " {\nusing namespace attend;\nusing X = " + name +
               ";\nvoid run() {\nconst X o{};\nconst X all{" + all + "};\n[[maybe_unused]] const auto& [" + parts +
               "] = all;\n}\n}\n";
    fields.clear();
  };
  const auto between = [](const std::string& line, std::size_t begin) {
    return line.substr(begin, line.find('`', begin) - begin);
  };
  for (const auto& line : read_page(root, "docs/options.md").prose) {
    if (starts_with(line.text, "## `")) {
      finish();
      name = between(line.text, 4);
    } else if (starts_with(line.text, "| `")) {
      fields.push_back(between(line.text, 3));
    } else if (const auto header = line.text.find("Header: `"); header != std::string::npos) {
      includes.insert("#include <" + between(line.text, header + 9) + ">");
    }
  }
  finish();
  return program;
}

}  // namespace docs
