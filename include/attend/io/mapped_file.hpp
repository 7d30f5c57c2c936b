#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <memory>
#include <span>

#include "attend/io/file.hpp"

namespace attend::io {

/// A file mapped into memory: the system reads what is looked at, and drops it again when memory is needed. Copies share one
/// mapping. For files that nobody changes meanwhile: if one is cut short, a look beyond its new end ends the process (SIGBUS).
class MappedFile {
 public:
  MappedFile() = default;
  /// Throws IoError if the system refuses.
  explicit MappedFile(const InputFile& file) {
    if (file.size() == 0) return;
    void* at = ::mmap(nullptr, file.size(), PROT_READ, MAP_SHARED, file.descriptor(), 0);
    if (at == MAP_FAILED) detail::throw_errno("map", file.path());
    mapping_ = std::make_shared<const Mapping>(at, file.size());
  }
  [[nodiscard]] std::span<const std::byte> bytes() const {
    return mapping_ ? std::span(static_cast<const std::byte*>(mapping_->at), mapping_->size) : std::span<const std::byte>();
  }

 private:
  struct Mapping {
    void* at;
    std::size_t size;
    Mapping(void* begin, std::size_t bytes) : at(begin), size(bytes) {}
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    ~Mapping() { ::munmap(at, size); }
  };
  std::shared_ptr<const Mapping> mapping_;
};

}  // namespace attend::io
