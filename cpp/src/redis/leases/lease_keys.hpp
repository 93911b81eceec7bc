// The keys of which this process knows how often they are asked for, and what is leased of them: alone, or
// with the other processes of its host.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "overlimit/call.hpp"
#include "redis/leases/demand.hpp"
#include "redis/leases/host_leases.hpp"
#include "redis/leases/lease.hpp"
#include "redis/leases/lease_file.hpp"
#include "redis/leases/pending_releases.hpp"

namespace overlimit::redis {

struct KeyName {
  std::string_view policy;
  std::string_view identifier;
};

inline bool operator==(const KeyName& one, const KeyName& other) {
  return one.identifier == other.identifier && one.policy == other.policy;
}

inline KeyName name_of(const Charge& charge) { return {charge.policy->name(), charge.identifier}; }

struct OwnKeyName {
  std::string policy;
  std::string identifier;

  explicit OwnKeyName(const KeyName& name) : policy(name.policy), identifier(name.identifier) {}
  operator KeyName() const { return {policy, identifier}; }
};

struct KeyNameHash {
  using is_transparent = void;
  std::size_t operator()(const KeyName& name) const {
    const std::hash<std::string_view> hash;
    return hash(name.identifier) * 31 + hash(name.policy);
  }
};

/// Whoever calls anything but file() and host_of() does so alone.
class LeaseKeys : NonCopyable {
 public:
  static constexpr std::size_t kMostKeys = 4096;

  struct Key {
    std::shared_ptr<Lease> lease;
    Demand demand;                 // of this process alone
    std::optional<HostName> name;  // in the file
    HostKey* shared = nullptr;     // where it was found there
  };

  /// A key that is changed by whoever has this alone: what this process knows of it, or what the file has, as
  /// it is there now, since another process may have put a lease.
  class Locked : NonCopyable {
   public:
    Locked(LeaseKeys& keys, Key& own, const Charge& charge);
    /// The same, and the key is made in the file, as far as there is room. Others are waited for a little.
    Locked(LeaseKeys& keys, Key& own, const Charge& charge, Duration now);
    /// Whether nobody else changes it.
    explicit operator bool() const { return !bucket_lock_ || bool(*bucket_lock_); }

    Key& key;
    Demand* demand;
    HostKey* shared = nullptr;

   private:
    bool lock(HostLeases& host, int times = 0);
    void share();

    std::optional<HostLeases::BucketLock> bucket_lock_;
  };

  /// What is left of a lease that is forgotten is released.
  explicit LeaseKeys(PendingReleases& releases) : releases_(releases) {}

  /// Where the processes of this host lease as one.
  [[nodiscard]] LeaseFile& file() { return file_; }
  /// What the processes of this host lease of a charge as one; nullptr: this one leases alone.
  [[nodiscard]] HostLeases* host_of(const Charge& charge);
  /// The key of a charge, if anything is known of it: others of the host may know something.
  [[nodiscard]] Key* find(const Charge& charge);
  /// The same, which is made; nullptr if there is no room.
  Key* find_or_make(const Charge& charge, Duration now);
  /// Has a key know the lease that its processes spend now.
  void look_up(Key& key, const Charge& charge);
  [[nodiscard]] Demand& demand_of(Key& key, const Charge& charge);
  /// Forgets a key, and returns its lease.
  std::shared_ptr<Lease> erase(const KeyName& name);
  /// Forgets those keys for which action(name, key) returns true.
  void erase_if(const auto& action) {
    std::erase_if(keys_, [&](const auto& each) { return action(each.first, each.second); });
  }

 private:
  HostKey* shared_of(Key& key, const Charge& charge);
  void forget_old(Duration now);

  PendingReleases& releases_;
  LeaseFile file_;
  std::unordered_map<OwnKeyName, Key, KeyNameHash, std::equal_to<>> keys_;
  Duration looked_at_{};
};

}  // namespace overlimit::redis
