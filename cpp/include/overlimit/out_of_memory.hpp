#pragma once

#include <new>
#include <string>
#include <utility>

namespace overlimit {

/// Says for what there was no room, and what would make some.
class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(std::string what) : what_(std::move(what)) {}
  [[nodiscard]] const char* what() const noexcept override { return what_.c_str(); }

 private:
  std::string what_;
};

}  // namespace overlimit
