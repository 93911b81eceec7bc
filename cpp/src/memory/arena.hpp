// A bounded allocator over a piece of a region. It hands out offsets, not pointers, so that the memory means
// the same wherever it is mapped. Not thread-safe: a shard's lock guards it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace overlimit::memory {

/// Where a block lies, in granules from the arena's start; 0 is no block.
using Offset = std::uint32_t;

class Arena {
 public:
  static constexpr std::size_t kGranule = 32;
  /// The later, the less it may fail: each may use its own part and those of all before it. Of the last
  /// eighth, half is for the overflow entries of policies, a quarter for entries that grow, and a quarter for
  /// common overflow entries.
  enum class Purpose : std::uint8_t { ordinary, policy_overflow, grown_entry, common_overflow };

  Arena(std::byte* base, std::size_t size);

  /// A block of at least `bytes` (not zeroed), or 0 when there is no room for this purpose.
  Offset allocate(std::size_t bytes, Purpose purpose);
  /// Gives back a block that was allocated with the same `bytes`.
  void release(Offset block, std::size_t bytes);
  /// Takes all blocks back at once, and with them the cuts between them.
  void clear();

  template <class T>
  [[nodiscard]] T* at(Offset block) const {
    return reinterpret_cast<T*>(base_ + std::size_t{block} * kGranule);
  }
  [[nodiscard]] Offset offset_of(const void* block) const {
    return static_cast<Offset>(static_cast<std::size_t>(static_cast<const std::byte*>(block) - base_) /
                               kGranule);
  }

 private:
  static constexpr std::size_t kSmallClasses = 32;  // multiples of a granule, then powers of two
  static constexpr std::size_t kClasses = kSmallClasses + 12;
  static constexpr std::size_t kRejoinPart =
      8;  // of the part that was released since free blocks were rejoined

  /// A run of granules whose blocks never mix with those of another.
  struct Part {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::size_t next = begin;
    std::size_t released = 0;  // granules, since free blocks were rejoined
    // Heads of the lists of free blocks, which are linked through their first word.
    std::array<Offset, kClasses> free{};
  };

  static std::size_t class_of(std::size_t granules);
  static std::size_t granules_in(std::size_t size_class);
  Part& part_of(Offset block);
  Offset allocate_in(Part& part, std::size_t size_class);
  Offset take_free(Part& part, std::size_t size_class);
  static Offset take_fresh(Part& part, std::size_t granules);
  Offset cut_larger(Part& part, std::size_t size_class);
  void put_free(Part& part, Offset block, std::size_t size_class);
  void release_run(Part& part, std::size_t first, std::size_t granules);
  void rejoin(Part& part);

  std::byte* base_;
  std::array<Part, 4> parts_;  // one per purpose, in the order of their granules
};

}  // namespace overlimit::memory
