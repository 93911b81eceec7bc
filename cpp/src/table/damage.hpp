// What is found when memory that others may write is not as the table left it.
#pragma once

#include <exception>

namespace overlimit::table {

/// Thrown when a shard's memory contradicts itself, before anything of it is used.
class Damaged : public std::exception {
 public:
  [[nodiscard]] const char* what() const noexcept override { return "the shared memory is damaged"; }
};

inline void require(bool is_sound) {
  if (!is_sound) [[unlikely]]
    throw Damaged();
}

}  // namespace overlimit::table
