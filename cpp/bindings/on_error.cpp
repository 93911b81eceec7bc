#include "on_error.hpp"

#include <algorithm>
#include <array>

#include "collected.hpp"
#include "crowded.hpp"
#include "decision.hpp"
#include "errors.hpp"
#include "handles.hpp"
#include "limiter.hpp"
#include "stats.hpp"
#include "waits.hpp"

namespace overlimit::python {
namespace {

constexpr std::array kNames{"allow", "local", "deny", "raise"};

constexpr const char* kWrongName = "on_error must be 'raise', 'allow', 'deny' or 'local', not %U";

// The pause where neither the error nor the store says when to ask again.
constexpr Micros kUsualPause = 100'000;

OnError strictest(std::span<Binding* const> asking) {
  OnError strictest = OnError::allow;
  for (const Binding* binding : asking) strictest = std::max(strictest, binding->on_error);
  return strictest;
}

Micros pause_after(const StoreError& error, const Store& store) {
  const Micros pause = std::max(error.retry_after(), store.timeout());
  return pause > 0 ? pause : kUsualPause;
}

Object undecided(const Decision& answer, const Call& call, PyObject* cost) {
  NewDecision decision;
  decision.time() = call.now ? *call.now : system_now();
  return Object::steal(decision.finish(answer, cost, Source::error));
}

Object decided_here(std::span<Binding* const> asking, Call call, const Collected& collected, PyObject* cost) {
  const Object fallback = local_fallback_object(*asking.front());
  Collected charges;
  for (std::size_t i = 0; i < collected.size(); ++i) {
    const Subject& subject = collected.subjects()[i];
    charges.add(local_policy_of(subject.policy), subject.identifier, subject.cost, subject.role);
  }
  call.charges = charges.charges();
  NewDecision decision(charges.subjects(), charges.size(), pairs_of(call.charges));
  const Rows rows = decision.rows();
  const ChargeBits crowded =
      store_from(fallback.get())->decide({&call, 1}, rows, {&decision.time(), 1}, kInterrupted);
  for (Binding* binding : asking) ++binding->stats.local;
  if (crowded != 0) count_crowded(asking, call.charges, crowded, fallback.get());
  return Object::steal(decision.finish(fold(call.charges, rows), cost, Source::local));
}

Object log_module() { return Object::steal(checked(PyImport_ImportModule("overlimit.outages"))); }

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

Object decided_without_store(const StoreError& error, std::span<Binding* const> asking, const Call& call,
                             const Collected& collected, PyObject* cost) {
  const OnError on_error = dynamic_cast<const CrossSlot*>(&error) ? OnError::raise : strictest(asking);
  if (on_error == OnError::raise) throw;
  log_failure(error, asking, on_error);
  if (on_error == OnError::local) return decided_here(asking, call, collected, cost);
  if (on_error == OnError::allow) return undecided({}, call, cost);
  const Micros pause = pause_after(error, *asking.front()->store);
  return undecided({.status = Status::over, .retry_after = pause}, call, cost);
}

void log_failure(const StoreError& error, std::span<Binding* const> asking, OnError on_error) {
  for (Binding* binding : asking) binding->is_cut_off = true;
  const Object message = text_of(error.what());
  Object::steal(
      checked(PyObject_CallMethod(log_module().get(), "failed", "OssO", asking.front()->store_object.get(),
                                  name_of(error.kind()), name_of(on_error), checked(message.get()))));
}

void log_recovery(std::span<Binding* const> asking) {
  for (Binding* binding : asking) binding->is_cut_off = false;
  Object::steal(
      checked(PyObject_CallMethod(log_module().get(), "answered", "O", asking.front()->store_object.get())));
}

Object local_fallback_object(const Binding& binding) {
  const Object module = Object::steal(checked(PyImport_ImportModule("overlimit.local_fallback")));
  return Object::steal(
      checked(PyObject_CallMethod(module.get(), "local_fallback_of", "O", binding.store_object.get())));
}

std::shared_ptr<Store> local_fallback_store(const Binding& binding) {
  return store_from(local_fallback_object(binding).get());
}

}  // namespace overlimit::python
