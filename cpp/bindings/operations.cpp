#include "operations.hpp"

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "charges.hpp"
#include "clock.hpp"
#include "module.hpp"

namespace overlimit::python {
namespace {

// A call about one identifier, and the policy that its charge borrows.
class OneIdentifier : NonCopyable {
 public:
  OneIdentifier(const LimiterState& limiter, PyObject* identifier)
      : identifier_(Object::borrow(identifier)), policy_(limiter.present_policy()) {
    collected_.add(policy_.get(), identifier, 1);
    timed_.emplace(limiter, collected_.charges());
  }
  [[nodiscard]] const Call& call() { return **timed_; }

 private:
  Object identifier_;
  Object policy_;
  ChargeList collected_;
  std::optional<TimedCall> timed_;
};

/// Drops all that is kept for some identifiers, or for all, in a policy.
class Reset : NonCopyable {
 public:
  explicit Reset(PolicyIdentity policy) : policy_(std::move(policy)) {}
  Reset(PolicyIdentity policy, std::span<PyObject* const> identifiers) : Reset(std::move(policy)) {
    if (identifiers.empty()) raise_value_error(kNoIdentifier);
    for (PyObject* const identifier : identifiers) {
      kept_.push_back(Object::borrow(identifier));
      identifiers_.push_back(bytes_.view(identifier));
    }
  }

  void operator()(Store& store, const Interrupted& interrupted) const {
    if (identifiers_.empty()) return store.reset_all(policy_, interrupted);
    store.reset(policy_, identifiers_, interrupted);
  }

 private:
  PolicyIdentity policy_;
  IdentifierBytes bytes_;
  std::vector<Object> kept_;
  std::vector<std::string_view> identifiers_;
};

/// A task made of two functions, of which `Answer` returns the answer, or nothing for None.
template <class Ask, class Answer>
class TaskOf final : public StoreTask {
 public:
  TaskOf(LimiterState& limiter, bool is_counted, Ask ask, Answer answer)
      : limiter_(&limiter),
        is_counted_(is_counted),
        kept_(Object::borrow(limiter.object)),
        ask_(std::move(ask)),
        answer_(std::move(answer)) {}
  [[nodiscard]] std::span<LimiterState* const> limiters() const override {
    return {&limiter_, std::size_t(is_counted_)};
  }
  [[nodiscard]] Store& store() const override { return *limiter_->store; }
  void ask(Store& store, const Interrupted& interrupted) override { ask_(store, interrupted); }
  Object answer() override {
    if constexpr (!std::is_void_v<decltype(answer_())>) return answer_();
    answer_();
    return Object::borrow(Py_None);
  }

 private:
  LimiterState* limiter_;
  bool is_counted_;
  Object kept_;
  Ask ask_;
  Answer answer_;
};

/// A task that asks the limiter's store, and whether the limiter counts it.
template <class Ask, class Answer>
Task task_of(LimiterState& limiter, bool is_counted, Ask ask, Answer answer) {
  return std::make_unique<TaskOf<Ask, Answer>>(limiter, is_counted, std::move(ask), std::move(answer));
}

/// The same where the limiter's local fallback may have decided in the place of its store.
template <class Ask>
Task task_of(LimiterState& limiter, bool is_counted, Ask ask) {
  return task_of(limiter, is_counted, ask, [ask, &limiter] {
    if (limiter.on_error != OnError::local || !limiter.store->waits()) return;
    ask(*local_fallback_store(limiter.store_object.get()), kInterrupted);
  });
}

template <class... Identifiers>
Task resetting(LimiterState& limiter, bool is_counted, const Identifiers&... identifiers) {
  const auto reset = std::make_shared<const Reset>(limiter.identity, identifiers...);
  return task_of(limiter, is_counted,
                 [reset](Store& store, const Interrupted& interrupted) { (*reset)(store, interrupted); });
}

Task resetting_some(LimiterState& limiter, Arguments identifiers) {
  return resetting(limiter, true, identifiers);
}

Task resetting_all(LimiterState& limiter) { return resetting(limiter, false); }

// By the name of a policy, whatever its limits, also where the local fallback of a store has decided.
void reset_name(PyObject*, PyObject* store, PyObject* name, PyObject* identifiers) {
  const std::shared_ptr<Store> opened = store_from(store);
  const PolicyIdentity policy = identity_from(name);
  const bool is_of_all = identifiers == Py_None;
  const Reset reset = is_of_all ? Reset(policy) : Reset(policy, From<Tuple>::get(identifiers).members());
  without_gil([&](const Interrupted& interrupted) { reset(*opened, interrupted); });
  if (opened->waits()) reset(*local_fallback_store(store), kInterrupted);
}

Task locking(LimiterState& limiter, PyObject* identifier, std::int64_t microseconds) {
  const Duration duration(microseconds);
  if (duration < kMicrosecond || duration > kMaxPeriod)
    raise_value_error("a lock lasts from 1 to 2**49 microseconds");
  const auto one = std::make_shared<OneIdentifier>(limiter, identifier);
  return task_of(
      limiter, true,
      [one, duration](Store& store, const Interrupted& interrupted) {
        store.lock(one->call(), duration, interrupted);
      },
      [] {});
}

Task unlocking(LimiterState& limiter, PyObject* identifier) {
  const auto one = std::make_shared<OneIdentifier>(limiter, identifier);
  return task_of(limiter, true, [one](Store& store, const Interrupted& interrupted) {
    store.unlock(one->call(), interrupted);
  });
}

Task pinging(LimiterState& limiter, PyObject* timeout) {
  const std::optional<Duration> longest = store_timeout_from(timeout);
  const auto took = std::make_shared<Duration>();
  return task_of(
      limiter, false,
      [took, longest](Store& store, const Interrupted& interrupted) {
        *took = store.ping(longest, interrupted);
      },
      [took] { return required(PyFloat_FromDouble(took->seconds())); });
}

Task closing(LimiterState& limiter) {
  return task_of(
      limiter, false, [](Store& store, const Interrupted&) { store.close(); }, [] {});
}

// The breaker is that of the threads, or that of the event loop that awaits the answer.
Task telling_stats(LimiterState& limiter) {
  const auto breaker = std::make_shared<BreakerState>();
  return task_of(
      limiter, false, [breaker](Store& store, const Interrupted&) { *breaker = store.breaker(); },
      [breaker, &limiter] {
        if (limiter.called_after != LimiterState::kNotCalled) notice_call(limiter);
        return stats_of(limiter, *breaker);
      });
}

// So that the compiler joins the signature that help() shows with the text.
#define OPERATION(prepare, name, arguments, doc) operation<prepare>(name, name "(" arguments ")\n--\n\n" doc)

Operation limiter_operations[] = {
    OPERATION(settling, "settle", "$self, decision, cost, /",
              "Make an admitted call cost what it turned out to cost."),
    OPERATION(refunding, "refund", "$self, decision, /",
              "Give back what a decision charged, once, where it was charged."),
    OPERATION(refunding_part, "_refund_part", "$self, decision, places, /",
              "Give back what a decision charged to some of its charges, by their places; no more of it can "
              "be given back then."),
    OPERATION(locking, "_lock", "$self, identifier, microseconds, /",
              "Refuse an identifier for this long from now."),
    OPERATION(unlocking, "unlock", "$self, identifier, /",
              "Lift the lock of an identifier; what was counted stays."),
    OPERATION(resetting_some, "reset", "$self, /, *identifiers",
              "Remove everything that is stored for these identifiers in this policy."),
    OPERATION(resetting_all, "reset_all", "$self, /", "Remove everything that is stored for this policy."),
    OPERATION(telling_stats, "stats", "$self, /",
              "Return what this limiter has counted of its calls to the store, in this process, as a new "
              "dict.\n\ncalls: how often the store was asked to decide, refund, lock or reset; errors: how "
              "many of these failed, by\nkind; timeouts: of these the deadlines missed; local: decisions "
              "made in this process instead; crowded: decisions by counts that identifiers share because a "
              "memory store had no room left; \nleased: decisions by what this process had charged early "
              "(lease); held: units charged early and not spent; returned: those given back unspent; lapsed: "
              "those lost unspent, as with a connection; refusals: what this process refused by what it was "
              "told (max_stale), so not those of the server; asked: commands sent to Redis for decisions, "
              "with those that give back leases or restore counts; restored: keys whose counts this process "
              "has brought back after the server had lost them (remember); breaker:\n'closed', 'open' or "
              "'half_open'; latency: an upper bound in seconds -> how many calls took that long and\nlonger "
              "than the bound before, the last one being inf; counted for stores that wait only."),
    OPERATION(pinging, "_ping", "$self, timeout, /",
              "Store.ping() of the store, by the connections of those who wait."),
    OPERATION(closing, "_close", "$self, /",
              "Store.close() of the store, of the connections of those who wait.")};

Operation many_operations[] = {
    OPERATION(settling_more, "_settle_more", "limiters, decision, cost, /",
              "settle() for several limiters on one store, of the charges that cost less than that."),
    OPERATION(settling_rest, "_settle_rest", "limiters, decision, cost, /",
              "settle() for several limiters on one store, of the charges that cost that or more.")};

#undef OPERATION

std::vector<std::span<const Operation>>& known() {
  static auto* const operations = new std::vector<std::span<const Operation>>();
  return *operations;
}

const Operation& found(const PyMethodDef* definition) {
  for (const std::span<const Operation> some : known()) {
    for (const Operation& each : some) {
      if (&each.method == definition) return each;
    }
  }
  raise_type_error("_later() takes an operation, its limiter if it is a method, and its arguments");
}

Task prepared(Arguments arguments, PyObject* names) {
  PyObject* const function = arguments.empty() ? Py_None : arguments[0];
  if (Py_IS_TYPE(function, &PyMethodDescr_Type) && arguments.size() > 1) {
    const Operation& method = found(reinterpret_cast<PyMethodDescrObject*>(function)->d_method);
    return method.prepare(arguments[1], arguments.subspan(2), names);
  }
  const bool is_function = PyCFunction_CheckExact(function);
  const Operation& operation =
      found(is_function ? reinterpret_cast<PyCFunctionObject*>(function)->m_ml : nullptr);
  return operation.prepare(nullptr, arguments.subspan(1), names);
}

Object later(PyObject*, Arguments arguments, PyObject* names) {
  return answer_or_pending(prepared(arguments, names));
}

PyMethodDef others[] = {
    method<later>("_later",
                  "_later(operation, /, *arguments, **keywords)\n--\n\nReturn what an operation, such as "
                  "Limiter.settle, answers to these arguments; a PendingCall if that has to be waited for."),
    method<reset_name>(
        "_reset",
        "_reset(store, name, identifiers, /)\n--\n\nRemove everything that is stored for these "
        "identifiers, or with None for all, in the policy of a name.")};

}  // namespace

void add_functions(PyObject* module, std::span<Operation> operations) {
  for (Operation& each : operations) add_functions(module, std::span(&each.method, 1));
  known().push_back(operations);
}

void add_methods(std::span<Operation> operations) {
  for (Operation& each : operations) add_method(each.method);
  known().push_back(operations);
}

void add_operations(PyObject* module) {
  add_methods(limiter_operations);
  add_functions(module, many_operations);
  add_functions(module, others);
}

}  // namespace overlimit::python
