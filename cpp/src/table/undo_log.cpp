#include "table/undo_log.hpp"

#include <algorithm>
#include <vector>

namespace overlimit::table {

// From the newest to the oldest, since a place may have been saved twice.
void UndoLog::undo() {
  if (state_ == nullptr) return;
  const std::size_t size = state_->size;
  require(size <= room_.size() && size % 8 == 0);
  std::vector<std::size_t> starts;
  for (std::size_t at = 0; at < size;) {
    Saved saved{};
    require(size - at >= sizeof saved);
    std::memcpy(&saved, room_.data() + at, sizeof saved);
    require(saved.bytes % 8 == 0 && saved.bytes <= size - at - sizeof saved);
    require(saved.place <= memory_.size() && saved.bytes <= memory_.size() - saved.place);
    starts.push_back(at);
    at += sizeof saved + saved.bytes;
  }
  std::ranges::reverse(starts);
  for (const std::size_t start : starts) {
    Saved saved{};
    std::memcpy(&saved, room_.data() + start, sizeof saved);
    std::memcpy(memory_.data() + saved.place, room_.data() + start + sizeof saved, saved.bytes);
  }
  in_order();
}

}  // namespace overlimit::table
