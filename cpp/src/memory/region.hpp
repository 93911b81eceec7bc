// Address space reserved once; pages become real when they are first touched.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <string>

#include "overlimit/errors.hpp"
#include "overlimit/non_copyable.hpp"

namespace overlimit::memory {

class Region : NonCopyable {
 public:
  /// Throws OutOfMemory when the system refuses.
  explicit Region(std::size_t size)
      : size_(size),
        base_(
            mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (base_ == MAP_FAILED) {
      throw OutOfMemory("the system has no " + std::to_string(size) + " bytes of memory; lower max_bytes");
    }
  }
  ~Region() { munmap(base_, size_); }
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(base_); }

 private:
  std::size_t size_;
  void* base_;
};

}  // namespace overlimit::memory
