#include "redis/leases/host_key.hpp"

#include "overlimit/redis_leases.hpp"

namespace overlimit::redis {
namespace {

/// How finely a word tells the ends of leases apart.
constexpr std::int64_t kTick = 64;
/// Of a word: the tick in which the lease ends, above which lease of the key it is, above the units.
constexpr int kTickShift = 44;
constexpr int kOrdinalShift = 32;
constexpr std::uint64_t kOrdinals = 1 << (kTickShift - kOrdinalShift);
constexpr std::uint64_t kTicks = 1 << (64 - kTickShift);
/// No lease lasts longer.
constexpr Duration kLongest = kMaxLease;

std::uint64_t tick_of(std::uint64_t word) { return word >> kTickShift; }
std::uint64_t tick_of(Duration ends_at) { return std::uint64_t(ends_at.micros() / kTick) % kTicks; }

std::uint64_t hash_of_lease(const LeaseSubject& subject, const LeaseTerms& terms) {
  std::string bytes = subject.policy + '\0' + subject.identifier + '\0' + subject.packed;
  const auto append = [&](std::int64_t number) {
    bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
  };
  append(std::int64_t(subject.limits));
  append(terms.reading.shown.micros());
  append(terms.reading.asked_at.micros());
  append(terms.reading.answered_at.micros());
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

}  // namespace

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
                        own_terms.ends_at <= own_terms.reading.asked_at + kLongest &&
                        check == hash_of_lease(own_subject, own_terms);
  if (!is_sound || (word_.load(std::memory_order_acquire) & ~SharedUnits::kMask) != tag) return nullptr;
  return std::make_shared<Lease>(std::move(own_subject), std::move(own_terms), SharedUnits{&word_, tag});
}

void HostKey::become(const HostName& name) {
  low_ = name.key.low;
  high_ = name.key.high;
  keyspace_ = name.keyspace;
  policy_ = name.policy;
  limits_ = name.limits;
  demand = Demand{};
  request = 0;
  is_used_ = 1;
}

ReleasedUnits HostKey::put(const LeaseSubject& subject, const LeaseTerms& terms) {
  LeaseTerms own = terms;
  own.ends_at = Duration(own.ends_at.micros() / kTick * kTick);
  std::shared_ptr<Lease> before = lease();
  const std::uint64_t tag = next_tag(own.ends_at);
  write(subject, own, tag);
  const std::uint64_t word = word_.exchange(tag | std::uint64_t(own.granted), std::memory_order_acq_rel);
  return {std::move(before), Cost(word & SharedUnits::kMask)};
}

ReleasedUnits HostKey::take_lease() {
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
  shown_ = terms.reading.shown;
  asked_at_ = terms.reading.asked_at;
  answered_at_ = terms.reading.answered_at;
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

}  // namespace overlimit::redis
