// refund and settle: what a decision has charged is given back, or charged further.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "deciding.hpp"
#include "operations.hpp"
#include "overlimit/past_rates.hpp"

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

/// The charges of a decision for which this holds, given the charge and its place.
template <class Holds>
ChargeBits charges_where(PyObject* decision, const Holds& holds) {
  ChargeBits found = 0;
  std::size_t place = 0;
  for (const Subject& subject : parts_of(decision).subjects()) {
    if (holds(subject, place)) found |= ChargeBits{1} << place;
    ++place;
  }
  return found;
}

/// Calls visit(subject, receipts) for each charge that a claim is to.
template <class Visit>
void for_each_claimed(const RefundClaim& claim, const Visit& visit) {
  const RefundableCharges& charged = claim.charged();
  std::size_t first = 0;
  for (std::size_t place = 0; place < charged.subjects.size(); ++place) {
    const Subject& subject = charged.subjects[place];
    const std::size_t rows = compiled(subject.policy).size();
    if (claim.is_to(place)) visit(subject, charged.receipts.subspan(first, rows));
    first += rows;
  }
}

/// The place of the limiter whose policy a charge is about; as many as there are: of none.
std::size_t owner_of(const Subject& subject, std::span<LimiterState* const> limiters) {
  const auto& identity = compiled(subject.policy).identity();
  const auto is_owner = [&](const LimiterState* limiter) { return identity == limiter->identity; };
  return std::size_t(std::ranges::find_if(limiters, is_owner) - limiters.begin());
}

bool is_own(const Subject& subject, std::span<LimiterState* const> limiters) {
  return owner_of(subject, limiters) < limiters.size();
}

// Any limiter may refund a decision that has nothing to give back, which does nothing: what was unpickled
// without a name is of no limiter's policy.
void check_is_about(PyObject* decision, std::span<LimiterState* const> limiters) {
  DecisionObject& parts = parts_of(decision);
  const auto is_ours = [&](const Subject& subject) { return is_own(subject, limiters); };
  if (is_any(parts.rows().receipts()) && std::ranges::none_of(parts.subjects(), is_ours)) {
    raise_value_error("this decision is about other policies: give it to the limiter that made it");
  }
}

/// A call that gives back what was charged, by the fastest rates at which that may have drained, to the store
/// that has decided: it may be the local fallback.
class GivingBack : NonCopyable {
 public:
  /// Of each claimed charge what it cost more than it is left to cost. The task borrows the claim.
  GivingBack(LimiterState& limiter, RefundClaim& claim, Cost left = 0) : limiter_(limiter), claim_(claim) {
    for_each_claimed(claim, [&](const Subject& subject, std::span<const Receipt> receipts) {
      add(subject, subject.cost - left, receipts);
    });
    if (is_nothing_) return;
    if (claim.charged().source == Source::local) fallback_ = local_fallback_store(limiter.store_object.get());
    timed_.emplace(limiter, charges_);
  }
  [[nodiscard]] bool is_nothing() const { return is_nothing_; }
  [[nodiscard]] Store& store() const { return fallback_ ? *fallback_ : *limiter_.store; }
  /// Whether the limiter counts it.
  [[nodiscard]] bool is_counted() const { return fallback_ == nullptr; }
  void ask(Store& store, Present* present, const Interrupted& interrupted) {
    claim_.use([&] { store.refund_showing(**timed_, receipts_, present, interrupted); });
  }

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

  LimiterState& limiter_;
  RefundClaim& claim_;
  bool is_nothing_ = true;
  ChargeList collected_;
  std::vector<Charge> charges_;
  std::vector<Receipt> receipts_;
  std::deque<CompiledPolicy> policies_;
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
        claim_((check_is_about(decision, {&limiter_, 1}), decision), charges_at(places, decision)),
        giving_back_(limiter, claim_) {
    if (is_nothing()) claim_.mark_used();
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
    if (limiter_->on_error == OnError::raise || dynamic_cast<const CallerMistake*>(&error) != nullptr) throw;
    log_failure(error, {&limiter_, 1}, limiter_->on_error);
    return Object::borrow(Py_None);
  }

 private:
  static ChargeBits charges_at(PyObject* places, PyObject* decision) {
    return charges_where(decision, [&](const Subject&, std::size_t place) {
      return places == nullptr || contains(places, place);
    });
  }

  LimiterState* limiter_;
  Object kept_;
  RefundClaim claim_;
  GivingBack giving_back_;
};

/// Which charges of a decision are settled: a call either charges or gives back.
enum class Settled : std::uint8_t { all_alike, those_that_cost_less, those_that_cost_no_less };

/// A decision that is made to cost something else: more is charged, or the difference is given back. One of
/// cost 0 has nothing to give back, so it is answered by a charge even if that is of cost 0.
class Settling final : public StoreTask {
 public:
  /// Of the charges that are about policies of the limiters, which share a store and a clock. `owners` keeps
  /// them alive.
  Settling(PyObject* owners, std::vector<LimiterState*> limiters, PyObject* decision, PyObject* cost,
           Settled settled)
      : limiters_(std::move(limiters)),
        kept_(required(PyTuple_Pack(2, owners, decision))),
        cost_(cost),
        kept_cost_(Object::borrow(cost_.number())),
        claim_((check_is_about(decision, limiters_), decision), charges_to_settle(decision, settled)) {
    for (LimiterState* limiter : limiters_) policies_.push_back(limiter->present_policy());
    bool was_charged = false;
    for_each_claimed(claim_, [&](const Subject& subject, std::span<const Receipt> receipts) {
      subjects_.push_back(&subject);
      charged_cost_ = std::max(charged_cost_, subject.cost);
      was_charged |= is_any(receipts);
    });
    if (settled == Settled::all_alike) check_are_alike();
    if (subjects_.empty() || (charged_cost_ > 0 && !was_charged)) return;
    if (cost_.units() > charged_cost_ || charged_cost_ == 0) {
      prepare_charge();
    } else {
      prepare_giving_back();
    }
  }

  [[nodiscard]] bool is_nothing() const override { return !charging_ && !giving_back_; }
  [[nodiscard]] std::span<LimiterState* const> limiters() const override {
    const bool is_counted = !giving_back_ || giving_back_->is_counted();
    return {limiters_.data(), is_counted ? limiters_.size() : std::size_t{0}};
  }
  [[nodiscard]] Store& store() const override {
    return giving_back_ ? giving_back_->store() : *limiters_.front()->store;
  }

  void ask(Store& store, const Interrupted& interrupted) override {
    if (giving_back_) return giving_back_->ask(store, &*present_, interrupted);
    claim_.use([&] { charging_->ask(charging_->rows(), store, interrupted); });
  }

  Object answer() override {
    if (is_nothing()) return Object::borrow(PyTuple_GET_ITEM(kept_.get(), 1));
    if (charging_)
      return charged(charging_->answer(limiters_, asked_.call(), charging_->rows(), cost_.number()));
    left_->time() = present_->time;
    const Decision folded = fold(asked_.charges(), left_->rows());
    return settled(Object::steal(left_->finish(folded, cost_.number(), claim_.charged().source)));
  }

  Object answer_without(const StoreError& error) override {
    if (charging_) return charged(charging_->answer_without(error, limiters_, asked_.call(), cost_.number()));
    TimedCall timed(*limiters_.front(), asked_.charges());
    return decided_without_store(error, limiters_, *timed, asked_.call(), cost_.number());
  }

 private:
  ChargeBits charges_to_settle(PyObject* decision, Settled settled) const {
    const Cost cost = cost_.units();  // wrong whatever was charged
    return charges_where(decision, [&](const Subject& subject, std::size_t) {
      const bool costs_less = subject.cost < cost;
      const bool is_meant =
          settled == Settled::all_alike || costs_less == (settled == Settled::those_that_cost_less);
      return is_meant && is_own(subject, limiters_);
    });
  }

  void check_are_alike() const {
    const auto costs_the_same = [&](const Subject* subject) { return subject->cost == charged_cost_; };
    if (cost_.units() > 0 && !std::ranges::all_of(subjects_, costs_the_same)) {
      raise_value_error(
          "settle takes a decision that charged each identifier the same, and this one charged different "
          "costs: use refund and charge");
    }
  }

  [[nodiscard]] PyObject* policy_of(const Subject& subject) const {
    return policies_[owner_of(subject, limiters_)].get();
  }

  void prepare_charge() {
    for (const Subject* subject : subjects_) {
      asked_.add(policy_of(*subject), subject->identifier, cost_.units() - subject->cost, Role::always);
    }
    asked_.check_cells();
    charging_.emplace(*limiters_.front(), asked_.call(), Mode::consume, kNever);
    charging_->show_present();
  }

  void prepare_giving_back() {
    const bool is_local = claim_.charged().source == Source::local;
    for (const Subject* subject : subjects_) {
      PyObject* const policy = policy_of(*subject);
      asked_.add(is_local ? local_policy_of(policy) : policy, subject->identifier, 0);
    }
    left_.emplace(asked_.subjects(), asked_.size(), pairs_of(asked_.charges()));
    present_ = Present{asked_.charges(), left_->rows()};
    giving_back_.emplace(*limiters_.front(), claim_, cost_.units());
  }

  Object charged(Object decision) {
    if (parts_of(decision.get()).source != Source::error) claim_.mark_used();
    return settled(std::move(decision));
  }

  static Object settled(Object decision) {
    make_final(decision.get());
    return decision;
  }

  std::vector<LimiterState*> limiters_;
  Object kept_;
  std::vector<Object> policies_;  // of the limiters
  WholeCost cost_;
  Object kept_cost_;
  RefundClaim claim_;
  std::vector<const Subject*> subjects_;
  Cost charged_cost_ = 0;
  ChargeList asked_;
  std::optional<Deciding<CallCharges>> charging_;  // either this
  std::optional<NewDecision> left_;                // or this and the next two
  std::optional<Present> present_;
  std::optional<GivingBack> giving_back_;
};

Task settling_under(Tuple given, PyObject* decision, PyObject* cost, Settled which) {
  std::vector<LimiterState*> limiters;
  for (PyObject* const each : given.members()) limiters.push_back(&state_of(each));
  if (limiters.empty()) raise_value_error("name at least one limiter");
  return std::make_unique<Settling>(given.object, std::move(limiters), decision, cost, which);
}

}  // namespace

Task refunding(LimiterState& limiter, PyObject* decision) {
  return std::make_unique<Refunding>(limiter, decision, nullptr);
}

Task refunding_part(LimiterState& limiter, PyObject* decision, PyObject* places) {
  return std::make_unique<Refunding>(limiter, decision, places);
}

Task settling(LimiterState& limiter, PyObject* decision, PyObject* cost) {
  return std::make_unique<Settling>(limiter.object, std::vector{&limiter}, decision, cost,
                                    Settled::all_alike);
}

Task settling_more(PyObject*, Tuple limiters, PyObject* decision, PyObject* cost) {
  return settling_under(limiters, decision, cost, Settled::those_that_cost_less);
}

Task settling_rest(PyObject*, Tuple limiters, PyObject* decision, PyObject* cost) {
  return settling_under(limiters, decision, cost, Settled::those_that_cost_no_less);
}

}  // namespace overlimit::python
