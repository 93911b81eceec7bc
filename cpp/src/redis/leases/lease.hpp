// Units of one key that were charged early, and are spent without asking the server (docs/semantics.md:
// leases).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "overlimit/call.hpp"
#include "overlimit/non_copyable.hpp"
#include "overlimit/store.hpp"
#include "redis/plain/server_reading.hpp"

namespace overlimit::redis {

/// What the command for a lease answered for a limit.
struct LeasedRow {
  std::int64_t remaining;  ///< in the record, after all that was charged
  Instant gone_at;
  Receipt receipt;
};

/// What never changes of a lease.
struct LeaseTerms {
  ServerReading reading;
  Duration ends_at;  ///< boot time
  Cost granted;
  std::vector<LeasedRow> rows;
};

/// Of what it is, and so what it takes to release its units, whoever does.
struct LeaseSubject {
  std::string policy;  ///< its name
  std::string identifier;
  std::string packed;    ///< the limits, as scripts read them
  std::uint64_t limits;  ///< their digest

  LeaseSubject() = default;
  explicit LeaseSubject(const Charge& charge)
      : policy(charge.policy->name()),
        identifier(charge.identifier),
        packed(charge.policy->packed()),
        limits(charge.policy->limits_digest()) {}
};

/// Where the units of a lease are counted that others spend, too: a word, the rest of which no other lease
/// has.
struct SharedUnits {
  std::atomic<std::uint64_t>* word;
  std::uint64_t tag;

  static constexpr std::uint64_t kMask = UINT32_MAX;  ///< of the units
  static constexpr Cost kMost = INT32_MAX;
};

/// Under the limits of one policy. What is not atomic never changes. Thread-safe.
class Lease : NonCopyable {
 public:
  /// Of this process, or of several, whose units these are.
  Lease(LeaseSubject subject, LeaseTerms terms, std::optional<SharedUnits> units = std::nullopt);

  /// Takes units; none if fewer are left. Nothing may be spent unless it has not ended after that.
  [[nodiscard]] bool take(Cost units, Cost& left);
  [[nodiscard]] bool has_ended(Duration now) const { return now >= terms_.ends_at; }
  /// Whether it is no older than a store leases for: another one may lease for longer.
  [[nodiscard]] bool is_recent(Duration now, Duration longest) const {
    return now - terms_.reading.asked_at < longest;
  }
  /// False if it was replaced, or has no room for more: then they are to be released.
  [[nodiscard]] bool refund(Cost units);
  /// Takes all that are left, once and for all.
  [[nodiscard]] Cost take_rest();
  [[nodiscard]] Cost left() const {
    const std::uint64_t word = word_->load(std::memory_order_acquire);
    return is_own(word) ? units_in(word) : 0;
  }
  [[nodiscard]] Cost spent() const { return terms_.granted - rest_.load(std::memory_order_acquire) - left(); }

  [[nodiscard]] bool is_of(const CompiledPolicy& policy) const {
    return policy.limits_digest() == subject_.limits;
  }
  /// Whether it has enough for a charge, under the limits of that.
  [[nodiscard]] bool covers(const Charge& charge) const {
    return is_of(*charge.policy) && left() >= charge.cost;
  }
  /// Whether nobody has replaced it.
  [[nodiscard]] bool is_current() const { return is_own(word_->load(std::memory_order_acquire)); }
  [[nodiscard]] bool is_shared() const { return word_ != &own_word_; }
  [[nodiscard]] bool is_charged_by(std::span<const Receipt> receipts) const;
  [[nodiscard]] Duration ends_at() const { return terms_.ends_at; }
  [[nodiscard]] const LeaseTerms& terms() const { return terms_; }
  /// The earliest instant that the server's clock can show, but none before one that was shown.
  [[nodiscard]] Instant time(Duration now) const {
    return max(terms_.reading.earliest(now), Instant(shown_.load(std::memory_order_relaxed)));
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
  /// The rows of a call that is refused until the next ask, after so long.
  void show_refused(Instant time, Duration retry_after, const Rows& rows) const;
  [[nodiscard]] const LeaseSubject& subject() const { return subject_; }
  [[nodiscard]] std::vector<Receipt> receipts() const;

 private:
  [[nodiscard]] bool is_own(std::uint64_t word) const { return (word & ~mask_) == tag_; }
  [[nodiscard]] Cost units_in(std::uint64_t word) const { return Cost(word & mask_); }

  const LeaseSubject subject_;
  const LeaseTerms terms_;
  std::atomic<std::uint64_t> own_word_;
  std::atomic<std::uint64_t>* const word_;
  const std::uint64_t mask_;  // of the units in the word
  const std::uint64_t tag_;   // the rest of it
  std::atomic<Cost> besides_{0};
  std::atomic<Cost> rest_{0};           // that was taken
  std::atomic<std::int64_t> shown_{0};  // the latest instant of a call with others
};

/// Units of a lease that are to be released.
struct ReleasedUnits {
  std::shared_ptr<Lease> lease;
  Cost units;
};

}  // namespace overlimit::redis
