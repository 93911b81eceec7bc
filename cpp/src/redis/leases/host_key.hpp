// What the processes of a host know of one key, and the units of its lease (docs/semantics.md: leases).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "redis/leases/demand.hpp"
#include "redis/leases/lease.hpp"
#include "table/keyed_hash.hpp"

namespace overlimit::redis {

/// What tells a key under some limits from all others of the file.
struct HostName {
  table::KeyHash key;
  std::uint64_t keyspace;  ///< a hash of its name
  std::uint64_t policy;    ///< of that and the policy's name
  std::uint64_t limits;
};

/// Text of a limited length.
template <std::size_t kMost>
class HostText {
 public:
  static constexpr std::size_t kMostBytes = kMost;

  HostText& operator=(std::string_view text) {
    size_ = text.size();
    for (std::size_t i = 0; i * 8 < text.size(); ++i) {
      std::uint64_t word = 0;
      std::memcpy(&word, text.data() + i * 8, std::min<std::size_t>(8, text.size() - i * 8));
      words_[i] = word;
    }
    return *this;
  }
  [[nodiscard]] std::string text() const {
    std::string text(std::min<std::uint64_t>(size_, kMost), '\0');
    for (std::size_t i = 0; i * 8 < text.size(); ++i) {
      const std::uint64_t word = words_[i];
      std::memcpy(text.data() + i * 8, &word, std::min<std::size_t>(8, text.size() - i * 8));
    }
    return text;
  }

 private:
  SharedNumber<std::uint64_t> size_;
  std::array<SharedNumber<std::uint64_t>, (kMost + 7) / 8> words_;
};

/// A key in the file. Zeros are a free one. It is changed by whoever holds its bucket, but for its units; a
/// reader finds out by its version whether it has read what belongs together.
class HostKey {
 public:
  static constexpr std::size_t kMostLimits = 4;

  /// Whether there is room for what is known of such a lease.
  [[nodiscard]] static bool has_room_for(const Charge& charge);

  [[nodiscard]] bool is_free() const { return is_used_ == 0; }
  [[nodiscard]] bool is_of(const HostName& name) const { return is_of_key(name) && limits_ == name.limits; }
  /// Whatever its limits.
  [[nodiscard]] bool is_of_key(const HostName& name) const {
    return !is_free() && low_ == name.key.low && high_ == name.key.high;
  }
  [[nodiscard]] bool is_of_policy(std::uint64_t policy) const { return !is_free() && policy_ == policy; }
  [[nodiscard]] bool is_of_keyspace(std::uint64_t keyspace) const {
    return !is_free() && keyspace_ == keyspace;
  }
  /// Whether nobody asks for it any more.
  [[nodiscard]] bool is_old(Duration now) const {
    return now > demand.cold_from && now > demand.refilled_by && has_ended(now);
  }
  [[nodiscard]] bool has_ended(Duration now) const { return now >= ends_at_; }
  [[nodiscard]] bool has_units() const { return (word_.load() & SharedUnits::kMask) > 0; }

  /// Its lease; nullptr if it has none, or another process is writing it.
  [[nodiscard]] std::shared_ptr<Lease> lease();

  // By whoever holds its bucket.
  void become(const HostName& name);
  /// Puts a lease instead of the one before, of which it returns what is left.
  ReleasedUnits put(const LeaseSubject& subject, const LeaseTerms& terms);
  /// Ends its lease, and returns what is left of it.
  ReleasedUnits take_lease();
  void free() { is_used_ = 0; }

  Demand demand;
  /// The number of the latest request for units: what an earlier one is granted comes too late.
  SharedNumber<std::uint64_t> request;

 private:
  struct Row {
    SharedNumber<std::int64_t> remaining;
    SharedNumber<Instant> gone_at;
    SharedNumber<Instant> created_at;
    std::array<SharedNumber<std::int64_t>, 3> after;
  };

  void write(const LeaseSubject& subject, const LeaseTerms& terms, std::uint64_t tag);
  [[nodiscard]] LeaseTerms terms() const;
  [[nodiscard]] LeaseSubject subject() const;
  [[nodiscard]] std::uint64_t next_tag(Duration ends_at) const;

  std::atomic<std::uint64_t> version_;  // odd while somebody writes
  SharedNumber<std::uint64_t> is_used_;
  SharedNumber<std::uint64_t> low_;
  SharedNumber<std::uint64_t> high_;
  SharedNumber<std::uint64_t> keyspace_;
  SharedNumber<std::uint64_t> policy_;
  SharedNumber<std::uint64_t> limits_;
  // When the lease ends, which one it is, and the units that are left; changed in one step.
  std::atomic<std::uint64_t> word_;
  SharedNumber<std::uint64_t> tag_;    // of the lease that follows; 0: none
  SharedNumber<std::uint64_t> check_;  // a hash of what follows
  SharedNumber<Duration> ends_at_;
  SharedNumber<Cost> granted_;
  SharedNumber<Instant> shown_;
  SharedNumber<Duration> asked_at_;
  SharedNumber<Duration> answered_at_;
  SharedNumber<std::uint64_t> rows_count_;
  std::array<Row, kMostLimits> rows_;
  HostText<64> name_;
  HostText<256> identifier_;
  HostText<320> packed_;
};

}  // namespace overlimit::redis
