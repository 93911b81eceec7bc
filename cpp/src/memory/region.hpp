// Address space reserved once; pages become real when they are first touched.
#pragma once

#include <cstddef>
#include <string>

#include "overlimit/errors.hpp"
#include "overlimit/non_copyable.hpp"
#include "platform/virtual_memory.hpp"

namespace overlimit::memory {

class Region : NonCopyable {
 public:
  /// Throws OutOfMemory when the system refuses.
  explicit Region(std::size_t size) : size_(size), base_(platform::reserve_pages(size)) {
    if (base_ == nullptr) {
      throw OutOfMemory("the system has no " + std::to_string(size) + " bytes of memory; lower max_bytes");
    }
  }
  ~Region() { platform::release_pages(base_, size_); }
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(base_); }

 private:
  std::size_t size_;
  void* base_;
};

}  // namespace overlimit::memory
