// Leases that the processes of a host spend as one, in a file that they share (docs/semantics.md: leases).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "redis/knowledge/demand.hpp"
#include "redis/knowledge/lease.hpp"
#include "shared_memory/shared_file.hpp"
#include "table/keyed_hash.hpp"

namespace overlimit::redis {

/// What tells a key under some limits from all others of the file.
struct HostName {
  table::KeyHash key;
  std::uint64_t policy;  ///< a hash of its place and name
  std::uint64_t limits;
};

/// A key in the file. Zeros are a free one. It is changed by whoever holds its bucket, but for its units; a
/// reader finds out by its version whether it has read what belongs together.
class HostKey {
 public:
  static constexpr std::size_t kMostLimits = 4;

  [[nodiscard]] bool is_free() const { return is_used_ == 0; }
  [[nodiscard]] bool is_of(const HostName& name) const { return is_of_key(name) && limits_ == name.limits; }
  /// Whatever its limits.
  [[nodiscard]] bool is_of_key(const HostName& name) const {
    return !is_free() && low_ == name.key.low && high_ == name.key.high;
  }
  [[nodiscard]] bool is_of_policy(std::uint64_t policy) const { return !is_free() && policy_ == policy; }
  /// Whether nobody asks for it any more.
  [[nodiscard]] bool is_old(Duration now) const {
    return now > demand.rare_from && now > demand.refilled_by && now >= ends_at_;
  }

  /// Its lease as that of this charge, which is of its key and limits; nullptr if it has none, or another
  /// process is writing it.
  [[nodiscard]] std::shared_ptr<Lease> lease_of(const Charge& charge);

  // By whoever holds its bucket.
  void become(const HostName& name);
  /// Puts a lease in the place of the one before, and returns it as all see it. Units of that which are left
  /// are lost.
  std::shared_ptr<Lease> put(const Charge& charge, const LeaseTerms& terms);
  /// Has nobody spend of its lease any more. Who has put it may still give back what is left.
  void drop_lease();
  /// Takes all that is left of its lease.
  [[nodiscard]] Cost take_rest();
  void free();

  Demand demand;
  /// Who asks for units: whatever an earlier one is granted comes too late.
  Shared<std::uint64_t> turn;

 private:
  struct Row {
    Shared<std::int64_t> remaining;
    Shared<Instant> gone_at;
    Shared<Instant> created_at;
    std::array<Shared<std::int64_t>, 3> after;
  };

  void begin_writing();
  void end_writing();
  void write(const LeaseTerms& terms);
  [[nodiscard]] LeaseTerms read(std::size_t limits) const;
  [[nodiscard]] SharedUnits units(std::uint64_t version, Duration ends_at);

  std::atomic<std::uint64_t> version_;  // odd while somebody writes
  Shared<std::uint64_t> is_used_;
  Shared<std::uint64_t> low_;
  Shared<std::uint64_t> high_;
  Shared<std::uint64_t> policy_;
  Shared<std::uint64_t> limits_;
  // When the lease ends, in the upper half, and the units that are left; changed by compare-and-swap alone.
  std::atomic<std::uint64_t> word_;
  Shared<Duration> ends_at_;
  Shared<Cost> granted_;  // 0: there is no lease
  Shared<Instant> shown_;
  Shared<Duration> asked_at_;
  Shared<Duration> answered_at_;
  Shared<std::uint64_t> rows_count_;
  std::array<Row, kMostLimits> rows_;
};

/// The view of one process. Thread-safe.
class HostLeases final : public shared_memory::View {
 public:
  static const shared_memory::FileKind kFiles;
  static constexpr std::size_t kBuckets = 1024;
  static constexpr std::size_t kBucketSize = 8;

  struct Bucket {
    std::atomic<std::uint32_t> holder;  ///< the process that changes its keys; 0: none
    std::array<HostKey, kBucketSize> keys;
  };
  struct Head {
    shared_memory::FileHead file;
    table::KeyedHash hash;
    std::uint64_t time_namespace;  ///< in which its boot times are
    std::atomic<std::uint64_t> turns;
    std::array<Bucket, kBuckets> buckets;
  };

  /// Throws StoreConfigError if this process does not count the same time as the others.
  HostLeases(shared_memory::Mapping& mapping, const table::Holders& processes);

  /// The right to change the keys of a bucket. False: a process that has it lives.
  class Hold : ::overlimit::NonCopyable {
   public:
    Hold(Bucket& bucket, const table::Holders& processes);
    ~Hold();
    explicit operator bool() const { return is_held_; }

   private:
    Bucket& bucket_;
    bool is_held_;
  };

  /// `place`: where the server is.
  [[nodiscard]] HostName name_of(std::string_view place, std::string_view policy, std::string_view identifier,
                                 std::uint64_t limits) const;
  [[nodiscard]] std::uint64_t policy_of(std::string_view place, std::string_view policy) const;
  [[nodiscard]] Bucket& bucket_of(const HostName& name) const {
    return head_.buckets[name.key.low % kBuckets];
  }
  [[nodiscard]] std::span<Bucket> buckets() const { return head_.buckets; }
  [[nodiscard]] const table::Holders& processes() const { return processes_; }
  /// nullptr if there is none.
  [[nodiscard]] static HostKey* find(Bucket& bucket, const HostName& name);
  /// The key, or a new one in the place of one that is free or old; nullptr if there is no room. By whoever
  /// holds the bucket.
  [[nodiscard]] static HostKey* make(Bucket& bucket, const HostName& name, Duration now);
  /// A number that nobody had before.
  [[nodiscard]] std::uint64_t next_turn() const { return head_.turns.fetch_add(1) + 1; }

 private:
  Head& head_;
  const table::Holders& processes_;
};

}  // namespace overlimit::redis
