// The leases of a process: which of them decide a call, who asks for one, and what is released
// (docs/semantics.md: leases).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "overlimit/forks.hpp"
#include "redis/leases/lease_keys.hpp"
#include "redis/plain/layer.hpp"

namespace overlimit::redis {

/// What becomes of the units that are left of a lease which is ended.
enum class Rest : bool { forgotten, released };

/// The leases that this process has in one keyspace, alone or with others of its host. Thread-safe.
class Leases : public Observer, NonCopyable {
 public:
  /// What a command asks for besides its own units.
  struct Request {
    Cost extra = 0;             ///< 0: nothing
    std::uint32_t endings = 0;  ///< how often leases were ended from outside before it
    std::uint64_t number = 0;   ///< its number, among those of the processes of a host
  };

  std::unique_ptr<Observation> observe_attempt(const Exchange& exchange, Extras& extras) override;
  std::unique_ptr<Observation> observe_change(const Change& change) override;
  void add_releases(StoreClient& store, std::vector<std::unique_ptr<Exchange>>& releases) override;

  /// Where the processes of this host lease as one.
  [[nodiscard]] LeaseFile& file() { return keys_.file(); }
  /// What is to be released of them.
  [[nodiscard]] PendingReleases& releases() { return releases_; }

  /// What there is of a key.
  struct Found {
    std::shared_ptr<Lease> lease;  ///< or nullptr
    Duration next_ask_at;          ///< until when nobody asks for it, after a refusal; 0: anybody may
  };
  /// Who was refused asks again no later than so long after somebody asked.
  [[nodiscard]] Found find(const Charge& charge, Duration longest_pause);
  /// The lease of a key, or nullptr.
  [[nodiscard]] std::shared_ptr<Lease> find(const Charge& charge) { return find(charge, {}).lease; }

  /// How often leases were ended from outside by now.
  [[nodiscard]] std::uint32_t endings() const { return endings_.load(std::memory_order_acquire); }
  /// How many extra units to ask for with a command for this charge, to last for so long at the rate since
  /// the last one; none if the key is cold, or somebody else is asking. A lease that is too small for it
  /// ends. If little of a lease comes back, since it is held (`has_holds`), no more than what was spent in
  /// such a time. Who does not come back with an answer is waited for until `patience` has passed.
  [[nodiscard]] Request ask(const Charge& charge, Duration term, Duration now, Duration patience,
                            bool has_holds = false);
  /// Whether ask() would ask for units.
  [[nodiscard]] bool is_wanted(const Charge& charge, Duration term, Duration now, bool has_holds = false);
  /// As long as keys are being changed, what is leased meanwhile ends at once.
  void begin_change() { changes_.fetch_add(1); }
  void end_change() { changes_.fetch_sub(1); }
  /// What a command answered that was sent at this boot time: a lease, or none. A key that is not asked for
  /// until `cold_from`, a term later, is cold; and then who was refused asks again.
  void answered(const Charge& charge, std::optional<LeaseTerms> terms, Duration asked_at,
                const Request& request, bool is_refused, Duration cold_from);
  /// Ends a lease that is too small for a charge which is asked for, so that its rest is released before
  /// that.
  void end_too_small(const Charge& charge);
  /// Ends the leases of a key. What is left of them is released, or forgotten as the key is.
  void end(std::string_view policy, std::string_view identifier, Rest rest);
  void end_all(std::string_view policy, Rest rest);
  /// All but what other processes go on spending.
  void end_all();

 private:
  void end(LeaseKeys::Locked& locked);

  std::atomic<std::uint32_t> endings_{0};
  std::atomic<std::uint32_t> changes_{0};  // under way
  ForkSafeMutex mutex_;
  PendingReleases releases_;   // may lock while mutex_ is held, so it is made after it
  LeaseKeys keys_{releases_};  // guarded by mutex_
};

}  // namespace overlimit::redis
