// What lies where in the file of a table.
#pragma once

#include "shared_memory/file_head.hpp"
#include "table/table.hpp"

namespace overlimit::shared_memory {

/// The start of the file. The shards follow, each with its state, its log and its memory.
struct TableHead {
  FileHead file;
  table::TableState table;
};

/// A hash of the sizes and the places of everything in the file.
[[nodiscard]] std::uint64_t layout_hash();

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
