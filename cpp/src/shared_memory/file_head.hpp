// What every shared file begins with, whatever it is for.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace overlimit::shared_memory {

inline constexpr std::size_t kMostProcesses = 1024;

/// A place for a process. Whoever holds a record lock on its byte of the file is that process.
struct ProcessSlot {
  std::atomic<std::uint32_t> generation;  ///< another one for each process
  std::atomic<std::uint32_t> is_used;     ///< 0 once a process has closed the file in an orderly way
};

/// Written once, before anybody else sees the file.
struct Header {
  std::array<char, 8> magic;
  std::uint32_t version;
  std::uint32_t unused;
  std::uint64_t layout;  ///< a hash of how everything is laid out
  std::uint64_t bytes;   ///< of the file
  std::uint64_t max_keys;
  std::uint64_t max_bytes;  ///< as it was asked for
  std::array<char, 40> boot_id;
  std::uint64_t check;  ///< a hash of what is above
};

struct FileHead {
  Header header;
  std::array<ProcessSlot, kMostProcesses> slots;
};

[[nodiscard]] std::uint64_t check_of(const Header& header);

}  // namespace overlimit::shared_memory
