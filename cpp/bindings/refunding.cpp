#include "refunding.hpp"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "charges.hpp"
#include "deciding.hpp"
#include "decision.hpp"
#include "errors.hpp"
#include "limiter.hpp"
#include "on_error.hpp"
#include "overlimit/errors.hpp"
#include "overlimit/past_rates.hpp"
#include "policy.hpp"
#include "store_calls.hpp"

namespace overlimit::python {
namespace {

bool is_any(std::span<const Receipt> receipts) {
  return std::ranges::any_of(receipts, [](const Receipt& receipt) { return receipt.created_at > Instant{}; });
}

bool contains(PyObject* places, std::size_t place) {
  const Object number = required(PyLong_FromSize_t(place));
  const int found = PySequence_Contains(places, number.get());
  if (found < 0) throw PythonError{};
  return found == 1;
}

/// What is given back of a decision's charges, by the fastest rates at which they may have drained.
class GivenBack {
 public:
  /// Of the claimed charges at these places, or of all for nullptr: all that they cost, or so much of each.
  explicit GivenBack(const RefundClaim& claim, PyObject* places = nullptr, std::optional<Cost> cost = {}) {
    const RefundableCharges& charged = claim.charged();
    std::size_t first = 0;
    for (std::size_t place = 0; place < charged.subjects.size(); ++place) {
      const Subject& subject = charged.subjects[place];
      const std::size_t rows = compiled(subject.policy).size();
      const bool is_wanted = claim.is_to(place) && (places == nullptr || contains(places, place));
      if (is_wanted) add(subject, cost.value_or(subject.cost), charged.receipts.subspan(first, rows));
      first += rows;
    }
  }
  [[nodiscard]] bool is_nothing() const { return is_nothing_; }
  [[nodiscard]] std::span<const Charge> charges() const { return charges_; }
  [[nodiscard]] std::span<const Receipt> receipts() const { return receipts_; }

 private:
  void add(const Subject& subject, Cost cost, std::span<const Receipt> receipts) {
    is_nothing_ = is_nothing_ && !is_any(receipts);
    collected_.add(subject.policy, subject.identifier, cost, subject.role);
    Charge& charge = charges_.emplace_back(collected_.charges().back());
    std::optional<CompiledPolicy> faster = fastest_since(subject.policy);
    if (!faster) {
      receipts_.insert(receipts_.end(), receipts.begin(), receipts.end());
      return;
    }
    charge.policy = &policies_.emplace_back(*std::move(faster));
    const auto carried = receipts_by(*charge.policy, compiled(subject.policy), charge.cost, receipts);
    receipts_.insert(receipts_.end(), carried.begin(), carried.end());
  }

  bool is_nothing_ = true;
  ChargeList collected_;
  std::vector<Charge> charges_;
  std::vector<Receipt> receipts_;
  std::deque<CompiledPolicy> policies_;
};

void give_back(LimiterState& limiter, const GivenBack& given_back, Present* present, RefundClaim& claim) {
  TimedCall timed(limiter, given_back.charges());
  const Call& call = *timed;
  const auto ask = [&](Store& store, const Interrupted& interrupted) {
    claim.use([&] { store.give_back(call, given_back.receipts(), present, interrupted); });
  };
  if (claim.charged().source == Source::local) {
    return ask(*local_fallback_store(limiter.store_object.get()), kInterrupted);
  }
  LimiterState* const limiters[] = {&limiter};
  ask_store(limiters, ask);
}

bool is_own(const Subject& subject, const LimiterState& limiter) {
  return compiled(subject.policy).identity() == limiter.identity;
}

// Any limiter may refund a decision that has nothing to give back, which does nothing: what was unpickled
// without a name is of no limiter's policy.
void check_is_about(PyObject* decision, const LimiterState& limiter) {
  const DecisionParts parts = parts_of(decision);
  const auto is_ours = [&](const Subject& subject) { return is_own(subject, limiter); };
  if (is_any(parts.rows.receipt) && std::ranges::none_of(parts.subjects, is_ours)) {
    raise_value_error("this decision is about other policies: give it to the limiter that made it");
  }
}

// Of the charges at these places, or of all for nullptr. One that fails is logged, and raised only with
// on_error="raise".
void refund_decision(PyObject* self, PyObject* decision, PyObject* places) {
  LimiterState& limiter = state_of(self);
  check_is_about(decision, limiter);
  RefundClaim claim(decision);
  const GivenBack given_back(claim, places);
  if (given_back.is_nothing()) {
    if (places == nullptr) claim.mark_used();
    return;
  }
  try {
    give_back(limiter, given_back, nullptr, claim);
  } catch (const StoreError& error) {
    if (limiter.on_error == OnError::raise || dynamic_cast<const CrossSlot*>(&error) != nullptr) throw;
    LimiterState* const limiters[] = {&limiter};
    log_failure(error, limiters, limiter.on_error);
  }
}

// The charges of a decision that are about the limiter's policy.
ChargeBits own_charges(PyObject* decision, const LimiterState& limiter) {
  ChargeBits own = 0;
  ChargeBits bit = 1;
  for (const Subject& subject : parts_of(decision).subjects) {
    if (is_own(subject, limiter)) own |= bit;
    bit <<= 1;
  }
  return own;
}

/// A decision that is made to cost something else.
class Settling {
 public:
  Settling(LimiterState& limiter, PyObject* decision, PyObject* cost)
      : limiter_(limiter),
        policy_(limiter.present_policy()),
        decision_(decision),
        cost_(cost),
        claim_(decision, own_charges(decision, limiter)) {
    find_charged();
  }

  Object settle() {
    const bool was_charged = charged_cost_ == 0 || !GivenBack(claim_).is_nothing();
    if (subjects_.empty() || !was_charged) return Object::borrow(decision_);
    return cost_.units() > charged_cost_ ? charge() : give_back();
  }

 private:
  void find_charged() {
    (void)cost_.units();  // wrong whatever was charged
    const std::span<const Subject> subjects = claim_.charged().subjects;
    for (std::size_t place = 0; place < subjects.size(); ++place) {
      if (claim_.is_to(place)) subjects_.push_back(&subjects[place]);
    }
    for (const Subject* subject : subjects_) charged_cost_ = std::max(charged_cost_, subject->cost);
    const auto costs_the_same = [&](const Subject* subject) { return subject->cost == charged_cost_; };
    if (cost_.units() > 0 && !std::ranges::all_of(subjects_, costs_the_same)) {
      raise_value_error(
          "settle takes a decision that charged each identifier the same, and this one charged different "
          "costs: use refund and charge");
    }
  }

  Object charge() {
    ChargeList more;
    for (const Subject* subject : subjects_) {
      more.add(policy_.get(), subject->identifier, cost_.units() - charged_cost_, Role::always);
    }
    Object settled = charge_more(limiter_, more, cost_.number(), claim_);
    if (parts_of(settled.get()).source != Source::error) claim_.mark_used();
    make_final(settled.get());
    return settled;
  }

  Object give_back() {
    const Source source = claim_.charged().source;
    PyObject* const policy = source == Source::local ? local_policy_of(policy_.get()) : policy_.get();
    ChargeList asked;
    for (const Subject* subject : subjects_) asked.add(policy, subject->identifier, 0);
    NewDecision left(asked.subjects(), asked.size(), pairs_of(asked.charges()));
    Present present{asked.charges(), left.rows()};
    const auto difference = std::optional(charged_cost_ - cost_.units());
    const GivenBack given_back(claim_, nullptr, cost_.units() == 0 ? std::nullopt : difference);
    try {
      python::give_back(limiter_, given_back, &present, claim_);
    } catch (const StoreError& error) {
      LimiterState* const limiters[] = {&limiter_};
      TimedCall timed(limiter_, asked.charges());
      return decided_without_store(error, limiters, *timed, asked, cost_.number());
    }
    left.time() = present.time;
    Object settled = Object::steal(left.finish(fold(asked.charges(), left.rows()), cost_.number(), source));
    make_final(settled.get());
    return settled;
  }

  LimiterState& limiter_;
  Object policy_;
  PyObject* decision_;
  WholeCost cost_;
  RefundClaim claim_;
  std::vector<const Subject*> subjects_;
  Cost charged_cost_ = 0;
};

}  // namespace

PyObject* refund(PyObject* self, PyObject* decision) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    refund_decision(self, decision, nullptr);
    return Py_NewRef(Py_None);
  });
}

PyObject* refund_part(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    if (count != 2) raise_type_error("_refund_part takes a decision and places of its charges");
    refund_decision(self, arguments[0], arguments[1]);
    return Py_NewRef(Py_None);
  });
}

PyObject* settle(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    if (count != 2) raise_type_error("settle takes a decision and what it turned out to cost");
    LimiterState& limiter = state_of(self);
    check_is_about(arguments[0], limiter);
    return Settling(limiter, arguments[0], arguments[1]).settle().release();
  });
}

}  // namespace overlimit::python
