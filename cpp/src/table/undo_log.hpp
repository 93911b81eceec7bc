// What a call overwrites in a shard, kept until it is complete, for whoever finds its process dead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "platform/processor.hpp"
#include "table/memory.hpp"

namespace overlimit::table {

/// Guarded by the shard's lock. Between calls all of the state is 0, but `complete`, which then means
/// nothing. Of a call over several shards the first leads: all is complete from the moment at which
/// `complete` is set there. It keeps `others` until their logs are empty, so that all who look see the same.
class UndoLog {
 public:
  struct State {
    std::uint64_t size;      ///< bytes of the log
    std::uint64_t others;    ///< in the leading shard: the other shards of the call, a bit each
    std::uint32_t leader;    ///< 1 + the leading shard, or 0: this one
    std::uint32_t complete;  ///< in the leading shard
  };

  /// Room for what one call must save in one shard: 64 charges of 17 records each, with a cell for every
  /// record but the lock's, and for what it may.
  static constexpr std::size_t kSpareRoom = std::size_t{8} << 10;
  static constexpr std::size_t kRoom = (std::size_t{104} << 10) + kSpareRoom;

  /// A log that keeps nothing, for memory that dies with its process.
  UndoLog() = default;
  /// `memory` is what the log protects, and `room` a part of it.
  UndoLog(State& state, std::span<std::byte> memory, std::span<std::byte> room)
      : state_(&state), memory_(memory), room_(room) {}
  [[nodiscard]] bool is_kept() const { return state_ != nullptr; }

  /// To be called before these bytes, whole aligned words of 8, are overwritten.
  void save(const void* place, std::size_t bytes) {
    if (state_ != nullptr) append(place, bytes);
  }
  /// The same for a number of them that is known beforehand, and copied without a call.
  template <std::size_t bytes>
  void save_bytes(const void* place) {
    if (state_ != nullptr) append_inline(place, bytes);
  }
  /// The same for an object that may be a part of a word.
  template <class T>
  void save(const T& object) {
    if (state_ == nullptr) return;
    const std::size_t before = reinterpret_cast<std::uintptr_t>(&object) % 8;
    append(reinterpret_cast<const std::byte*>(&object) - before, (before + sizeof(T) + 7) / 8 * 8);
  }

  /// The same where the caller can do without: false, with nothing saved, when there is no room for that.
  [[nodiscard]] bool try_save(const void* place, std::size_t bytes) {
    if (state_ == nullptr) return true;
    if (sizeof(Saved) + bytes > spare_) return false;
    spare_ -= sizeof(Saved) + bytes;
    append(place, bytes);
    return true;
  }

  /// Has the processor load what most calls write, behind the cache line in which it begins.
  void prefetch() const {
    if (state_ != nullptr) platform::prefetch_for_writing(room_.data() + kUsual);
  }

  /// Makes what was written since the log was empty permanent, for a call on this shard alone.
  void complete() {
    if (state_ == nullptr) return;
    clear();
  }
  void clear() {
    in_order();
    state_->size = 0;
    in_order();
    spare_ = kSpareRoom;
  }

  /// Puts everything back. May be interrupted and done again.
  void undo();
  [[nodiscard]] State& state() const { return *state_; }

 private:
  static constexpr std::size_t kUsual = 64;

  struct Saved {
    std::uint64_t place;  ///< from the start of the memory
    std::uint64_t bytes;
  };

  void append(const void* place, std::size_t bytes) { append_inline(place, bytes); }
  [[gnu::always_inline]] inline void append_inline(const void* place, std::size_t bytes) {
    const std::size_t size = state_->size;
    require(size + sizeof(Saved) + bytes <= room_.size());
    const Saved saved{std::uint64_t(static_cast<const std::byte*>(place) - memory_.data()), bytes};
    std::memcpy(room_.data() + size, &saved, sizeof saved);
    std::memcpy(room_.data() + size + sizeof saved, place, bytes);
    in_order();
    state_->size = size + sizeof saved + bytes;
    in_order();
  }

  State* state_ = nullptr;
  std::size_t spare_ = kSpareRoom;
  std::span<std::byte> memory_;
  std::span<std::byte> room_;
};

}  // namespace overlimit::table
