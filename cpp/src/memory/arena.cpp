#include "memory/arena.hpp"

#include <bit>

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
  const std::size_t granules = granules_in(size_class);
  if (const Offset block = take_fresh(granules, purpose)) return block;
  for (std::size_t larger = size_class + 1; larger < kClasses; ++larger) {
    const Offset block = take_free(larger);
    if (block == 0) continue;
    for (std::size_t rest = granules_in(larger) - granules, at = block + granules; rest > 0;) {
      const std::size_t piece = rest < kSmallClasses ? rest : kSmallClasses;
      release(static_cast<Offset>(at), piece * kGranule);
      at += piece;
      rest -= piece;
    }
    return block;
  }
  return 0;
}

void Arena::clear() {
  next_ = 1;
  free_ = {};
}

void Arena::release(Offset block, std::size_t bytes) {
  const std::size_t size_class = class_of((bytes + kGranule - 1) / kGranule);
  *at<Offset>(block) = free_[size_class];
  free_[size_class] = block;
}

}  // namespace overlimit::memory
