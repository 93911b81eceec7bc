#include "memory/arena.hpp"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

namespace overlimit::memory {

Arena::Arena(std::byte* base, std::size_t size)
    : base_(base), granules_(size / kGranule), reserve_(granules_ / 8) {}

std::size_t Arena::class_of(std::size_t granules) {
  if (granules <= kSmallClasses) return granules - 1;
  return kSmallClasses + std::size_t(std::bit_width(granules - 1)) -
         std::size_t(std::bit_width(kSmallClasses));
}

std::size_t Arena::granules_in(std::size_t size_class) {
  if (size_class < kSmallClasses) return size_class + 1;
  return kSmallClasses << (size_class - kSmallClasses + 1);
}

Offset Arena::take_free(std::size_t size_class) {
  const Offset block = free_[size_class];
  if (block != 0) free_[size_class] = *at<Offset>(block);
  return block;
}

Offset Arena::take_fresh(std::size_t granules, Purpose purpose) {
  const std::size_t kept_back = purpose == Purpose::vital ? 0 : reserve_;
  if (next_ + granules + kept_back > granules_) return 0;
  const auto block = static_cast<Offset>(next_);
  next_ += granules;
  return block;
}

Offset Arena::allocate(std::size_t bytes, Purpose purpose) {
  const std::size_t size_class = class_of((bytes + kGranule - 1) / kGranule);
  if (size_class >= kClasses) return 0;
  if (const Offset block = take_free(size_class)) return block;
  if (const Offset block = take_fresh(granules_in(size_class), purpose)) return block;
  if (const Offset block = cut_larger(size_class)) return block;
  if (released_ < granules_ / kRejoinPart) return 0;
  rejoin();
  const Offset block = take_free(size_class);
  return block != 0 ? block : cut_larger(size_class);
}

Offset Arena::cut_larger(std::size_t size_class) {
  const std::size_t granules = granules_in(size_class);
  for (std::size_t larger = size_class + 1; larger < kClasses; ++larger) {
    const Offset block = take_free(larger);
    if (block == 0) continue;
    release_run(block + granules, granules_in(larger) - granules);
    return block;
  }
  return 0;
}

void Arena::release_run(std::size_t first, std::size_t granules) {
  while (granules > 0) {
    const std::size_t largest = std::min(granules, granules_in(kClasses - 1));
    const std::size_t piece =
        largest < 2 * kSmallClasses ? std::min(largest, kSmallClasses) : std::bit_floor(largest);
    put_free(static_cast<Offset>(first), class_of(piece));
    first += piece;
    granules -= piece;
  }
}

// Costs a sort of all free blocks, so it is done only once much has been released since the last time.
void Arena::rejoin() {
  std::vector<std::pair<std::size_t, std::size_t>> runs;
  for (std::size_t size_class = 0; size_class < kClasses; ++size_class) {
    while (const Offset block = take_free(size_class)) runs.emplace_back(block, granules_in(size_class));
  }
  std::ranges::sort(runs);
  for (std::size_t i = 0; i < runs.size();) {
    auto [first, granules] = runs[i];
    for (++i; i < runs.size() && runs[i].first == first + granules; ++i) granules += runs[i].second;
    release_run(first, granules);
  }
  released_ = 0;
}

void Arena::clear() {
  next_ = 1;
  released_ = 0;
  free_ = {};
}

void Arena::release(Offset block, std::size_t bytes) {
  const std::size_t size_class = class_of((bytes + kGranule - 1) / kGranule);
  released_ += granules_in(size_class);
  put_free(block, size_class);
}

void Arena::put_free(Offset block, std::size_t size_class) {
  *at<Offset>(block) = free_[size_class];
  free_[size_class] = block;
}

}  // namespace overlimit::memory
