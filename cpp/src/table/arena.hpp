// A bounded allocator over a piece of memory. It hands out offsets, not pointers, so that the memory means
// the same wherever it is mapped. Not thread-safe: a shard's lock guards it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "table/memory.hpp"

namespace overlimit::table {

/// Where a block lies, in granules from the arena's start; 0 is no block.
using Offset = std::uint32_t;

class Arena {
 public:
  static constexpr std::size_t kGranule = 32;
  /// The later, the less it may fail: each may use its own part and those of all before it. Of the last
  /// eighth, half is for the overflow entries of policies, a quarter for entries that grow, and a quarter for
  /// common overflow entries.
  enum class Purpose : std::uint8_t { ordinary, policy_overflow, grown_entry, common_overflow };
  static constexpr std::size_t kParts = 4;

 private:
  static constexpr std::size_t kSmallClasses = 32;  // multiples of a granule, then powers of two
  static constexpr std::size_t kClasses = kSmallClasses + 12;

 public:
  /// What is free, of one part: a run of granules whose blocks never mix with those of another.
  struct Part {
    std::uint64_t next;                 ///< what lies from here on has never been in use
    std::uint64_t not_next;             ///< ~next, which tells whether either is damaged
    std::uint64_t released;             ///< granules, since free blocks were rejoined
    std::array<Offset, kClasses> free;  ///< heads of the lists of free blocks
  };
  /// All that the arena knows. It is not in the undo log: what a call leaves half done is found again
  /// from the blocks in use.
  struct State {
    std::uint64_t is_changing;  ///< whether a call may have changed it and has not ended
    std::array<Part, kParts> parts;
  };
  /// A block in use, or a run of free ones.
  struct Block {
    std::size_t first;
    std::size_t granules;
    auto operator<=>(const Block&) const = default;
  };

  /// With `keeps_released`, blocks that are released stay as they are until the call ends.
  Arena(State& state, std::byte* base, std::size_t size, bool keeps_released = false);
  /// A block of at least `bytes` (not zeroed), or 0 when there is no room for this purpose.
  Offset allocate(std::size_t bytes, Purpose purpose);
  /// Gives back a block that was allocated with the same `bytes`.
  void release(Offset block, std::size_t bytes);
  /// Takes all blocks back at once, and with them the cuts between them.
  void clear();
  /// To be called when what the call has done so far is complete: what it has released is free now.
  void free_released();
  /// To be called when it is undone instead.
  void forget_released() { released_.clear(); }
  /// To be called at the end of a call.
  void end_call();
  /// Finds out again what is free, from the blocks that are in use.
  void rebuild(std::vector<Block> used);
  /// What has ever been in use at once; what is released is used again.
  [[nodiscard]] std::size_t touched_bytes() const;
  /// The block that was allocated with these `bytes`.
  [[nodiscard]] static Block block_at(Offset block, std::size_t bytes);

  /// The memory of a block, or of a place in one, of which this many bytes are used.
  template <class T>
  [[nodiscard]] T* at(Offset block, std::size_t bytes = sizeof(T)) const {
    const std::size_t place = std::size_t{block} * kGranule;
    require(place + bytes <= size_);
    return reinterpret_cast<T*>(base_ + place);
  }
  [[nodiscard]] Offset offset_of(const void* block) const {
    return static_cast<Offset>(static_cast<std::size_t>(static_cast<const std::byte*>(block) - base_) /
                               kGranule);
  }
  /// The address of a block that may lie anywhere.
  [[nodiscard]] const void* address_of(Offset block) const { return base_ + std::size_t{block} * kGranule; }

 private:
  static constexpr std::size_t kRejoinPart =
      8;  // of the part that was released since free blocks were rejoined

  /// The first words of a free block. The mark tells it from anything else.
  struct FreeBlock {
    Offset next;
    std::uint32_t mark;
  };

  static std::size_t class_of(std::size_t granules);
  static std::size_t granules_in(std::size_t size_class);
  static std::uint32_t mark_of(Offset block, Offset next, std::size_t size_class);
  [[nodiscard]] std::size_t begin_of(std::size_t part) const { return ends_[part]; }
  [[nodiscard]] std::size_t end_of(std::size_t part) const { return ends_[part + 1]; }
  [[nodiscard]] std::size_t part_of(std::size_t granule) const;
  void begin_change();
  void set_next(std::size_t part, std::size_t next);
  Offset allocate_in(std::size_t part, std::size_t size_class);
  Offset take_free(std::size_t part, std::size_t size_class);
  Offset take_fresh(std::size_t part, std::size_t granules);
  Offset cut_larger(std::size_t part, std::size_t size_class);
  void give_back(const Block& block);
  void put_free(std::size_t part, Offset block, std::size_t size_class);
  void release_run(std::size_t part, const Block& run);
  void rejoin(std::size_t part);

  State& state_;
  std::byte* base_;
  std::size_t size_;
  std::array<std::size_t, kParts + 1> ends_;  // of the parts, from the start of the first
  bool keeps_released_;
  std::vector<Block> released_;
};

}  // namespace overlimit::table
