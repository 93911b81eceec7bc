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
#include "store_task.hpp"

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

bool is_own(const Subject& subject, const LimiterState& limiter) {
  return compiled(subject.policy).identity() == limiter.identity;
}

// Any limiter may refund a decision that has nothing to give back, which does nothing: what was unpickled
// without a name is of no limiter's policy.
void check_is_about(PyObject* decision, const LimiterState& limiter) {
  const DecisionParts parts = parts_of(decision);
  const auto is_ours = [&](const Subject& subject) { return is_own(subject, limiter); };
  if (is_any(parts.rows.receipts()) && std::ranges::none_of(parts.subjects, is_ours)) {
    raise_value_error("this decision is about other policies: give it to the limiter that made it");
  }
}

/// A call that gives back what was charged, to the store that has decided: it may be the local fallback.
class GivingBack : NonCopyable {
 public:
  /// The task borrows the claim.
  GivingBack(LimiterState& limiter, RefundClaim& claim, PyObject* places = nullptr,
             std::optional<Cost> cost = {})
      : limiter_(limiter), claim_(claim), given_back_(claim, places, cost) {
    if (claim.charged().source == Source::local && !is_nothing())
      fallback_ = local_fallback_store(limiter.store_object.get());
    if (!is_nothing()) timed_.emplace(limiter, given_back_.charges());
  }
  [[nodiscard]] bool is_nothing() const { return given_back_.is_nothing(); }
  [[nodiscard]] Store& store() const { return fallback_ ? *fallback_ : *limiter_.store; }
  /// Whether the limiter counts it.
  [[nodiscard]] bool is_counted() const { return fallback_ == nullptr; }
  void ask(Store& store, Present* present, const Interrupted& interrupted) {
    claim_.use([&] { store.give_back(**timed_, given_back_.receipts(), present, interrupted); });
  }

 private:
  LimiterState& limiter_;
  RefundClaim& claim_;
  GivenBack given_back_;
  std::shared_ptr<Store> fallback_;
  std::optional<TimedCall> timed_;
};

/// A refund of the charges at these places, or of all for nullptr. One that fails is logged, and raised only
/// with on_error="raise".
class Refunding final : public StoreTask {
 public:
  Refunding(LimiterState& limiter, PyObject* decision, PyObject* places)
      : limiter_(&limiter),
        kept_(required(PyTuple_Pack(2, limiter.object, decision))),
        claim_((check_is_about(decision, limiter), decision)),
        giving_back_(limiter, claim_, places) {
    if (is_nothing() && places == nullptr) claim_.mark_used();
  }
  [[nodiscard]] bool is_nothing() const override { return giving_back_.is_nothing(); }
  [[nodiscard]] std::span<LimiterState* const> limiters() const override {
    return {&limiter_, giving_back_.is_counted() ? std::size_t{1} : std::size_t{0}};
  }
  [[nodiscard]] Store& store() const override { return giving_back_.store(); }
  void ask(Store& store, const Interrupted& interrupted) override {
    giving_back_.ask(store, nullptr, interrupted);
  }
  Object answer() override { return Object::borrow(Py_None); }
  Object answer_without(const StoreError& error) override {
    if (limiter_->on_error == OnError::raise || dynamic_cast<const CrossSlot*>(&error) != nullptr) throw;
    log_failure(error, {&limiter_, 1}, limiter_->on_error);
    return Object::borrow(Py_None);
  }

 private:
  LimiterState* limiter_;
  Object kept_;
  RefundClaim claim_;
  GivingBack giving_back_;
};

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

/// A decision that is made to cost something else: more is charged, or the difference is given back. One of
/// cost 0 has nothing to give back, so it is answered by a charge even if that is of cost 0.
class Settling final : public StoreTask {
 public:
  Settling(LimiterState& limiter, PyObject* decision, PyObject* cost)
      : limiter_(&limiter),
        kept_(required(PyTuple_Pack(2, limiter.object, decision))),
        policy_(limiter.present_policy()),
        cost_(cost),
        kept_cost_(Object::borrow(cost_.number())),
        claim_((check_is_about(decision, limiter), decision), own_charges(decision, limiter)) {
    find_charged();
    const bool was_charged = charged_cost_ == 0 || !GivenBack(claim_).is_nothing();
    if (subjects_.empty() || !was_charged) return;
    if (cost_.units() > charged_cost_ || charged_cost_ == 0) {
      prepare_charge();
    } else {
      prepare_giving_back();
    }
  }

  [[nodiscard]] bool is_nothing() const override { return !charging_ && !giving_back_; }
  [[nodiscard]] std::span<LimiterState* const> limiters() const override {
    const bool is_counted = !giving_back_ || giving_back_->is_counted();
    return {&limiter_, is_counted ? std::size_t{1} : std::size_t{0}};
  }
  [[nodiscard]] Store& store() const override {
    return giving_back_ ? giving_back_->store() : *limiter_->store;
  }

  void ask(Store& store, const Interrupted& interrupted) override {
    if (giving_back_) return giving_back_->ask(store, &*present_, interrupted);
    claim_.use([&] { charging_->ask(store, interrupted); });
  }

  Object answer() override {
    if (is_nothing()) return Object::borrow(PyTuple_GET_ITEM(kept_.get(), 1));
    if (charging_) return charged(charging_->answer());
    left_->time() = present_->time;
    const Decision folded = fold(asked_.charges(), left_->rows());
    return settled(Object::steal(left_->finish(folded, cost_.number(), claim_.charged().source)));
  }

  Object answer_without(const StoreError& error) override {
    if (charging_) return charged(charging_->answer_without(error));
    TimedCall timed(*limiter_, asked_.charges());
    return decided_without_store(error, {&limiter_, 1}, *timed, asked_.call(), cost_.number());
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

  void prepare_charge() {
    for (const Subject* subject : subjects_) {
      asked_.add(policy_.get(), subject->identifier, cost_.units() - charged_cost_, Role::always);
    }
    charging_.emplace(std::span<LimiterState* const>(&limiter_, 1), asked_, Mode::consume, kNever,
                      cost_.number());
    charging_->show_present();
  }

  void prepare_giving_back() {
    const bool is_local = claim_.charged().source == Source::local;
    PyObject* const policy = is_local ? local_policy_of(policy_.get()) : policy_.get();
    for (const Subject* subject : subjects_) asked_.add(policy, subject->identifier, 0);
    left_.emplace(asked_.subjects(), asked_.size(), pairs_of(asked_.charges()));
    present_ = Present{asked_.charges(), left_->rows()};
    const auto difference = std::optional(charged_cost_ - cost_.units());
    giving_back_.emplace(*limiter_, claim_, nullptr, cost_.units() == 0 ? std::nullopt : difference);
  }

  Object charged(Object decision) {
    if (parts_of(decision.get()).source != Source::error) claim_.mark_used();
    return settled(std::move(decision));
  }

  static Object settled(Object decision) {
    make_final(decision.get());
    return decision;
  }

  LimiterState* limiter_;
  Object kept_;
  Object policy_;
  WholeCost cost_;
  Object kept_cost_;
  RefundClaim claim_;
  std::vector<const Subject*> subjects_;
  Cost charged_cost_ = 0;
  ChargeList asked_;
  std::optional<DecidingLater> charging_;  // either this
  std::optional<NewDecision> left_;        // or this and the next two
  std::optional<Present> present_;
  std::optional<GivingBack> giving_back_;
};

template <When when>
PyObject* refunded(PyObject* self, PyObject* decision) {
  return guarded(static_cast<PyObject*>(nullptr),
                 [&] { return done<when>(std::make_unique<Refunding>(state_of(self), decision, nullptr)); });
}

template <When when>
PyObject* refunded_in_part(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    if (count != 2) raise_type_error("_refund_part takes a decision and places of its charges");
    return done<when>(std::make_unique<Refunding>(state_of(self), arguments[0], arguments[1]));
  });
}

template <When when>
PyObject* settled(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    if (count != 2) raise_type_error("settle takes a decision and what it turned out to cost");
    return done<when>(std::make_unique<Settling>(state_of(self), arguments[0], arguments[1]));
  });
}

}  // namespace

PyObject* refund(PyObject* self, PyObject* decision) { return refunded<When::now>(self, decision); }
PyObject* refund_later(PyObject* self, PyObject* decision) { return refunded<When::later>(self, decision); }
PyObject* refund_part(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  return refunded_in_part<When::now>(self, arguments, count);
}
PyObject* refund_part_later(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  return refunded_in_part<When::later>(self, arguments, count);
}
PyObject* settle(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  return settled<When::now>(self, arguments, count);
}
PyObject* settle_later(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  return settled<When::later>(self, arguments, count);
}

}  // namespace overlimit::python
