// The table of the stores in memory, in a file that processes share.
#pragma once

#include "shared_memory/layout.hpp"
#include "shared_memory/shared_file.hpp"

namespace overlimit::shared_memory {

/// A process's view of it.
class SharedTable final : public View {
 public:
  /// What its files are.
  static const FileKind kFiles;

  SharedTable(Mapping& mapping, const table::Holders& processes);
  [[nodiscard]] table::Table& table() { return table_; }

 private:
  table::Table table_;
};

}  // namespace overlimit::shared_memory
