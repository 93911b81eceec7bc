#include "memory/arena.hpp"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

namespace overlimit::memory {

Arena::Arena(std::byte* base, std::size_t size) : base_(base) {
  const std::size_t granules = size / kGranule;
  const std::size_t kept_back = granules / 8;
  const std::size_t first = granules - kept_back;
  const std::size_t second = first + kept_back / 2;
  const std::size_t third = second + kept_back / 4;
  // From 2, so that blocks of 128 bytes, the most common ones, lie in two cache lines and not in three.
  parts_ = {Part{2, first}, Part{first, second}, Part{second, third}, Part{third, granules}};
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

Arena::Part& Arena::part_of(Offset block) {
  return *std::ranges::find_if(parts_, [&](const Part& part) { return block < part.end; });
}

Offset Arena::take_free(Part& part, std::size_t size_class) {
  const Offset block = part.free[size_class];
  if (block != 0) part.free[size_class] = *at<Offset>(block);
  return block;
}

Offset Arena::take_fresh(Part& part, std::size_t granules) {
  if (part.next + granules > part.end) return 0;
  const auto block = static_cast<Offset>(part.next);
  part.next += granules;
  return block;
}

Offset Arena::allocate(std::size_t bytes, Purpose purpose) {
  const std::size_t size_class = class_of((bytes + kGranule - 1) / kGranule);
  if (size_class >= kClasses) return 0;
  for (auto parts = static_cast<std::size_t>(purpose) + 1; parts > 0; --parts) {
    if (const Offset block = allocate_in(parts_[parts - 1], size_class)) return block;
  }
  return 0;
}

Offset Arena::allocate_in(Part& part, std::size_t size_class) {
  if (const Offset block = take_free(part, size_class)) return block;
  if (const Offset block = take_fresh(part, granules_in(size_class))) return block;
  if (const Offset block = cut_larger(part, size_class)) return block;
  if (part.released < (part.end - part.begin) / kRejoinPart) return 0;
  rejoin(part);
  const Offset block = take_free(part, size_class);
  return block != 0 ? block : cut_larger(part, size_class);
}

Offset Arena::cut_larger(Part& part, std::size_t size_class) {
  const std::size_t granules = granules_in(size_class);
  for (std::size_t larger = size_class + 1; larger < kClasses; ++larger) {
    const Offset block = take_free(part, larger);
    if (block == 0) continue;
    release_run(part, block + granules, granules_in(larger) - granules);
    return block;
  }
  return 0;
}

void Arena::release_run(Part& part, std::size_t first, std::size_t granules) {
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
void Arena::rejoin(Part& part) {
  std::vector<std::pair<std::size_t, std::size_t>> runs;
  for (std::size_t size_class = 0; size_class < kClasses; ++size_class) {
    while (const Offset block = take_free(part, size_class))
      runs.emplace_back(block, granules_in(size_class));
  }
  std::ranges::sort(runs);
  for (std::size_t i = 0; i < runs.size();) {
    auto [first, granules] = runs[i];
    for (++i; i < runs.size() && runs[i].first == first + granules; ++i) granules += runs[i].second;
    release_run(part, first, granules);
  }
  part.released = 0;
}

void Arena::clear() {
  for (Part& part : parts_) part = {part.begin, part.end};
}

void Arena::release(Offset block, std::size_t bytes) {
  const std::size_t size_class = class_of((bytes + kGranule - 1) / kGranule);
  Part& part = part_of(block);
  part.released += granules_in(size_class);
  put_free(part, block, size_class);
}

void Arena::put_free(Part& part, Offset block, std::size_t size_class) {
  *at<Offset>(block) = part.free[size_class];
  part.free[size_class] = block;
}

}  // namespace overlimit::memory
