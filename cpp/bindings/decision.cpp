#include "decision.hpp"

#include <atomic>
#include <vector>

#include "charges.hpp"
#include "clock.hpp"
#include "hooks.hpp"
#include "module.hpp"

namespace overlimit::python {

PyTypeObject* decision_type = nullptr;
std::array<KeptObjects<DecisionObject>, kLargestKeptRoom / kRoomUnit + 1> kept_decisions;

namespace {

std::array<PyObject*, 4> status_names{};
std::array<PyObject*, kSources> source_names{};

DecisionObject& of(PyObject* self) { return *reinterpret_cast<DecisionObject*>(self); }

/// The subject of a row and the limit among its own.
struct RowOwner {
  const Subject* subject;
  std::size_t limit;
};

// Nothing in a decision without rows.
std::optional<RowOwner> binding_row_owner(DecisionObject& decision) {
  std::size_t row = decision.answer.binding_row;
  for (const Subject& subject : decision.subjects()) {
    const std::size_t limits = compiled(subject.policy).size();
    if (row < limits) return RowOwner{&subject, row};
    row -= limits;
  }
  return std::nullopt;
}

PyObject* limit_object(const RowOwner& owner) {
  const std::size_t place = compiled(owner.subject->policy).limits()[owner.limit].place;
  return Py_NewRef(members_of(limits_of(owner.subject->policy))[place]);
}

bool are_ok(std::span<const Status> rows) {
  return std::ranges::all_of(rows, [](Status status) { return status == Status::ok; });
}

bool is_allowed(PyObject* self) { return of(self).answer.status == Status::ok; }
std::int64_t get_remaining(PyObject* self) { return of(self).answer.remaining; }
Duration get_retry_after(PyObject* self) { return of(self).answer.retry_after; }
// A row that can never pass has no delay to add.
Duration get_ready_after(PyObject* self) {
  const Rows rows = of(self).rows();
  Duration ready = of(self).answer.retry_after;
  for (std::size_t row = 0; row < of(self).row_count; ++row) {
    const Duration retry = rows.retry_after[row];
    ready = std::max(ready, retry == kNever ? kNever : retry + rows.delay[row]);
  }
  return ready;
}
PyObject* get_choice(PyObject* self) {
  if (of(self).chosen == 0) Py_RETURN_NONE;
  return PyLong_FromLong(of(self).chosen - 1);
}
PyObject* get_limit(PyObject* self) {
  const std::optional<RowOwner> owner = binding_row_owner(of(self));
  return owner ? limit_object(*owner) : Py_NewRef(Py_None);
}
PyObject* get_identifier(PyObject* self) {
  const std::optional<RowOwner> owner = binding_row_owner(of(self));
  return Py_NewRef(owner ? owner->subject->identifier : Py_None);
}

// Its rows say so only where it was used up before.
bool is_refused_by_meta(PyObject* self) {
  const Status* status = of(self).rows().status;
  for (const Subject& subject : of(self).subjects()) {
    const std::span own(status, compiled(subject.policy).size());
    if (subject.role == Role::on_refusal && !are_ok(own)) return true;
    status += own.size();
  }
  return false;
}

// Decisions are values: whether they can be refunded is not part of them.
PyObject* compare(PyObject* self, PyObject* other, int operation) {
  if ((operation != Py_EQ && operation != Py_NE) || !PyObject_TypeCheck(other, decision_type)) {
    Py_RETURN_NOTIMPLEMENTED;
  }
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    if (self == other) return PyBool_FromLong(operation == Py_EQ);
    return checked(PyObject_RichCompare(bytes_of(self).get(), bytes_of(other).get(), operation));
  });
}

Py_hash_t hash(PyObject* self) {
  const DecisionObject& decision = of(self);
  const auto value = static_cast<Py_hash_t>(decision.time.micros() * 31 + decision.answer.remaining);
  return value == -1 ? -2 : value;
}

constexpr std::array<const char*, kSources> kShownSources{"", ", source='local'", ", source='error'",
                                                          ", source='refusal'", ", source='lease'"};

int is_true(PyObject* self) { return is_allowed(self) ? 1 : 0; }

PyObject* represent(PyObject* self) {
  const Object remaining = required(returned(get_remaining(self)));
  const Object retry = required(returned(get_retry_after(self)));
  const Object limit = Object::steal(get_limit(self));
  const Object identifier = Object::steal(get_identifier(self));
  return PyUnicode_FromFormat("<Decision %U: remaining=%R, retry_after=%R, limit=%R, identifier=%R%s>",
                              status_names[std::size_t(of(self).answer.status)], remaining.get(), retry.get(),
                              limit.get(), identifier.get(), kShownSources[std::size_t(of(self).source)]);
}

Object represent_html(PyObject* self) { return call_hook("decision_html", self); }

// The receipts stay here, as they belong to the store's process: a copy cannot be refunded.
PyObject* reduce(PyObject* self) {
  return Py_BuildValue("O(O)", hook("restored_decision").get(), bytes_of(self).get());
}

/// The same answers in the making, with nothing to give back.
struct Copied : NewDecision {
  explicit Copied(DecisionObject& like)
      : NewDecision(like.subjects().data(), like.subject_count, like.row_count) {
    copy_rows(like.rows(), rows());
    std::fill_n(rows().receipt, like.row_count, Receipt{});
    time() = like.time;
  }
};

PyObject* with_shadows_enforced(PyObject* self) {
  DecisionObject& decision = of(self);
  const auto is_shadow = [](const Subject& subject) { return subject.role == Role::shadow; };
  if (std::ranges::none_of(decision.subjects(), is_shadow)) return Py_NewRef(self);
  Copied enforced(decision);
  for (Subject& subject : enforced.subjects()) {
    if (is_shadow(subject)) subject.role = Role::enforce;
  }
  return enforced.finish(decision.cost, decision.source);
}

// The call is not let in yet, so what it would have spent still remains.
PyObject* postponed(PyObject* self, std::int64_t microseconds, std::int64_t given) {
  if (microseconds < 1 || microseconds > kExact)
    raise_value_error("a wait lasts from 1 to 2**53 microseconds");
  DecisionObject& decision = of(self);
  const Duration wait(microseconds);
  const auto postpone = [wait](auto& status, auto& retry_after) {
    status = std::max(status, Status::over);
    retry_after = std::max(retry_after, wait);
  };
  // The limits may have changed since the place was known.
  const std::size_t pair = std::size_t(given) >= decision.row_count ? 0 : std::size_t(given);
  Copied later(decision);
  const Rows rows = later.rows();
  std::size_t first = 0;  // rows are in canonical order, places as the caller gave the limits
  for (const Subject& subject : later.subjects()) {
    std::size_t row = first;
    for (const CompiledLimit& limit : compiled(subject.policy).limits()) {
      if (first + limit.place == pair) postpone(rows.status[row], rows.retry_after[row]);
      if (is_allowed(self)) rows.remaining[row] += subject.cost;
      ++row;
    }
    first = row;
  }
  if (decision.row_count > 0) return later.finish(decision.cost, decision.source);
  Decision answer = decision.answer;
  postpone(answer.status, answer.retry_after);
  return later.finish(answer, decision.cost, decision.source);
}

void destroy(PyObject* self) {
  for (const Subject& subject : of(self).subjects()) {
    Py_DECREF(subject.policy);
    Py_DECREF(subject.identifier);
  }
  Py_XDECREF(of(self).cost);
  Py_XDECREF(of(self).details.load(std::memory_order_relaxed));
  KeptObjects<DecisionObject>* const kept = kept_decisions_with(std::size_t(Py_SIZE(self)));
  if (kept != nullptr && kept->keep(of(self))) return;
  PyTypeObject* type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

PyGetSetDef properties[] = {
    property<is_allowed>("allowed", "Whether the call may pass; bool(decision) is the same."),
    property<[](PyObject* self) { return Py_NewRef(status_names[std::size_t(of(self).answer.status)]); }>(
        "status", "\"ok\", \"over\", \"locked\" or \"never\"."),
    property<get_remaining>(
        "remaining",
        "The smallest over all pairs of what a limit still grants after this call, in cost units."),
    property<get_retry_after>(
        "retry_after", "Seconds until this same call could succeed: 0.0 if allowed, math.inf for never."),
    property<get_limit>("limit", "The limit that binds; None when nobody has decided."),
    property<get_identifier>("identifier",
                             "The identifier that binds, as it was given; None when nobody has decided."),
    property<[](PyObject* self) { return of(self).answer.reset_after; }>(
        "reset_after", "Seconds until the binding pair is as if it had never been seen."),
    property<[](PyObject* self) { return of(self).answer.delay; }>(
        "delay", "Seconds the caller must wait before it proceeds; 0.0 when refused."),
    property<get_ready_after>(
        "_ready_after",
        "Seconds until the caller can be through: retry_after, and the delay then; math.inf for never."),
    property<is_refused_by_meta>("_refused_by_meta", "Whether a limit of the role on_refusal was used up."),
    property<[](PyObject* self) { return Py_NewRef(of(self).cost); }>("cost", "What was asked for."),
    property<[](PyObject* self) { return of(self).time; }>(
        "time", "When it was decided, in seconds since the Unix epoch."),
    property<[](PyObject* self) { return Py_NewRef(source_names[std::size_t(of(self).source)]); }>(
        "source",
        "Who decided: \"store\", \"local\" (this process, while the store failed) or "
        "\"error\" (nobody did)."),
    property<get_choice>("choice",
                         "Of hit_first and its relatives: the place of the entry that admitted, from 0; None "
                         "when refused, and of other calls."),
    property<new_details>(
        "details",
        "One Detail per (identifier, limit), in the order given; each is made when it is first read."),
    {}};

// For the limit that binds as it stands.
void count_shadow_refusal(PyObject* self) {
  if (const std::optional<RowOwner> owner = binding_row_owner(of(self)))
    counters_of(owner->subject->policy, owner->limit).add(place_of("shadow"));
}

PyMethodDef methods[] = {
    method<reduce>("__reduce__", "__reduce__($self, /)\n--\n\nPickle by value, as bytes."),
    method<count_shadow_refusal>(
        "_count_shadow_refusal",
        "_count_shadow_refusal($self, /)\n--\n\nCount it for metrics as a refusal that nobody is told of."),
    method<with_shadows_enforced>(
        "_with_shadows_enforced",
        "_with_shadows_enforced($self, /)\n--\n\nWhat the answer would have been had "
        "its shadow limits been enforced; it can't be refunded."),
    method<postponed>(
        "_postponed",
        "_postponed($self, microseconds, place, /)\n--\n\nReturn the same answer, but refused for "
        "at least so long by the pair at this place in details, for which others come first."),
    method<represent_html>("_repr_html_",
                           "_repr_html_($self, /)\n--\n\nReturn the decision as a table, for notebooks."),
    {}};

// A function of its own, so that reading an attribute that exists takes only a few instructions more.
[[gnu::noinline]] PyObject* explain_missing(PyObject* decision, PyObject* name) {
  if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) return nullptr;
  return guarded(static_cast<PyObject*>(nullptr), [&]() -> PyObject* {
    PyErr_Clear();
    PyErr_SetObject(PyExc_AttributeError, call_hook("missing_of_decision", decision, name).get());
    return nullptr;
  });
}

/// The error for an attribute that does not exist says what to use instead.
PyObject* attribute(PyObject* decision, PyObject* name) {
  PyObject* const found = PyObject_GenericGetAttr(decision, name);
  return found != nullptr ? found : explain_missing(decision, name);
}

PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("The answer to a call; a value. A refusal is not an error.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
    {Py_tp_repr, unary<represent>()},
    {Py_tp_richcompare, reinterpret_cast<void*>(compare)},
    {Py_tp_hash, reinterpret_cast<void*>(hash)},
    {Py_tp_getattro, reinterpret_cast<void*>(attribute)},
    {Py_nb_bool, reinterpret_cast<void*>(is_true)},
    {Py_tp_getset, properties},
    {Py_tp_methods, methods},
    {0, nullptr}};

PyType_Spec spec = {"overlimit._core.Decision", sizeof(DecisionObject), 1,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

bool was_made(const Subject& subject, Status call, std::span<const Status> own) {
  if (subject.role == Role::always) return true;  // whatever the call is answered
  if (subject.role == Role::on_refusal || call != Status::ok) return false;
  return are_ok(own);
}

ChargeBits made_charges(DecisionObject& decision) {
  ChargeBits made = 0;
  ChargeBits bit = 1;
  const Status* own = decision.rows().status;
  for (const Subject& subject : decision.subjects()) {
    const std::size_t rows = compiled(subject.policy).size();
    if (was_made(subject, decision.answer.status, {own, rows})) made |= bit;
    own += rows;
    bit <<= 1;
  }
  return made;
}

}  // namespace

void add_decision(PyObject* module) {
  const auto interned = [](const char* name) { return checked(PyUnicode_InternFromString(name)); };
  std::ranges::transform(kStatusNames, status_names.begin(), interned);
  std::ranges::transform(kSourceNames, source_names.begin(), interned);
  decision_type = add_type(module, spec);
  add_decision_values(module);
}

PyObject* NewDecision::finish(PyObject* cost, Source source) {
  std::vector<Charge> charges;
  for (const Subject& subject : subjects()) {
    charges.push_back({&compiled(subject.policy), {}, subject.cost, subject.role});
  }
  return finish(fold(charges, rows()), cost, source);
}

DecisionObject& parts_of(PyObject* decision) {
  if (!PyObject_TypeCheck(decision, decision_type)) refuse_type("a Decision, as hit() returns it", decision);
  return of(decision);
}

RefundClaim::RefundClaim(PyObject* decision, ChargeBits charges) : decision_(decision) {
  DecisionObject& charged = parts_of(decision);
  const ChargeBits wanted = charges & made_charges(charged);
  taken_ = wanted & ~charged.claimed.fetch_or(wanted);
  if (taken_ == 0) return;
  charged_ = {charged.subjects(), charged.rows().receipts(), charged.source};
}

RefundClaim::~RefundClaim() {
  if (!is_used_) of(decision_).claimed.fetch_and(~taken_);
}

void count_refusal(PyObject* refusal, PyObject* policy) {
  DecisionObject& decision = parts_of(refusal);
  const std::optional<RowOwner> owner = binding_row_owner(decision);
  CounterSlot& counters = owner ? counters_of(owner->subject->policy, owner->limit) : counters_of(policy, 0);
  counters.add(std::size_t(decision.source) * kStatusNames.size() + std::size_t(decision.answer.status));
}

void make_final(PyObject* decision) { of(decision).claimed.store(~ChargeBits{0}, std::memory_order_relaxed); }

}  // namespace overlimit::python
