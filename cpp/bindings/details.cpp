// overlimit.Decision.details: the rows of a decision as a sequence. Each is made when it is first read. What
// a tuple does besides, Python has a tuple of them do (overlimit.decisions).
#include <algorithm>
#include <array>
#include <atomic>
#include <vector>

#include "decision.hpp"
#include "hooks.hpp"
#include "module.hpp"

namespace overlimit::python {
namespace {

// Nothing in it ever changes, so threads may share it.
struct DetailsObject {
  PyObject_HEAD DecisionObject* decision;
};

PyTypeObject* details_type = nullptr;

KeptObjects<DetailsObject> kept_details;

DecisionObject& decision_of(PyObject* self) { return *reinterpret_cast<DetailsObject*>(self)->decision; }

Py_ssize_t size_of(const DecisionObject& decision) { return Py_ssize_t(decision.row_count); }

/// A row, the subject it is about, and the place of its limit as the caller gave them.
struct Pair {
  const Subject& subject;
  std::size_t limit;
  std::size_t row;
};

// Rows are in canonical order; details are in the order the caller gave the limits.
Pair pair_at(DecisionObject& decision, std::size_t place) {
  std::size_t first = 0;
  const Subject* subject = decision.subjects().data();
  std::span limits = compiled(subject->policy).limits();
  while (place - first >= limits.size()) {
    first += limits.size();
    limits = compiled((++subject)->policy).limits();
  }
  const std::size_t limit = place - first;
  const auto found = std::ranges::find(limits, limit, &CompiledLimit::place);
  return {*subject, limit, first + std::size_t(found - limits.begin())};
}

Object seconds(Duration duration) { return required(PyFloat_FromDouble(duration.seconds())); }

Object new_detail(DecisionObject& decision, Py_ssize_t place) {
  const auto [subject, limit, row] = pair_at(decision, std::size_t(place));
  const Rows rows = decision.rows();
  PyObject* const limits = limits_of(subject.policy);
  return named_tuple(detail_type(),
                     std::array{Object::borrow(subject.identifier),
                                Object::borrow(PyTuple_GET_ITEM(limits, Py_ssize_t(limit))),
                                Object::borrow(name_of(subject.policy)),
                                Object::borrow(rows.status[row] == Status::ok ? Py_True : Py_False),
                                required(PyLong_FromLongLong(rows.remaining[row])),
                                seconds(rows.retry_after[row]), seconds(rows.reset_after[row])});
}

/// Sets what is not set yet, and returns what then is there: another thread, or code that the garbage
/// collector runs, may have been faster.
template <class Place>
PyObject* set_once(Place&& place, Object made) {
  PyObject* found = nullptr;
  return place.compare_exchange_strong(found, made.get(), std::memory_order_acq_rel) ? made.release() : found;
}

std::atomic_ref<PyObject*> slot(PyObject* tuple, Py_ssize_t place) {
  return std::atomic_ref(reinterpret_cast<PyTupleObject*>(tuple)->ob_item[place]);
}

// A tuple that Python does not see, so not all of it need be set.
PyObject* new_details_read(DecisionObject& decision) {
  Object tuple = required(PyTuple_New(size_of(decision)));
  PyObject_GC_UnTrack(tuple.get());
  return set_once(decision.details, std::move(tuple));
}

// Made when it is read, and kept for whoever reads it next (borrowed).
[[gnu::noinline]] PyObject* make_detail(DecisionObject& decision, Py_ssize_t place) {
  Object made = new_detail(decision, place);
  PyObject* const read = decision.details.load(std::memory_order_acquire);
  return set_once(slot(read != nullptr ? read : new_details_read(decision), place), std::move(made));
}

// One that was read before, or nullptr (borrowed).
PyObject* detail_read(DecisionObject& decision, Py_ssize_t place) {
  PyObject* const read = decision.details.load(std::memory_order_acquire);
  return read == nullptr ? nullptr : slot(read, place).load(std::memory_order_acquire);
}

Object detail_at(DecisionObject& decision, Py_ssize_t place) {
  PyObject* const read = detail_read(decision, place);
  return Object::borrow(read != nullptr ? read : make_detail(decision, place));
}

Py_ssize_t length(PyObject* self) { return size_of(decision_of(self)); }

PyObject* item(PyObject* self, Py_ssize_t place) {
  DecisionObject& decision = decision_of(self);
  if (place < 0 || place >= size_of(decision)) {
    PyErr_SetString(PyExc_IndexError, "details index out of range");
    return nullptr;
  }
  if (PyObject* const read = detail_read(decision, place)) return Py_NewRef(read);
  return guarded(static_cast<PyObject*>(nullptr), [&] { return Py_NewRef(make_detail(decision, place)); });
}

// What is no int, or out of all bounds, takes Python's own way.
PyObject* numbered(PyObject* self, PyObject* index) {
  Py_ssize_t place = PyLong_CheckExact(index) ? PyLong_AsSsize_t(index) : -1;
  if (place == -1) {
    PyErr_Clear();
    place = PyNumber_AsSsize_t(index, PyExc_IndexError);
    if (place == -1 && PyErr_Occurred() != nullptr) return nullptr;
  }
  return item(self, place < 0 ? place + length(self) : place);
}

// So many of them from one on, as a slice numbers them.
[[gnu::noinline]] Object sliced(PyObject* self, PyObject* slice) {
  DecisionObject& decision = decision_of(self);
  Py_ssize_t start = 0;
  Py_ssize_t stop = 0;
  Py_ssize_t step = 0;
  if (PySlice_Unpack(slice, &start, &stop, &step) < 0) throw PythonError{};
  const Py_ssize_t count = PySlice_AdjustIndices(size_of(decision), &start, &stop, step);
  std::vector<Object> details;
  for (Py_ssize_t i = 0; i < count; ++i) details.push_back(detail_at(decision, start + i * step));
  return tuple_of(details);
}

PyObject* subscript(PyObject* self, PyObject* index) {
  if (PyLong_CheckExact(index) || PyIndex_Check(index) != 0) return numbered(self, index);
  if (PySlice_Check(index)) return called<sliced>(self, {&index, 1});
  return PyErr_Format(PyExc_TypeError,
                      "details are chosen by a number or a slice, such as details[0], not %.100s",
                      Py_TYPE(index)->tp_name);
}

void destroy_details(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  auto& details = *reinterpret_cast<DetailsObject*>(self);
  Py_DECREF(details.decision);
  if (kept_details.keep(details)) return;
  PyObject_Free(self);
  Py_DECREF(type);
}

PyType_Slot details_slots[] = {
    {Py_tp_doc,
     const_cast<char*>("The rows of a Decision: like a tuple, but each is made when it is first read.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy_details)},
    {Py_tp_iter, reinterpret_cast<void*>(PySeqIter_New)},
    {Py_mp_length, reinterpret_cast<void*>(length)},
    {Py_mp_subscript, reinterpret_cast<void*>(subscript)},
    {Py_sq_length, reinterpret_cast<void*>(length)},
    {Py_sq_item, reinterpret_cast<void*>(item)},
    {0, nullptr}};

PyType_Spec details_spec = {"overlimit._core.Details", sizeof(DetailsObject), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_SEQUENCE,
                            details_slots};

}  // namespace

void add_details(PyObject* module) { details_type = add_type(module, details_spec); }

PyObject* new_details(PyObject* decision) {
  DetailsObject* details = kept_details.take();
  if (details == nullptr) details = PyObject_New(DetailsObject, details_type);
  PyObject* const made = checked(reinterpret_cast<PyObject*>(details));
  details->decision = reinterpret_cast<DecisionObject*>(Py_NewRef(decision));
  return made;
}

}  // namespace overlimit::python
