#include "redis/leases/host_leases.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>

#include "overlimit/errors.hpp"
#include "platform/processor.hpp"

namespace overlimit::redis {
namespace {

using shared_memory::FileKind;
using shared_memory::Mapping;
using shared_memory::Sizes;
using shared_memory::View;

constexpr int kMomentsToSpin = 40;

/// What boot times of this process are counted from.
std::uint64_t time_namespace() {
  struct stat status {};
  return ::stat("/proc/self/ns/time", &status) == 0 ? status.st_ino : 0;
}

std::uint64_t layout() {
  const std::uint64_t numbers[] = {sizeof(HostLeases::Head), sizeof(HostLeases::Bucket),
                                   sizeof(HostKey),          sizeof(Demand),
                                   HostLeases::kBucketSize,  HostKey::kMostLimits};
  return hash_of({reinterpret_cast<const char*>(numbers), sizeof numbers});
}

HostLeases::Head& head_of(Mapping& mapping) { return *reinterpret_cast<HostLeases::Head*>(mapping.base()); }

void format(Mapping& mapping, const Sizes&) {
  new (&head_of(mapping).hash) table::KeyedHash();
  head_of(mapping).time_namespace = time_namespace();
}

std::string joined(std::string_view one, std::string_view two, std::string_view three) {
  std::string all(one);
  all.append(1, '\0').append(two).append(1, '\0').append(three);
  return all;
}

}  // namespace

const FileKind HostLeases::kFiles{
    .magic = {'o', 'v', 'e', 'r', 'l', 's', 'e', '\n'},
    .version = 1,
    .suffix = "-leases",
    .remedy = "remove it",
    .elsewhere = "give the leases another name",
    .economy = "remove files that nobody uses",
    .layout = layout,
    .bytes = [](const Sizes&) { return sizeof(Head); },
    .format = format,
    .view = [](Mapping& mapping, const table::Holders& processes) -> std::unique_ptr<View> {
      return std::make_unique<HostLeases>(mapping, processes);
    }};

HostLeases::HostLeases(Mapping& mapping, const table::Holders& processes)
    : head_(head_of(mapping)), processes_(processes) {
  if (head_.time_namespace != time_namespace()) {
    throw StoreConfigError(
        "the shared memory of the leases is of a time namespace in which this process is not: give each of "
        "them a lease_in of its own");
  }
  for (auto& keyspace : keyspaces_of(processes_.own())) keyspace.store(0);
}

HostLeases::Keyspaces& HostLeases::keyspaces_of(std::size_t holder) const {
  return head_.keyspaces[holder % shared_memory::kMostProcesses];
}

void HostLeases::enter(std::string_view keyspace) {
  const std::uint64_t own = keyspace_of(keyspace);
  for (auto& each : keyspaces_of(processes_.own())) {
    std::uint64_t known = 0;
    if (each.load(std::memory_order_relaxed) == own || each.compare_exchange_strong(known, own)) return;
  }
}

void HostLeases::leave(std::string_view keyspace) {
  for (auto& each : keyspaces_of(processes_.own())) {
    std::uint64_t known = keyspace_of(keyspace);
    each.compare_exchange_strong(known, 0);
  }
}

bool HostLeases::leases_from(std::string_view keyspace, std::size_t slot) const {
  const Keyspaces& keyspaces = keyspaces_of(slot);
  const std::uint64_t own = keyspace_of(keyspace);
  return std::ranges::any_of(keyspaces, [own](const auto& each) { return each == own; }) ||
         std::ranges::none_of(keyspaces, [](const auto& each) { return each == 0; });
}

// Whoever has died leaves it to the next one, who finds what was half written by its version.
HostLeases::BucketLock::BucketLock(Bucket& bucket, const table::Holders& processes, int times)
    : bucket_(bucket) {
  const auto take = [&](std::uint32_t holder) {
    return bucket_.holder.compare_exchange_strong(holder, processes.own(), std::memory_order_acq_rel);
  };
  for (int i = 0; i < kMomentsToSpin + times && !is_locked_; ++i) {
    is_locked_ = take(0);
    if (is_locked_) return;
    i < kMomentsToSpin ? platform::pause_briefly() : std::this_thread::yield();
  }
  const std::uint32_t holder = bucket_.holder.load(std::memory_order_acquire);
  is_locked_ = (holder == 0 || processes.has_ended(holder)) && take(holder);
}

HostLeases::BucketLock::~BucketLock() {
  if (is_locked_) bucket_.holder.store(0, std::memory_order_release);
}

HostName HostLeases::name_of(std::string_view keyspace, std::string_view policy, std::string_view identifier,
                             std::uint64_t limits) const {
  return {head_.hash(1, joined(keyspace, policy, identifier)), keyspace_of(keyspace),
          policy_of(keyspace, policy), limits};
}

std::uint64_t HostLeases::keyspace_of(std::string_view keyspace) const {
  return head_.hash(3, keyspace).low | 1;
}

std::uint64_t HostLeases::policy_of(std::string_view keyspace, std::string_view policy) const {
  return head_.hash(2, joined(keyspace, policy, {})).low;
}

HostKey* HostLeases::find(Bucket& bucket, const HostName& name) {
  const auto found = std::ranges::find_if(bucket.keys, [&](const HostKey& key) { return key.is_of(name); });
  return found == bucket.keys.end() ? nullptr : &*found;
}

HostKey* HostLeases::room_for(Bucket& bucket, const HostName& name, Duration now) {
  if (HostKey* const known = find(bucket, name)) return known;
  auto found = std::ranges::find_if(bucket.keys, &HostKey::is_free);
  if (found == bucket.keys.end())
    found = std::ranges::find_if(bucket.keys, [now](const HostKey& key) { return key.is_old(now); });
  return found == bucket.keys.end() ? nullptr : &*found;
}

HostLeases::Releases HostLeases::end(std::string_view keyspace, std::string_view policy,
                                     std::string_view identifier) {
  const HostName name = name_of(keyspace, policy, identifier, 0);
  Releases left;
  end_keys(
      bucket_of(name), [&](const HostKey& key) { return key.is_of_key(name); }, left);
  return left;
}

HostLeases::Releases HostLeases::end_all(std::string_view keyspace, std::string_view policy) {
  const std::uint64_t own = policy_of(keyspace, policy);
  Releases left;
  for (Bucket& bucket : head_.buckets)
    end_keys(
        bucket, [own](const HostKey& key) { return key.is_of_policy(own); }, left);
  return left;
}

HostLeases::Releases HostLeases::take_all(std::string_view keyspace) {
  const std::uint64_t own = keyspace_of(keyspace);
  const auto is_leased = [own](const HostKey& key) { return key.is_of_keyspace(own) && key.has_units(); };
  Releases left;
  for (Bucket& bucket : head_.buckets) take_units(bucket, is_leased, BucketLock::kPatient, left);
  return left;
}

HostLeases::Releases HostLeases::take_ended(std::string_view keyspace, Duration now) {
  const std::uint64_t own = keyspace_of(keyspace);
  const auto is_left = [own, now](const HostKey& key) {
    return key.is_of_keyspace(own) && key.has_units() && key.has_ended(now);
  };
  Releases left;
  take_units(head_.buckets[looked_at_.fetch_add(1) % kBuckets], is_left, 0, left);
  return left;
}

// Whoever is stopped in the middle of a change keeps only the keys from being free.
void HostLeases::end_keys(Bucket& bucket, const auto& is_meant, Releases& left) const {
  if (std::ranges::none_of(bucket.keys, is_meant)) return;
  const BucketLock lock(bucket, processes_, BucketLock::kPatient);
  for (HostKey& key : bucket.keys) {
    if (!is_meant(key)) continue;
    left.push_back(key.take_lease());
    if (lock) key.free();
  }
}

void HostLeases::take_units(Bucket& bucket, const auto& is_meant, int times, Releases& left) const {
  if (std::ranges::none_of(bucket.keys, is_meant)) return;
  const BucketLock lock(bucket, processes_, times);
  if (!lock) return;
  for (HostKey& key : bucket.keys) {
    if (is_meant(key)) left.push_back(key.take_lease());
  }
}

}  // namespace overlimit::redis
