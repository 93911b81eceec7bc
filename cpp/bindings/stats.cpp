#include "stats.hpp"

#include <vector>

#include "hooks.hpp"
#include "limiter.hpp"
#include "policy.hpp"

namespace overlimit::python {
namespace {

Object number(std::uint64_t count) { return required(PyLong_FromUnsignedLongLong(count)); }

template <class Counts>
Object numbers_of(const Counts& counts) {
  std::vector<Object> numbers;
  for (const std::uint64_t count : counts) numbers.push_back(number(count));
  return tuple_of(numbers);
}

CounterSlot& counters_of_policy(const LimiterState& limiter) {
  return slot_of(SlotKind::policy, shown_name(limiter.identity));
}

CounterSlot& new_counters_of_store(PyObject* store) {
  return slot_of(SlotKind::store, text_in(call_hook("endpoint_of", store).get()));
}

void count_end_of_wait(CounterSlot& counters, Duration wait) {
  counters.add(place_of("waits") + place_among(kWaitBounds, wait));
  counters.add(place_of("wait_micros"), std::uint64_t(std::max<std::int64_t>(0, wait.micros())));
}

bool has_one_of(const LimiterState& limiter, std::span<const Charge> charges, ChargeBits crowded) {
  for (ChargeBits left = crowded; left != 0; left &= left - 1) {
    if (charges[std::size_t(std::countr_zero(left))].policy->identity() == limiter.identity) return true;
  }
  return false;
}

}  // namespace

void Stats::clear() {
  for (Count* const count : {&calls, &local, &crowded, &leased, &refusals}) *count = 0;
  std::ranges::fill(of_store, 0);
}

Object stats_of(const LimiterState& limiter, BreakerState breaker) {
  const Stats& stats = limiter.stats;
  const LeaseCounts leases = limiter.store->leased(limiter.identity);
  const std::initializer_list<std::uint64_t> own = {stats.calls,     stats.local,    stats.crowded,
                                                    stats.leased,    stats.refusals, leases.held,
                                                    leases.returned, leases.lapsed};
  return call_hook("limiter_stats", numbers_of(own).get(), numbers_of(stats.of_store).get(),
                   text_of(kBreakerNames[std::size_t(breaker)]).get(), limiter.store_object.get());
}

void count_of_store(std::span<LimiterState* const> limiters, std::size_t place, std::uint64_t count) {
  for (LimiterState* const limiter : limiters) limiter->stats.of_store[place] += count;
  CounterSlot* const counters = limiters.empty() ? nullptr : limiters.front()->counters_of_store;
  if (counters != nullptr) counters->add(place, count);
}

void count_basis(std::span<LimiterState* const> limiters, const Basis& basis) {
  if (basis.commands == 0 && basis.source == Source::store) return;
  for (LimiterState* const limiter : limiters) {
    if (basis.source == Source::refusal) ++limiter->stats.refusals;
    if (basis.source == Source::lease) ++limiter->stats.leased;
  }
  count_of_store(limiters, place_of("commands"), basis.commands);
  count_restored(limiters, basis);
}

void count_restored(std::span<LimiterState* const> limiters, const Basis& basis) {
  if (basis.restored == 0) return;
  count_of_store(limiters, place_of("restored"), basis.restored);
  const Object count = number(basis.restored);
  call_hook("warn_of_lost_counts", limiters.front()->store_object.get(), count.get());
}

void count_crowded(std::span<LimiterState* const> limiters, std::span<const Charge> charges,
                   ChargeBits crowded, PyObject* store) {
  bool is_first = false;
  for (LimiterState* const limiter : limiters) {
    if (!has_one_of(*limiter, charges, crowded)) continue;
    is_first = limiter->stats.crowded++ == 0 || is_first;
    counters_of_policy(*limiter).add(place_of("crowded"));
  }
  if (is_first) call_hook("warn_of_crowded_store", store);
}

void find_counters(LimiterState& limiter) {
  find_counters(limiter.present_policy().get());
  const bool can_fail = limiter.store->waits() || limiter.store->waits_seldom();
  if (limiter.counters_of_store != nullptr || !can_fail) return;
  limiter.counters_of_store = &new_counters_of_store(limiter.store_object.get());
}

void count_wait(LimiterState& limiter, PyObject* microseconds) {
  CounterSlot& counters = counters_of_policy(limiter);
  if (microseconds != Py_None)
    return count_end_of_wait(counters, Duration(From<std::int64_t>::get(microseconds)));
  open_counters_file();
  counters.add(place_of("waits_begun"));
}

}  // namespace overlimit::python
