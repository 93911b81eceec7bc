// What lies where in a shared file.
#pragma once

#include <array>
#include <atomic>

#include "table/table.hpp"

namespace overlimit::shared_memory {

/// To be increased when the same bytes come to mean something else.
inline constexpr std::uint32_t kVersion = 2;
inline constexpr std::array<char, 8> kMagic{'o', 'v', 'e', 'r', 'l', 'm', 't', '\n'};
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
  std::uint32_t shards;
  std::uint64_t layout;  ///< a hash of how everything is laid out
  std::uint64_t bytes;   ///< of the file
  std::uint64_t max_keys;
  std::uint64_t max_bytes;  ///< as it was asked for
  std::array<char, 40> boot_id;
  std::uint64_t check;  ///< a hash of what is above
};

/// The start of the file. The shards follow, each with its state, its log and its memory.
struct FileHead {
  Header header;
  table::TableState table;
  std::array<ProcessSlot, kMostProcesses> slots;
};

/// A hash of the sizes and the places of everything in the file.
[[nodiscard]] std::uint64_t layout_hash();
[[nodiscard]] std::uint64_t check_of(const Header& header);

/// Where the parts of the shards lie in a file.
class Layout {
 public:
  Layout(std::size_t max_keys, std::size_t max_bytes);
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t shards() const { return division_.shards; }
  [[nodiscard]] table::Shard::Place place(std::byte* base, unsigned shard) const;

 private:
  std::size_t bytes_;
  table::Division division_;
};

}  // namespace overlimit::shared_memory
