#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "attend/core/bfloat16.hpp"

/// What the programs print: a line for each item, and in the dump its numbers.
namespace bits {

/// FNV-1a over bytes, 64 bits.
inline std::uint64_t hash_of(std::span<const unsigned char> bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

/// What the dump calls the type of a number.
template <class T>
constexpr const char* type_name() {
  if constexpr (std::is_same_v<T, attend::bfloat16>) return "bf16";
  else if constexpr (std::is_floating_point_v<T>) return sizeof(T) == 8 ? "f64" : "f32";
  else return sizeof(T) == 8 ? "i64" : sizeof(T) == 4 ? "i32" : "u8";
}

template <class T>
std::string readable(T number) {
  char text[32];
  if constexpr (std::is_integral_v<T>) std::snprintf(text, sizeof(text), "%lld", static_cast<long long>(number));
  else std::snprintf(text, sizeof(text), sizeof(T) == 8 ? "%.17g" : "%.9g", static_cast<double>(number));
  return text;
}

/// The items of one run.
class Record {
 public:
  /// `dump`: the file that gets the numbers: of all items, or if `only` names some, of those. Empty: no file. Throws
  /// std::runtime_error if it cannot be written.
  explicit Record(const std::string& dump, std::set<std::string> only = {}) : only_(std::move(only)) {
    if (dump.empty()) return;
    dump_ = std::fopen(dump.c_str(), "wb");
    if (!dump_) throw std::runtime_error("cannot write " + dump);
  }
  ~Record() {
    if (dump_) std::fclose(dump_);
  }
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;

  /// What the names of the items to come begin with.
  void set_prefix(const std::string& prefix) { prefix_ = prefix; }

  /// Throws std::logic_error for a name that has come before or has a space in it, std::runtime_error if the dump is full.
  template <class T>
  void add(const std::string& own_name, std::span<const T> numbers) {
    const std::string name = prefix_ + own_name;
    if (name.find(' ') != std::string::npos || !names_.insert(name).second) throw std::logic_error("the item's name: " + name);
    const std::span<const unsigned char> bytes(reinterpret_cast<const unsigned char*>(numbers.data()), numbers.size_bytes());
    std::printf("%-64s %9zu %016llx %s %s\n", name.c_str(), numbers.size(), static_cast<unsigned long long>(hash_of(bytes)),
                numbers.empty() ? "-" : readable(numbers.front()).c_str(),
                numbers.empty() ? "-" : readable(numbers.back()).c_str());
    if (!dump_ || (!only_.empty() && !only_.contains(name))) return;
    std::fprintf(dump_, "%s %s %zu\n", name.c_str(), type_name<T>(), numbers.size());
    std::fwrite(bytes.data(), 1, bytes.size(), dump_);
    if (std::fflush(dump_) != 0 || std::ferror(dump_)) throw std::runtime_error("the dump is not written");
  }
  template <class T>
  void add(const std::string& name, const std::vector<T>& numbers) {
    add(name, std::span<const T>(numbers));
  }
  void add(const std::string& name, const std::string& text) {
    add(name, std::span<const unsigned char>(reinterpret_cast<const unsigned char*>(text.data()), text.size()));
  }

 private:
  std::FILE* dump_ = nullptr;
  std::set<std::string> names_, only_;
  std::string prefix_;
};

}  // namespace bits
