#include "overlimit/redis_store.hpp"

#include "redis/cross_slot/cross_slot_calls.hpp"
#include "redis/leases/lease_request.hpp"
#include "redis/leases/leasing.hpp"
#include "redis/plain/plain_calls.hpp"
#include "redis/recovery/recovery.hpp"
#include "redis/refusals/cached_refusals.hpp"
#include "redis/wire/keys.hpp"
#include "shared_memory/shared_file.hpp"

namespace overlimit {
namespace {

/// `range`: which seconds it takes, in words.
void check(const char* option, Duration value, bool is_valid, const char* range) {
  if (is_valid) return;
  throw std::invalid_argument(std::string(option) + " must be " + range + " seconds, not " +
                              std::to_string(value.micros()) + " microseconds");
}

RedisStore::Options checked(RedisStore::Options options) {
  const std::string& prefix = options.keys.prefix;
  if (!is_key_name(prefix)) {
    throw std::invalid_argument("prefix must be " + std::string(kKeyNameRule) + ", not '" + prefix + "'");
  }
  const auto is_to = [](Duration value, Duration most) { return value >= Duration{} && value <= most; };
  const auto& [keys, timeout, max_stale, lease, remember, lease_in] = options;
  check("timeout", timeout, timeout > Duration{} && timeout <= kMaxPeriod, "above 0");
  check("max_stale", max_stale, is_to(max_stale, RedisStore::kMaxStale), "from 0 to 60");
  check("lease", lease, is_to(lease, RedisStore::kMaxLease), "from 0 to 10");
  check("remember", remember, is_to(remember, RedisStore::kMaxRemember), "from 0 to 3600");
  if (lease_in && !shared_memory::is_name_or_path(lease_in->name_or_path)) {
    throw std::invalid_argument("lease_in must be " + std::string(kKeyNameRule) +
                                ", or an absolute path, not '" + lease_in->name_or_path + "'");
  }
  return options;
}

/// Calls action(wait), which has this timeout.
void within(Duration timeout, const Interrupted& interrupted, const auto& action) {
  redis::naming_timeout(timeout, [&] {
    action(redis::transport::Wait{redis::transport::Deadline(std::chrono::microseconds(timeout.micros())),
                                  interrupted});
  });
}

}  // namespace

/// The plain store, and over it a layer for each option that is given: the order in which they stand.
struct RedisStore::Impl {
  Impl(redis::Location location, Options how)
      : options(checked(std::move(how))), store(std::move(location), options.keys, options.timeout) {
    const bool is_cluster = std::holds_alternative<redis::ClusterLocation>(store.servers().location());
    const auto over = [&] { return std::ref(store.top()); };
    if (options.remember > Duration{}) {
      recovery.emplace(store, over(), options.remember);
      store.add(*recovery, redis::Observer::Keeps::snapshots);
    }
    if (options.lease > Duration{} || is_cluster) {
      cross_slot.emplace(store, over(), is_asked_apart());
      store.add(*cross_slot);
    }
    if (options.max_stale > Duration{}) {
      refusals.emplace(store, over(), options.max_stale);
      store.add(*refusals, redis::Observer::Keeps::values);
    }
    if (options.lease > Duration{}) {
      leasing.emplace(store, over(), redis::Leasing::Options{options.lease, options.lease_in});
      store.add(*leasing, redis::Observer::Keeps::leases);
    }
  }

  [[nodiscard]] redis::CrossSlotCalls::IsAskedApart is_asked_apart() {
    if (options.lease == Duration{}) return {};
    return [this](const Call& call, const Charge& charge) { return leasing->is_hot(call, charge); };
  }
  [[nodiscard]] Duration timeout_of(const Call& call) const { return call.timeout.value_or(options.timeout); }

  const Options options;
  redis::StoreClient store;
  redis::PlainCalls plain{store};
  std::optional<redis::Recovery> recovery;
  std::optional<redis::CrossSlotCalls> cross_slot;
  std::optional<redis::CachedRefusals> refusals;
  std::optional<redis::Leasing> leasing;
};

RedisStore::RedisStore(redis::Location location, Options options)
    : impl_(std::make_unique<Impl>(std::move(location), std::move(options))) {}

RedisStore::~RedisStore() = default;

void RedisStore::decide(std::span<const Call> calls, const Rows& rows, std::span<Instant> times,
                        std::span<Basis> bases, const Interrupted& interrupted) {
  std::ranges::fill(bases.first(calls.size()), Basis{});
  if (calls.empty()) return;
  within(impl_->timeout_of(calls.front()), interrupted, [&](const redis::transport::Wait& wait) {
    redis::decide_many(impl_->store, calls, rows, times, bases, wait);
  });
}

void RedisStore::decide_one(const Call& call, const Rows& rows, Instant& time, Basis& basis,
                            const Interrupted& interrupted) {
  basis = {};
  within(impl_->timeout_of(call), interrupted, [&](const redis::transport::Wait& wait) {
    time = impl_->store.top().decide(redis::with_reading(call), rows, basis, wait);
  });
}

bool RedisStore::decide_here(const Call& call, const Rows& rows, Instant& time, Basis& basis) {
  return impl_->store.top().decide_here(call, {}, rows, time, basis);
}

void RedisStore::refund_showing(const Call& call, std::span<const Receipt> receipts, Present* present,
                                const Interrupted& interrupted) {
  within(impl_->options.timeout, interrupted, [&](const redis::transport::Wait& wait) {
    impl_->store.top().refund(redis::with_reading(call), receipts, present, wait);
  });
}

void RedisStore::lock(const Call& call, Duration duration, const Interrupted& interrupted) {
  impl_->plain.lock(call, duration, interrupted);
}

void RedisStore::unlock(const Call& call, const Interrupted& interrupted) {
  impl_->plain.lock(call, Duration{}, interrupted);
}

void RedisStore::reset(const PolicyIdentity& policy, std::span<const std::string_view> identifiers,
                       const Interrupted& interrupted) {
  impl_->store.top().reset(policy, identifiers, interrupted);
}

void RedisStore::reset_all(const PolicyIdentity& policy, const Interrupted& interrupted) {
  impl_->store.top().reset_all(policy, interrupted);
}

// No call has a key without an identifier.
Duration RedisStore::ping(std::optional<Duration> longest, const Interrupted& interrupted) {
  Duration took{};
  within(longest.value_or(timeout()), interrupted, [&](const redis::transport::Wait& wait) {
    took = impl_->store.servers().ping(redis::key_of(impl_->options.keys, "ping", ""), wait);
  });
  return took;
}

void RedisStore::close() { impl_->store.top().close(); }

LeaseCounts RedisStore::leased(const PolicyIdentity& policy) const {
  return impl_->leasing ? impl_->leasing->counts(policy) : LeaseCounts{};
}

Duration RedisStore::longest_lease(const CompiledPolicy& policy) const {
  return min(impl_->options.lease, redis::longest_lease(policy));
}

BreakerState RedisStore::breaker() const { return impl_->store.servers().topology().breaker(); }

std::optional<std::uint64_t> RedisStore::answers() const { return impl_->store.servers().answers(); }

Duration RedisStore::timeout() const { return impl_->options.timeout; }

}  // namespace overlimit
