// Leases that the processes of a host spend as one, in a file that they share (docs/semantics.md: leases).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

#include "redis/leases/host_key.hpp"
#include "shared_memory/shared_file.hpp"
#include "table/keyed_hash.hpp"

namespace overlimit::redis {

/// The view of one process. Thread-safe.
class HostLeases final : public shared_memory::View {
 public:
  static const shared_memory::FileKind kFiles;
  static constexpr std::size_t kBuckets = 512;
  static constexpr std::size_t kBucketSize = 8;

  struct Bucket {
    std::atomic<std::uint32_t> holder;  ///< the process that changes its keys; 0: none
    std::array<HostKey, kBucketSize> keys;
  };
  /// From which servers a process leases; if all are used, from any.
  using Keyspaces = std::array<std::atomic<std::uint64_t>, 4>;
  struct Head {
    shared_memory::FileHead file;
    std::array<Keyspaces, shared_memory::kMostProcesses> keyspaces;  ///< by their slots
    table::KeyedHash hash;
    std::uint64_t time_namespace;  ///< in which its boot times are
    std::atomic<std::uint64_t> requests;
    std::array<Bucket, kBuckets> buckets;
  };

  /// Throws StoreConfigError if this process does not count the same time as the others.
  HostLeases(shared_memory::Mapping& mapping, const table::Holders& processes);

  /// The right to change the keys of a bucket. False: a process that has it lives, and did not let go of it
  /// after so many times that others could run.
  class BucketLock : ::overlimit::NonCopyable {
   public:
    static constexpr int kPatient = 50;  ///< times, for what is lost or left without it

    BucketLock(Bucket& bucket, const table::Holders& processes, int times = 0);
    ~BucketLock();
    explicit operator bool() const { return is_locked_; }

   private:
    Bucket& bucket_;
    bool is_locked_ = false;
  };

  /// Notes that this process leases from a server, or no longer does.
  void enter(std::string_view keyspace);
  void leave(std::string_view keyspace);
  /// Whether the process of a slot does, too.
  [[nodiscard]] bool leases_from(std::string_view keyspace, std::size_t slot) const;

  /// `keyspace`: its name.
  [[nodiscard]] HostName name_of(std::string_view keyspace, std::string_view policy,
                                 std::string_view identifier, std::uint64_t limits) const;
  [[nodiscard]] Bucket& bucket_of(const HostName& name) const {
    return head_.buckets[name.key.low % kBuckets];
  }
  [[nodiscard]] const table::Holders& processes() const { return processes_; }
  /// nullptr if there is none.
  [[nodiscard]] static HostKey* find(Bucket& bucket, const HostName& name);
  /// The key, or one that may become it: it is free, or else old; nullptr if there is none.
  [[nodiscard]] static HostKey* room_for(Bucket& bucket, const HostName& name, Duration now);
  /// A number that nobody had before.
  [[nodiscard]] std::uint64_t next_request() const { return head_.requests.fetch_add(1) + 1; }

  using Releases = std::vector<ReleasedUnits>;
  /// Ends the leases of a key, whatever its limits, and returns what is left of them. It is known no more.
  [[nodiscard]] Releases end(std::string_view keyspace, std::string_view policy, std::string_view identifier);
  /// The same of all keys of a policy.
  [[nodiscard]] Releases end_all(std::string_view keyspace, std::string_view policy);
  /// Takes what is left of all leases of a keyspace.
  [[nodiscard]] Releases take_all(std::string_view keyspace);
  /// Takes what is left of some leases that have ended, others each time: whoever leased may have died, or do
  /// nothing more.
  [[nodiscard]] Releases take_ended(std::string_view keyspace, Duration now);

 private:
  [[nodiscard]] Keyspaces& keyspaces_of(std::size_t holder) const;
  [[nodiscard]] std::uint64_t policy_of(std::string_view keyspace, std::string_view policy) const;
  [[nodiscard]] std::uint64_t keyspace_of(std::string_view keyspace) const;
  void end_keys(Bucket& bucket, const auto& is_meant, Releases& left) const;
  void take_units(Bucket& bucket, const auto& is_meant, int times, Releases& left) const;

  Head& head_;
  const table::Holders& processes_;
  std::atomic<std::size_t> looked_at_{0};  // buckets, for what has ended
};

}  // namespace overlimit::redis
