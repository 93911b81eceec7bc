// Units of one key that were charged early, and are spent without asking the server (docs/semantics.md:
// leases).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "overlimit/call.hpp"
#include "overlimit/non_copyable.hpp"
#include "overlimit/store.hpp"
#include "redis/knowledge/server_reading.hpp"

namespace overlimit::redis {

/// What the command for a lease answered for a limit.
struct LeasedRow {
  std::int64_t remaining;  ///< in the record, after all that was charged
  Instant gone_at;
  Receipt receipt;
};

/// What never changes of a lease.
struct LeaseTerms {
  ServerReading told;
  Duration ends_at;  ///< boot time
  Cost granted;
  std::vector<LeasedRow> rows;
};

/// Where the units of a lease are counted that others spend, too: a word, of which the upper half says that
/// it is still of that lease, and another one, which changes when what is known of it is replaced.
struct SharedUnits {
  std::atomic<std::uint64_t>* word;
  std::uint64_t tag;
  const std::atomic<std::uint64_t>* version;
  std::uint64_t known;

  static constexpr Cost kMost = UINT32_MAX;
  static constexpr std::uint64_t kMask = UINT32_MAX;
};

/// Under the limits of one policy. What is not atomic never changes. Thread-safe.
class Lease : NonCopyable {
 public:
  /// Of this process.
  Lease(const Charge& charge, LeaseTerms terms);
  /// Of several, whose units these are.
  Lease(const Charge& charge, LeaseTerms terms, const SharedUnits& units);

  /// Takes units; none if fewer are left. Nothing may be spent unless it has not ended after that.
  [[nodiscard]] bool take(Cost units, Cost& left);
  [[nodiscard]] bool has_ended(Duration now) const { return now >= terms_.ends_at; }
  /// False if it was replaced, and its units are no longer counted.
  bool put_back(Cost units);
  /// Takes all that are left, once and for all.
  [[nodiscard]] Cost take_rest();
  [[nodiscard]] Cost left() const {
    const std::uint64_t word = word_->load(std::memory_order_acquire);
    return is_own(word) ? units_in(word) : 0;
  }
  [[nodiscard]] Cost spent() const { return terms_.granted - rest_.load(std::memory_order_acquire) - left(); }

  [[nodiscard]] bool is_of(const CompiledPolicy& policy) const {
    return policy.limits_digest() == policy_.limits_digest();
  }
  /// Whether it has enough for a charge, under the limits of that.
  [[nodiscard]] bool covers(const Charge& charge) const {
    return is_of(*charge.policy) && left() >= charge.cost;
  }
  /// Whether nobody has replaced it.
  [[nodiscard]] bool is_current() const {
    return version_ == nullptr || version_->load(std::memory_order_acquire) == known_;
  }
  [[nodiscard]] bool is_shared() const { return version_ != nullptr; }
  [[nodiscard]] bool is_charged_by(std::span<const Receipt> receipts) const;
  [[nodiscard]] Duration ends_at() const { return terms_.ends_at; }
  [[nodiscard]] const LeaseTerms& terms() const { return terms_; }
  /// The earliest instant that the server's clock can show, but none before one that was shown.
  [[nodiscard]] Instant time(Duration now) const {
    return max(terms_.told.earliest(now), Instant(shown_.load(std::memory_order_relaxed)));
  }
  /// Notes what this process charged to the key besides.
  void note_charged(Cost units) { besides_.fetch_add(units, std::memory_order_relaxed); }
  void note_time(Instant time) {
    std::int64_t before = shown_.load(std::memory_order_relaxed);
    while (before < time.micros() && !shown_.compare_exchange_weak(before, time.micros())) {
    }
  }
  /// The rows of a decision at this instant, after which so many units are left here.
  void show(Instant time, Cost left, const Rows& rows) const;
  /// The rows of a call that is refused until its turn comes, after so long.
  void show_refused(Instant time, Duration retry_after, const Rows& rows) const;
  /// The charge of so many of its units, and the receipts of its command.
  [[nodiscard]] Charge charge_of(Cost units) const { return {&policy_, identifier_, units, Role::enforce}; }
  [[nodiscard]] std::vector<Receipt> receipts() const;

 private:
  [[nodiscard]] bool is_own(std::uint64_t word) const { return (word & ~mask_) == tag_; }
  [[nodiscard]] Cost units_in(std::uint64_t word) const { return Cost(word & mask_); }

  const CompiledPolicy policy_;
  const std::string identifier_;
  const LeaseTerms terms_;
  std::atomic<std::uint64_t> own_word_;
  std::atomic<std::uint64_t>* const word_;
  const std::uint64_t mask_;                         // of the units in the word
  const std::uint64_t tag_;                          // the rest of it
  const std::atomic<std::uint64_t>* const version_;  // nullptr: of this process
  const std::uint64_t known_;
  std::atomic<Cost> besides_{0};
  std::atomic<Cost> rest_{0};           // that was taken
  std::atomic<std::int64_t> shown_{0};  // the latest instant of a call with others
};

}  // namespace overlimit::redis
