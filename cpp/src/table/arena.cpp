#include "table/arena.hpp"

#include <algorithm>
#include <bit>

namespace overlimit::table {

Arena::Arena(State& state, std::byte* base, std::size_t size, bool keeps_released)
    : state_(state), base_(base), size_(size), keeps_released_(keeps_released) {
  const std::size_t granules = size / kGranule;
  const std::size_t kept_back = granules / 8;
  const std::size_t first = granules - kept_back;
  const std::size_t second = first + kept_back / 2;
  const std::size_t third = second + kept_back / 4;
  // From 2, so that blocks of 128 bytes, if there are no others, lie in two cache lines and not in three.
  ends_ = {2, first, second, third, granules};
}

std::size_t Arena::class_of(std::size_t granules) {
  if (granules <= kSmallClasses) return granules - 1;
  return kSmallClasses + std::size_t(std::bit_width(granules - 1)) -
         std::size_t(std::bit_width(kSmallClasses));
}

std::size_t Arena::granules_in(std::size_t size_class) {
  if (size_class < kSmallClasses) return size_class + 1;
  return kSmallClasses << (size_class - kSmallClasses + 1);
}

std::uint32_t Arena::mark_of(Offset block, Offset next, std::size_t size_class) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
  const std::uint64_t both = std::uint64_t{block} << 32 | next;
  return static_cast<std::uint32_t>(((both ^ size_class << 58 ^ kOdd) * kOdd) >> 32);
}

Arena::Block Arena::block_at(Offset block, std::size_t bytes) {
  return {block, granules_in(class_of((bytes + kGranule - 1) / kGranule))};
}

std::size_t Arena::part_of(std::size_t granule) const {
  std::size_t part = 0;
  while (granule >= end_of(part)) ++part;
  return part;
}

void Arena::set_next(std::size_t part, std::size_t next) {
  state_.parts[part].next = next;
  state_.parts[part].not_next = ~next;
}

Offset Arena::take_free(std::size_t part, std::size_t size_class) {
  Offset& head = state_.parts[part].free[size_class];
  const Offset block = head;
  if (block == 0) return 0;
  require(block >= begin_of(part) && block + granules_in(size_class) <= end_of(part));
  const auto* const free = at<const FreeBlock>(block);
  require(free->mark == mark_of(block, free->next, size_class));
  head = free->next;
  return block;
}

Offset Arena::take_fresh(std::size_t part, std::size_t granules) {
  const std::size_t next = state_.parts[part].next;
  require(state_.parts[part].not_next == ~next && next >= begin_of(part) && next <= end_of(part));
  if (next + granules > end_of(part)) return 0;
  set_next(part, next + granules);
  return static_cast<Offset>(next);
}

std::size_t Arena::touched_bytes() const {
  std::size_t granules = 0;
  for (std::size_t part = 0; part < kParts; ++part) granules += state_.parts[part].next - begin_of(part);
  return granules * kGranule;
}

Offset Arena::allocate(std::size_t bytes, Purpose purpose) {
  const std::size_t size_class = class_of((bytes + kGranule - 1) / kGranule);
  if (size_class >= kClasses) return 0;
  begin_change();
  for (auto parts = static_cast<std::size_t>(purpose) + 1; parts > 0; --parts) {
    if (const Offset block = allocate_in(parts - 1, size_class)) return block;
  }
  return 0;
}

Offset Arena::allocate_in(std::size_t part, std::size_t size_class) {
  if (const Offset block = take_free(part, size_class)) return block;
  if (const Offset block = take_fresh(part, granules_in(size_class))) return block;
  if (const Offset block = cut_larger(part, size_class)) return block;
  if (state_.parts[part].released < (end_of(part) - begin_of(part)) / kRejoinPart) return 0;
  rejoin(part);
  const Offset block = take_free(part, size_class);
  return block != 0 ? block : cut_larger(part, size_class);
}

Offset Arena::cut_larger(std::size_t part, std::size_t size_class) {
  const std::size_t granules = granules_in(size_class);
  for (std::size_t larger = size_class + 1; larger < kClasses; ++larger) {
    const Offset block = take_free(part, larger);
    if (block == 0) continue;
    release_run(part, {block + granules, granules_in(larger) - granules});
    return block;
  }
  return 0;
}

void Arena::release_run(std::size_t part, const Block& run) {
  auto [first, granules] = run;
  while (granules > 0) {
    const std::size_t largest = std::min(granules, granules_in(kClasses - 1));
    const std::size_t piece =
        largest < 2 * kSmallClasses ? std::min(largest, kSmallClasses) : std::bit_floor(largest);
    put_free(part, static_cast<Offset>(first), class_of(piece));
    first += piece;
    granules -= piece;
  }
}

// Costs a sort of all free blocks, so it is done only once much has been released since the last time.
void Arena::rejoin(std::size_t part) {
  std::vector<Block> runs;
  for (std::size_t size_class = 0; size_class < kClasses; ++size_class) {
    while (const Offset block = take_free(part, size_class)) runs.push_back({block, granules_in(size_class)});
  }
  std::ranges::sort(runs);
  for (std::size_t i = 0; i < runs.size();) {
    auto [first, granules] = runs[i];
    for (++i; i < runs.size() && runs[i].first == first + granules; ++i) granules += runs[i].granules;
    release_run(part, {first, granules});
  }
  state_.parts[part].released = 0;
}

void Arena::clear() {
  begin_change();
  for (std::size_t part = 0; part < kParts; ++part) {
    state_.parts[part].free = {};
    state_.parts[part].released = 0;
    set_next(part, begin_of(part));
  }
  released_.clear();
}

void Arena::release(Offset block, std::size_t bytes) {
  begin_change();
  if (keeps_released_) {
    released_.push_back(block_at(block, bytes));
  } else {
    give_back(block_at(block, bytes));
  }
}

void Arena::give_back(const Block& block) {
  const std::size_t part = part_of(block.first);
  state_.parts[part].released += block.granules;
  put_free(part, static_cast<Offset>(block.first), class_of(block.granules));
}

void Arena::put_free(std::size_t part, Offset block, std::size_t size_class) {
  Offset& head = state_.parts[part].free[size_class];
  *at<FreeBlock>(block) = {head, mark_of(block, head, size_class)};
  head = block;
}

void Arena::begin_change() {
  state_.is_changing = 1;
  in_order();
}

void Arena::free_released() {
  for (const Block& block : released_) give_back(block);
  released_.clear();
}

void Arena::end_call() {
  if (state_.is_changing == 0) return;
  free_released();
  in_order();
  state_.is_changing = 0;
}

void Arena::rebuild(std::vector<Block> used) {
  std::ranges::sort(used);
  clear();
  auto block = used.begin();
  for (std::size_t part = 0; part < kParts; ++part) {
    std::size_t end = begin_of(part);
    for (; block != used.end() && block->first < end_of(part); ++block) {
      require(block->first >= end && block->first + block->granules <= end_of(part));
      release_run(part, {end, block->first - end});
      end = block->first + block->granules;
    }
    set_next(part, end);
  }
  require(block == used.end());
  in_order();
  state_.is_changing = 0;
}

}  // namespace overlimit::table
