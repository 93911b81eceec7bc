#include "redis/knowledge/host_leases.hpp"

#include <sys/stat.h>

#include "platform/processor.hpp"

namespace overlimit::redis {
namespace {

using shared_memory::FileKind;
using shared_memory::Mapping;
using shared_memory::Sizes;
using shared_memory::View;

/// How finely a word tells the ends of leases apart.
constexpr std::int64_t kTick = 64;
constexpr int kHalf = 32;
constexpr int kMomentsToSpin = 40;

std::uint64_t tag_of(Duration ends_at) { return std::uint64_t(ends_at.micros() / kTick) << kHalf; }

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
    .remedy = "remove it, or give the leases another name",
    .layout = layout,
    .bytes = [](const Sizes&) { return sizeof(Head); },
    .format = format,
    .view = [](Mapping& mapping, const table::Holders& processes) -> std::unique_ptr<View> {
      return std::make_unique<HostLeases>(mapping, processes);
    }};

// Of what is read while somebody writes, nothing is used.
std::shared_ptr<Lease> HostKey::lease_of(const Charge& charge) {
  const std::uint64_t version = version_.load(std::memory_order_acquire);
  if (version % 2 != 0 || granted_ <= 0 || rows_count_ != charge.policy->size()) return nullptr;
  LeaseTerms terms = read(charge.policy->size());
  if (version_.load(std::memory_order_relaxed) != version) return nullptr;
  const SharedUnits own = units(version, terms.ends_at);
  return std::make_shared<Lease>(charge, std::move(terms), own);
}

void HostKey::become(const HostName& name) {
  begin_writing();
  low_ = name.key.low;
  high_ = name.key.high;
  policy_ = name.policy;
  limits_ = name.limits;
  granted_ = 0;
  ends_at_ = Duration{};
  word_.store(0, std::memory_order_release);
  demand = Demand{};
  turn = 0;
  is_used_ = 1;
  end_writing();
}

// The word of no two leases that follow each other says the same end, so who has found the one takes nothing
// of the other. What the word says of the end is all that safety rests on.
std::shared_ptr<Lease> HostKey::put(const Charge& charge, const LeaseTerms& terms) {
  LeaseTerms own = terms;
  own.ends_at = Duration(own.ends_at.micros() / kTick * kTick);
  if (tag_of(own.ends_at) == (word_.load(std::memory_order_acquire) & ~SharedUnits::kMask))
    own.ends_at = own.ends_at - Duration(kTick);
  begin_writing();
  write(own);
  end_writing();
  word_.store(tag_of(own.ends_at) | std::uint64_t(own.granted), std::memory_order_release);
  const std::uint64_t version = version_.load(std::memory_order_relaxed);
  const SharedUnits shared = units(version, own.ends_at);
  return std::make_shared<Lease>(charge, std::move(own), shared);
}

void HostKey::drop_lease() {
  begin_writing();
  granted_ = 0;
  end_writing();
}

Cost HostKey::take_rest() {
  std::uint64_t word = word_.load(std::memory_order_acquire);
  while (!word_.compare_exchange_weak(word, word & ~SharedUnits::kMask, std::memory_order_acq_rel)) {
  }
  return Cost(word & SharedUnits::kMask);
}

void HostKey::free() {
  begin_writing();
  is_used_ = 0;
  granted_ = 0;
  turn = 0;
  end_writing();
}

// One that was left odd, by somebody who died, becomes another odd one. Whatever is written after it is seen
// after it (H.-J. Boehm, Can Seqlocks Get Along With Programming Language Memory Models?, 2012).
void HostKey::begin_writing() {
  version_.store((version_.load(std::memory_order_relaxed) | 1) + 2, std::memory_order_relaxed);
}

void HostKey::end_writing() {
  version_.store(version_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

void HostKey::write(const LeaseTerms& terms) {
  ends_at_ = terms.ends_at;
  granted_ = terms.granted;
  shown_ = terms.told.shown;
  asked_at_ = terms.told.asked_at;
  answered_at_ = terms.told.answered_at;
  rows_count_ = terms.rows.size();
  for (std::size_t i = 0; i < terms.rows.size(); ++i) {
    const auto& [remaining, gone_at, receipt] = terms.rows[i];
    rows_[i].remaining = remaining;
    rows_[i].gone_at = gone_at;
    rows_[i].created_at = receipt.created_at;
    std::ranges::copy(receipt.after, rows_[i].after.begin());
  }
}

LeaseTerms HostKey::read(std::size_t limits) const {
  LeaseTerms terms{{shown_, asked_at_, answered_at_}, ends_at_, granted_, {}};
  for (std::size_t i = 0; i < limits; ++i) {
    const Row& row = rows_[i];
    terms.rows.push_back(
        {row.remaining, row.gone_at, {row.created_at, {row.after[0], row.after[1], row.after[2]}}});
  }
  return terms;
}

SharedUnits HostKey::units(std::uint64_t version, Duration ends_at) {
  return {&word_, tag_of(ends_at), &version_, version};
}

HostLeases::HostLeases(Mapping& mapping, const table::Holders& processes)
    : head_(head_of(mapping)), processes_(processes) {
  if (head_.time_namespace == time_namespace()) return;
  throw StoreConfigError(
      "the shared memory of the leases is of a time namespace in which this process is not: give each of "
      "them a lease_in of its own");
}

// Whoever has died leaves it to the next one, who finds what was half written by its version.
HostLeases::Hold::Hold(Bucket& bucket, const table::Holders& processes) : bucket_(bucket), is_held_(false) {
  for (int i = 0; i < kMomentsToSpin && !is_held_; ++i) {
    std::uint32_t holder = 0;
    is_held_ = bucket_.holder.compare_exchange_strong(holder, processes.own(), std::memory_order_acq_rel);
    if (!is_held_) platform::pause_briefly();
  }
  if (is_held_) return;
  std::uint32_t holder = bucket_.holder.load(std::memory_order_acquire);
  if (holder != 0 && !processes.has_ended(holder)) return;
  is_held_ = bucket_.holder.compare_exchange_strong(holder, processes.own(), std::memory_order_acq_rel);
}

HostLeases::Hold::~Hold() {
  if (is_held_) bucket_.holder.store(0, std::memory_order_release);
}

HostName HostLeases::name_of(std::string_view place, std::string_view policy, std::string_view identifier,
                             std::uint64_t limits) const {
  return {head_.hash(1, joined(place, policy, identifier)), policy_of(place, policy), limits};
}

std::uint64_t HostLeases::policy_of(std::string_view place, std::string_view policy) const {
  return head_.hash(2, joined(place, policy, {})).low;
}

HostKey* HostLeases::find(Bucket& bucket, const HostName& name) {
  const auto found = std::ranges::find_if(bucket.keys, [&](const HostKey& key) { return key.is_of(name); });
  return found == bucket.keys.end() ? nullptr : &*found;
}

HostKey* HostLeases::make(Bucket& bucket, const HostName& name, Duration now) {
  if (HostKey* const known = find(bucket, name)) return known;
  const auto is_there_room = [now](const HostKey& key) { return key.is_free() || key.is_old(now); };
  const auto free = std::ranges::find_if(bucket.keys, is_there_room);
  if (free == bucket.keys.end()) return nullptr;
  free->become(name);
  return &*free;
}

}  // namespace overlimit::redis
