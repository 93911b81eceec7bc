#include "decision.hpp"

#include <atomic>
#include <new>
#include <vector>

#include "charges.hpp"
#include "clock.hpp"
#include "details.hpp"
#include "errors.hpp"
#include "hooks.hpp"
#include "policy.hpp"

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
  return Py_NewRef(PyTuple_GET_ITEM(limits_of(owner.subject->policy), Py_ssize_t(place)));
}

PyObject* seconds(Duration duration) { return PyFloat_FromDouble(duration.seconds()); }

PyObject* get_allowed(PyObject* self, void*) { return PyBool_FromLong(of(self).answer.status == Status::ok); }
PyObject* get_status(PyObject* self, void*) {
  return Py_NewRef(status_names[std::size_t(of(self).answer.status)]);
}
PyObject* get_remaining(PyObject* self, void*) { return PyLong_FromLongLong(of(self).answer.remaining); }
PyObject* get_retry_after(PyObject* self, void*) { return seconds(of(self).answer.retry_after); }
PyObject* get_reset_after(PyObject* self, void*) { return seconds(of(self).answer.reset_after); }
PyObject* get_delay(PyObject* self, void*) { return seconds(of(self).answer.delay); }
// A row that can never pass has no delay to add.
PyObject* get_ready_after(PyObject* self, void*) {
  const Rows rows = of(self).rows();
  Duration ready = of(self).answer.retry_after;
  for (std::size_t row = 0; row < of(self).row_count; ++row) {
    const Duration retry = rows.retry_after[row];
    ready = std::max(ready, retry == kNever ? kNever : retry + rows.delay[row]);
  }
  return seconds(ready);
}
PyObject* get_time(PyObject* self, void*) { return seconds(of(self).time.since_epoch()); }
PyObject* get_cost(PyObject* self, void*) { return Py_NewRef(of(self).cost); }
PyObject* get_source(PyObject* self, void*) { return Py_NewRef(source_names[std::size_t(of(self).source)]); }
PyObject* get_limit(PyObject* self, void*) {
  const std::optional<RowOwner> owner = binding_row_owner(of(self));
  return owner ? limit_object(*owner) : Py_NewRef(Py_None);
}
PyObject* get_identifier(PyObject* self, void*) {
  const std::optional<RowOwner> owner = binding_row_owner(of(self));
  return Py_NewRef(owner ? owner->subject->identifier : Py_None);
}

// Its rows say so only where it was used up before.
PyObject* get_refused_by_meta(PyObject* self, void*) {
  const Rows rows = of(self).rows();
  std::size_t row = 0;
  for (const Subject& subject : of(self).subjects()) {
    for (std::size_t limits = compiled(subject.policy).size(); limits > 0; --limits, ++row) {
      if (subject.role == Role::on_refusal && rows.status[row] != Status::ok) Py_RETURN_TRUE;
    }
  }
  Py_RETURN_FALSE;
}

// Rows are in canonical order, places as the caller gave the limits.
PyObject* get_binding_places(PyObject* self, void*) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    const Rows rows = of(self).rows();
    std::vector<Object> places;
    std::size_t first = 0;
    for (const Subject& subject : of(self).subjects()) {
      std::size_t row = first;
      for (const CompiledLimit& limit : compiled(subject.policy).limits()) {
        const bool binds =
            rows.status[row] != Status::ok && rows.retry_after[row] == of(self).answer.retry_after;
        if (binds) places.push_back(required(PyLong_FromSize_t(first + limit.place)));
        ++row;
      }
      first = row;
    }
    return tuple_of(places).release();
  });
}

PyObject* get_details(PyObject* self, void*) {
  return guarded(static_cast<PyObject*>(nullptr), [&] { return new_details(self); });
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

int is_allowed(PyObject* self) { return of(self).answer.status == Status::ok ? 1 : 0; }

PyObject* represent(PyObject* self) {
  const Object remaining = Object::steal(get_remaining(self, nullptr));
  const Object retry = Object::steal(get_retry_after(self, nullptr));
  const Object limit = Object::steal(get_limit(self, nullptr));
  const Object identifier = Object::steal(get_identifier(self, nullptr));
  if (!remaining || !retry || !limit || !identifier) return nullptr;
  return PyUnicode_FromFormat("<Decision %U: remaining=%R, retry_after=%R, limit=%R, identifier=%R%s>",
                              status_names[std::size_t(of(self).answer.status)], remaining.get(), retry.get(),
                              limit.get(), identifier.get(), kShownSources[std::size_t(of(self).source)]);
}

PyObject* represent_html(PyObject* self, PyObject*) {
  return guarded(static_cast<PyObject*>(nullptr), [&] { return call_hook("decision_html", self).release(); });
}

// The receipts stay here, as they belong to the store's process: a copy cannot be refunded.
PyObject* reduce(PyObject* self, PyObject*) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    return checked(Py_BuildValue("O(O)", hook("restored_decision").get(), bytes_of(self).get()));
  });
}

// What was answered, with nothing to give back.
void copy_answers(const Rows& from, const Rows& to) {
  copy_rows(from, to);
  std::fill_n(to.receipt, to.count, Receipt{});
}

PyObject* with_shadows_enforced(PyObject* self, PyObject*) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    DecisionObject& decision = of(self);
    const auto is_shadow = [](const Subject& subject) { return subject.role == Role::shadow; };
    if (std::ranges::none_of(decision.subjects(), is_shadow)) return Py_NewRef(self);
    NewDecision enforced(decision.subjects().data(), decision.subject_count, decision.row_count);
    for (Subject& subject : enforced.subjects()) {
      if (is_shadow(subject)) subject.role = Role::enforce;
    }
    copy_answers(decision.rows(), enforced.rows());
    enforced.time() = decision.time;
    return enforced.finish(decision.cost, decision.source);
  });
}

// The call is not let in yet, so what it would have spent still remains.
void postpone(std::span<const Subject> subjects, const Rows& rows, bool was_allowed, Duration wait,
              std::size_t place) {
  std::size_t first = 0;
  for (const Subject& subject : subjects) {
    std::size_t row = first;
    for (const CompiledLimit& limit : compiled(subject.policy).limits()) {
      if (first + limit.place == place) {
        rows.status[row] = std::max(rows.status[row], Status::over);
        rows.retry_after[row] = std::max(rows.retry_after[row], wait);
      }
      if (was_allowed) rows.remaining[row] += subject.cost;
      ++row;
    }
    first = row;
  }
}

PyObject* postponed(PyObject* self, PyObject* arguments) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    long long wait = 0;
    Py_ssize_t given = 0;
    if (PyArg_ParseTuple(arguments, "Ln:_postponed", &wait, &given) == 0) throw PythonError{};
    if (wait < 1 || wait > kExact) raise_value_error("a wait lasts from 1 to 2**53 microseconds");
    DecisionObject& decision = of(self);
    // The limits may have changed since the place was known.
    const std::size_t place = given < 0 || std::size_t(given) >= decision.row_count ? 0 : std::size_t(given);
    NewDecision later(decision.subjects().data(), decision.subject_count, decision.row_count);
    copy_answers(decision.rows(), later.rows());
    later.time() = decision.time;
    postpone(later.subjects(), later.rows(), decision.answer.status == Status::ok, Duration(wait), place);
    if (decision.row_count > 0) return later.finish(decision.cost, decision.source);
    Decision answer = decision.answer;
    answer.status = std::max(answer.status, Status::over);
    answer.retry_after = std::max(answer.retry_after, Duration(wait));
    return later.finish(answer, decision.cost, decision.source);
  });
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
    {"allowed", get_allowed, nullptr, "Whether the call may pass; bool(decision) is the same.", nullptr},
    {"status", get_status, nullptr, "\"ok\", \"over\", \"locked\" or \"never\".", nullptr},
    {"remaining", get_remaining, nullptr,
     "The smallest over all pairs of what a limit still grants after this call, in cost units.", nullptr},
    {"retry_after", get_retry_after, nullptr,
     "Seconds until this same call could succeed: 0.0 if allowed, math.inf for never.", nullptr},
    {"limit", get_limit, nullptr, "The limit that binds; None when nobody has decided.", nullptr},
    {"identifier", get_identifier, nullptr,
     "The identifier that binds, as it was given; None when nobody has decided.", nullptr},
    {"reset_after", get_reset_after, nullptr,
     "Seconds until the binding pair is as if it had never been seen.", nullptr},
    {"delay", get_delay, nullptr, "Seconds the caller must wait before it proceeds; 0.0 when refused.",
     nullptr},
    {"_ready_after", get_ready_after, nullptr,
     "Seconds until the caller can be through: retry_after, and the delay then; math.inf for never.",
     nullptr},
    {"_binding_places", get_binding_places, nullptr,
     "The places in details of what refuses the call longest; none when nobody has decided.", nullptr},
    {"_refused_by_meta", get_refused_by_meta, nullptr, "Whether a limit of the role on_refusal was used up.",
     nullptr},
    {"cost", get_cost, nullptr, "What was asked for.", nullptr},
    {"time", get_time, nullptr, "When it was decided, in seconds since the Unix epoch.", nullptr},
    {"source", get_source, nullptr,
     "Who decided: \"store\", \"local\" (this process, while the store failed) or \"error\" (nobody did).",
     nullptr},
    {"details", get_details, nullptr,
     "One Detail per (identifier, limit), in the order given; each is made when it is first read.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

// For the limit that binds as it stands.
PyObject* count_shadow_refusal(PyObject* self, PyObject*) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    if (const std::optional<RowOwner> owner = binding_row_owner(of(self))) {
      counters_of(owner->subject->policy, owner->limit).add(place_of("shadow"));
    }
    return Py_NewRef(Py_None);
  });
}

PyMethodDef methods[] = {
    {"__reduce__", reduce, METH_NOARGS, "__reduce__($self, /)\n--\n\nPickle by value, as bytes."},
    {"_count_shadow_refusal", count_shadow_refusal, METH_NOARGS,
     "_count_shadow_refusal($self, /)\n--\n\nCount it for metrics as a refusal that nobody is told of."},
    {"_with_shadows_enforced", with_shadows_enforced, METH_NOARGS,
     "_with_shadows_enforced($self, /)\n--\n\nWhat the answer would have been had its shadow limits been "
     "enforced; it can't be refunded."},
    {"_postponed", postponed, METH_VARARGS,
     "_postponed($self, microseconds, place, /)\n--\n\nReturn the same answer, but refused for at least so "
     "long by the pair at this place in details, for which others come first."},
    {"_repr_html_", represent_html, METH_NOARGS,
     "_repr_html_($self, /)\n--\n\nReturn the decision as a table, for notebooks."},
    {nullptr, nullptr, 0, nullptr}};

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
    {Py_tp_repr, reinterpret_cast<void*>(represent)},
    {Py_tp_richcompare, reinterpret_cast<void*>(compare)},
    {Py_tp_hash, reinterpret_cast<void*>(hash)},
    {Py_tp_getattro, reinterpret_cast<void*>(attribute)},
    {Py_nb_bool, reinterpret_cast<void*>(is_allowed)},
    {Py_tp_getset, properties},
    {Py_tp_methods, methods},
    {0, nullptr}};

PyType_Spec spec = {"overlimit._core.Decision", sizeof(DecisionObject), 1,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

bool was_made(const Subject& subject, Status call, std::span<const Status> own) {
  if (subject.role == Role::always) return true;  // whatever the call is answered
  if (subject.role == Role::on_refusal || call != Status::ok) return false;
  return std::ranges::all_of(own, [](Status status) { return status == Status::ok; });
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

PyObject* checked_decision(PyObject* object) {
  if (PyObject_TypeCheck(object, decision_type)) return object;
  PyErr_Format(PyExc_TypeError, "expected a Decision, as hit() returns it, not %.100s",
               Py_TYPE(object)->tp_name);
  throw PythonError{};
}

bool add_names() {
  std::ranges::transform(kStatusNames, status_names.begin(), PyUnicode_InternFromString);
  std::ranges::transform(kSourceNames, source_names.begin(), PyUnicode_InternFromString);
  return std::ranges::find(status_names, nullptr) == status_names.end() &&
         std::ranges::find(source_names, nullptr) == source_names.end();
}

}  // namespace

bool add_decision(PyObject* module) {
  decision_type = reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &spec, nullptr));
  return decision_type != nullptr && add_names() && PyModule_AddType(module, decision_type) == 0 &&
         add_decision_values(module);
}

PyObject* NewDecision::finish(PyObject* cost, Source source) {
  std::vector<Charge> charges;
  for (const Subject& subject : subjects()) {
    charges.push_back({&compiled(subject.policy), {}, subject.cost, subject.role});
  }
  return finish(fold(charges, rows()), cost, source);
}

RefundClaim::RefundClaim(PyObject* decision, ChargeBits charges) : decision_(checked_decision(decision)) {
  DecisionObject& charged = of(decision);
  const ChargeBits wanted = charges & made_charges(charged);
  taken_ = wanted & ~charged.claimed.fetch_or(wanted);
  if (taken_ == 0) return;
  charged_ = {charged.subjects(), charged.rows().receipts(), charged.source};
}

RefundClaim::~RefundClaim() {
  if (!is_used_) of(decision_).claimed.fetch_and(~taken_);
}

void make_final(PyObject* decision) { of(decision).claimed.store(~ChargeBits{0}, std::memory_order_relaxed); }

DecisionParts parts_of(PyObject* decision) {
  DecisionObject& found = of(checked_decision(decision));
  return {found.answer, found.time, found.cost, found.source, found.subjects(), found.rows()};
}

}  // namespace overlimit::python
