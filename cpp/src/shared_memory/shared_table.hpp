// The table of the stores in memory, in a file that processes share.
#pragma once

#include "shared_memory/shared_file.hpp"
#include "table/table.hpp"

namespace overlimit::shared_memory {

/// The start of the file. The shards follow, each with its state, its log and its memory.
struct TableHead {
  FileHead file;
  table::TableState table;
};

class SharedTable final : public View {
 public:
  static const FileKind kFiles;

  SharedTable(Mapping& mapping, const table::Holders& processes);
  [[nodiscard]] table::Table& table() { return table_; }

 private:
  table::Table table_;
};

}  // namespace overlimit::shared_memory
