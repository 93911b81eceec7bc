#include "shared_memory/shared_table.hpp"

namespace overlimit::shared_memory {
namespace {

/// Of a file that nobody else has seen yet, no shard is ever locked.
class Nobody final : public table::Holders {
 public:
  [[nodiscard]] bool has_ended(std::uint32_t) const override { return true; }
};

Layout layout_of(const Sizes& sizes) { return {sizes.max_keys, sizes.max_bytes}; }

void format(Mapping& mapping, const Sizes& sizes) {
  auto* const head = reinterpret_cast<TableHead*>(mapping.base());
  new (&head->table) table::TableState{};
  head->table.totals.max_keys = sizes.max_keys;
  const Layout layout = layout_of(sizes);
  const Nobody nobody;
  for (unsigned i = 0; i < layout.shards(); ++i)
    table::Shard(layout.place(mapping.base(), i), &nobody).format();
}

std::vector<std::unique_ptr<table::Shard>> shards_of(Mapping& mapping, const table::Holders& processes) {
  const Layout layout = layout_of(mapping.sizes());
  std::vector<std::unique_ptr<table::Shard>> shards;
  for (unsigned i = 0; i < layout.shards(); ++i) {
    shards.push_back(std::make_unique<table::Shard>(layout.place(mapping.base(), i), &processes));
  }
  return shards;
}

}  // namespace

const FileKind SharedTable::kFiles{
    .magic = {'o', 'v', 'e', 'r', 'l', 'm', 't', '\n'},
    .version = 3,
    .suffix = "",
    .remedy = "call unlink() on the store",
    .elsewhere = "give the store another name",
    .economy = "give the store a smaller max_bytes",
    .layout = layout_hash,
    .bytes = [](const Sizes& sizes) { return layout_of(sizes).bytes(); },
    .format = format,
    .view = [](Mapping& mapping, const table::Holders& processes) -> std::unique_ptr<View> {
      return std::make_unique<SharedTable>(mapping, processes);
    }};

SharedTable::SharedTable(Mapping& mapping, const table::Holders& processes)
    : table_(reinterpret_cast<TableHead*>(mapping.base())->table, shards_of(mapping, processes)) {}

}  // namespace overlimit::shared_memory
