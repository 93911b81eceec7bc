#include "redis/knowledge/host_leases.hpp"

#include <sys/stat.h>

#include <thread>

#include "overlimit/redis_store.hpp"
#include "platform/processor.hpp"

namespace overlimit::redis {
namespace {

using shared_memory::FileKind;
using shared_memory::Mapping;
using shared_memory::Sizes;
using shared_memory::View;

/// How finely a word tells the ends of leases apart.
constexpr std::int64_t kTick = 64;
/// Of a word: the tick in which the lease ends, above which lease of the key it is, above the units.
constexpr int kTickShift = 44;
constexpr int kOrdinalShift = 32;
constexpr std::uint64_t kOrdinals = 1 << (kTickShift - kOrdinalShift);
constexpr std::uint64_t kTicks = 1 << (64 - kTickShift);
constexpr int kMomentsToSpin = 40;
/// No lease lasts longer.
constexpr Duration kLongest = RedisStore::kMaxLease;

std::uint64_t tick_of(std::uint64_t word) { return word >> kTickShift; }
std::uint64_t tick_of(Duration ends_at) { return std::uint64_t(ends_at.micros() / kTick) % kTicks; }

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

std::uint64_t hash_of_lease(const LeaseSubject& subject, const LeaseTerms& terms) {
  std::string bytes = subject.policy + '\0' + subject.identifier + '\0' + subject.packed;
  const auto append = [&](std::int64_t number) {
    bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
  };
  append(std::int64_t(subject.limits));
  append(terms.told.shown.micros());
  append(terms.told.asked_at.micros());
  append(terms.told.answered_at.micros());
  append(terms.ends_at.micros());
  append(terms.granted);
  for (const LeasedRow& row : terms.rows) {
    append(row.remaining);
    append(row.gone_at.micros());
    append(row.receipt.created_at.micros());
    for (const std::int64_t number : row.receipt.after) append(number);
  }
  return hash_of(bytes);
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

bool HostKey::has_room_for(const Charge& charge) {
  const CompiledPolicy& policy = *charge.policy;
  return policy.size() <= kMostLimits && policy.name().size() <= decltype(name_)::kMostBytes &&
         charge.identifier.size() <= decltype(identifier_)::kMostBytes &&
         policy.packed().size() <= decltype(packed_)::kMostBytes;
}

// Of what is read while somebody writes, nothing is used, nor of what contradicts itself.
std::shared_ptr<Lease> HostKey::lease() {
  const std::uint64_t version = version_.load(std::memory_order_acquire);
  if (version % 2 != 0 || tag_ == 0 || rows_count_ > kMostLimits) return nullptr;
  LeaseTerms own_terms = terms();
  LeaseSubject own_subject = subject();
  const std::uint64_t tag = tag_;
  const std::uint64_t check = check_;
  if (version_.load(std::memory_order_relaxed) != version) return nullptr;
  const bool is_sound = tick_of(tag) == tick_of(own_terms.ends_at) &&
                        own_terms.ends_at <= own_terms.told.asked_at + kLongest &&
                        check == hash_of_lease(own_subject, own_terms);
  if (!is_sound || (word_.load(std::memory_order_acquire) & ~SharedUnits::kMask) != tag) return nullptr;
  return std::make_shared<Lease>(std::move(own_subject), std::move(own_terms), SharedUnits{&word_, tag});
}

void HostKey::become(const HostName& name) {
  low_ = name.key.low;
  high_ = name.key.high;
  place_ = name.place;
  policy_ = name.policy;
  limits_ = name.limits;
  demand = Demand{};
  turn = 0;
  is_used_ = 1;
}

LeaseReturn HostKey::put(const LeaseSubject& subject, const LeaseTerms& terms) {
  LeaseTerms own = terms;
  own.ends_at = Duration(own.ends_at.micros() / kTick * kTick);
  std::shared_ptr<Lease> before = lease();
  const std::uint64_t tag = next_tag(own.ends_at);
  write(subject, own, tag);
  const std::uint64_t word = word_.exchange(tag | std::uint64_t(own.granted), std::memory_order_acq_rel);
  return {std::move(before), Cost(word & SharedUnits::kMask)};
}

LeaseReturn HostKey::take_lease() {
  std::shared_ptr<Lease> before = lease();
  const std::uint64_t word = word_.exchange(next_tag({}), std::memory_order_acq_rel);
  return {std::move(before), Cost(word & SharedUnits::kMask)};
}

// No two leases of a key that follow each other within a minute have the same.
std::uint64_t HostKey::next_tag(Duration ends_at) const {
  const std::uint64_t word = word_.load(std::memory_order_acquire);
  const std::uint64_t ordinal = (word >> kOrdinalShift) % (kOrdinals - 1) + 1;  // never 0
  return tick_of(ends_at) << kTickShift | ordinal << kOrdinalShift;
}

// A version that was left odd, by somebody who died, becomes another odd one. Whatever is written after it is
// seen after it (H.-J. Boehm, Can Seqlocks Get Along With Programming Language Memory Models?, 2012).
void HostKey::write(const LeaseSubject& subject, const LeaseTerms& terms, std::uint64_t tag) {
  version_.store((version_.load(std::memory_order_relaxed) | 1) + 2, std::memory_order_relaxed);
  tag_ = tag;
  check_ = hash_of_lease(subject, terms);
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
  name_ = subject.policy;
  identifier_ = subject.identifier;
  packed_ = subject.packed;
  version_.store(version_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

LeaseTerms HostKey::terms() const {
  LeaseTerms terms{{shown_, asked_at_, answered_at_}, ends_at_, granted_, {}};
  const std::uint64_t count = rows_count_;
  for (std::size_t i = 0; i < std::min<std::uint64_t>(count, kMostLimits); ++i) {
    const Row& row = rows_[i];
    terms.rows.push_back(
        {row.remaining, row.gone_at, {row.created_at, {row.after[0], row.after[1], row.after[2]}}});
  }
  return terms;
}

LeaseSubject HostKey::subject() const {
  LeaseSubject subject;
  subject.policy = name_.text();
  subject.identifier = identifier_.text();
  subject.packed = packed_.text();
  subject.limits = limits_;
  return subject;
}

HostLeases::HostLeases(Mapping& mapping, const table::Holders& processes)
    : head_(head_of(mapping)), processes_(processes) {
  if (head_.time_namespace != time_namespace()) {
    throw StoreConfigError(
        "the shared memory of the leases is of a time namespace in which this process is not: give each of "
        "them a lease_in of its own");
  }
  for (auto& place : places_of(processes_.own())) place.store(0);
}

HostLeases::Places& HostLeases::places_of(std::size_t holder) const {
  return head_.places[holder % shared_memory::kMostProcesses];
}

void HostLeases::enter(std::string_view place) {
  const std::uint64_t own = place_of(place);
  for (auto& each : places_of(processes_.own())) {
    std::uint64_t known = 0;
    if (each.load(std::memory_order_relaxed) == own || each.compare_exchange_strong(known, own)) return;
  }
}

void HostLeases::leave(std::string_view place) {
  for (auto& each : places_of(processes_.own())) {
    std::uint64_t known = place_of(place);
    each.compare_exchange_strong(known, 0);
  }
}

bool HostLeases::leases_from(std::string_view place, std::size_t slot) const {
  const Places& places = places_of(slot);
  const std::uint64_t own = place_of(place);
  return std::ranges::any_of(places, [own](const auto& each) { return each == own; }) ||
         std::ranges::none_of(places, [](const auto& each) { return each == 0; });
}

// Whoever has died leaves it to the next one, who finds what was half written by its version.
HostLeases::Hold::Hold(Bucket& bucket, const table::Holders& processes, int times)
    : bucket_(bucket), is_held_(false) {
  const auto take = [&](std::uint32_t holder) {
    return bucket_.holder.compare_exchange_strong(holder, processes.own(), std::memory_order_acq_rel);
  };
  for (int i = 0; i < kMomentsToSpin + times && !is_held_; ++i) {
    is_held_ = take(0);
    if (is_held_) return;
    i < kMomentsToSpin ? platform::pause_briefly() : std::this_thread::yield();
  }
  const std::uint32_t holder = bucket_.holder.load(std::memory_order_acquire);
  is_held_ = (holder == 0 || processes.has_ended(holder)) && take(holder);
}

HostLeases::Hold::~Hold() {
  if (is_held_) bucket_.holder.store(0, std::memory_order_release);
}

HostName HostLeases::name_of(std::string_view place, std::string_view policy, std::string_view identifier,
                             std::uint64_t limits) const {
  return {head_.hash(1, joined(place, policy, identifier)), place_of(place), policy_of(place, policy),
          limits};
}

std::uint64_t HostLeases::place_of(std::string_view place) const { return head_.hash(3, place).low | 1; }

std::uint64_t HostLeases::policy_of(std::string_view place, std::string_view policy) const {
  return head_.hash(2, joined(place, policy, {})).low;
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

}  // namespace overlimit::redis
