#include "on_error.hpp"

#include <algorithm>
#include <array>

#include "charges.hpp"
#include "hooks.hpp"
#include "module.hpp"
#include "store_calls.hpp"

namespace overlimit::python {
namespace {

constexpr std::array kNames{"allow", "local", "deny", "raise"};

constexpr const char* kWrongName = "on_error must be 'raise', 'allow', 'deny' or 'local', not %U";

// The pause where neither the error nor the store says when to call again.
constexpr Duration kUsualPause{100'000};

OnError strictest(std::span<LimiterState* const> limiters) {
  OnError strictest = OnError::allow;
  for (const LimiterState* limiter : limiters) strictest = std::max(strictest, limiter->on_error);
  return strictest;
}

Duration pause_after(const StoreError& error, const Store& store) {
  const Duration pause = std::max(error.retry_after(), store.timeout());
  return pause > Duration{} ? pause : kUsualPause;
}

Object undecided(const Decision& answer, const Call& call, PyObject* cost) {
  NewDecision decision;
  decision.time() = call.reading().value_or(system_now());
  return Object::steal(decision.finish(answer, cost, Source::error));
}

Object decided_here(std::span<LimiterState* const> limiters, Call call, const CallCharges& collected,
                    PyObject* cost) {
  const Object fallback = local_fallback_object(limiters.front()->store_object.get());
  ChargeList charges;
  for (std::size_t i = 0; i < collected.size(); ++i) {
    const Subject& subject = collected.subjects[i];
    charges.add(local_policy_of(subject.policy), subject.identifier, subject.cost, subject.role);
  }
  call.charges = charges.charges();
  NewDecision decision(charges.subjects(), charges.size(), pairs_of(call.charges));
  const Rows rows = decision.rows();
  Basis basis;
  store_from(fallback.get())->decide_one(call, rows, decision.time(), basis, kInterrupted);
  for (LimiterState* limiter : limiters) ++limiter->stats.local;
  if (basis.crowded != 0) count_crowded(limiters, call.charges, basis.crowded, fallback.get());
  return Object::steal(decision.finish(fold(call.charges, rows), cost, Source::local));
}

}  // namespace

OnError on_error_from(PyObject* name) {
  if (!PyUnicode_Check(name)) {
    raise_about(PyExc_TypeError, kWrongName, name);
  }
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (PyUnicode_CompareWithASCIIString(name, kNames[i]) == 0) return OnError(i);
  }
  raise_about(PyExc_ValueError, kWrongName, name);
}

const char* name_of(OnError on_error) { return kNames[std::size_t(on_error)]; }

Object decided_without_store(const StoreError& error, std::span<LimiterState* const> limiters,
                             const Call& call, const CallCharges& collected, PyObject* cost) {
  const OnError on_error = dynamic_cast<const CallerMistake*>(&error) ? OnError::raise : strictest(limiters);
  if (on_error == OnError::raise) throw;
  log_failure(error, limiters, on_error);
  if (on_error == OnError::local) return decided_here(limiters, call, collected, cost);
  return undecided(answer_without_store(on_error, error, *limiters.front()->store), call, cost);
}

Decision answer_without_store(OnError on_error, const StoreError& error, const Store& store) {
  if (on_error == OnError::allow) return {};
  return {.status = Status::over, .retry_after = pause_after(error, store)};
}

void log_failure(const StoreError& error, std::span<LimiterState* const> limiters, OnError on_error) {
  for (LimiterState* limiter : limiters) {
    limiter->answers_before = limiter->store->answers().value_or(0);
    limiter->is_cut_off = true;
  }
  call_hook("store_failed", limiters.front()->store_object.get(),
            text_of(kFailureNames[std::size_t(error.kind())]).get(), text_of(name_of(on_error)).get(),
            text_of(error.what()).get());
}

void log_recovery(std::span<LimiterState* const> limiters) {
  for (LimiterState* limiter : limiters) limiter->is_cut_off = false;
  call_hook("store_answered", limiters.front()->store_object.get());
}

Object local_fallback_object(PyObject* store) { return call_hook("local_fallback_of", store); }

std::shared_ptr<Store> local_fallback_store(PyObject* store) {
  return store_from(local_fallback_object(store).get());
}

}  // namespace overlimit::python
