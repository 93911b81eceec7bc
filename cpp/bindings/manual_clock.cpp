#include "clock.hpp"

#include <structmember.h>

#include <cstddef>
#include <new>

#include "functions.hpp"
#include "module.hpp"

namespace overlimit::python {
namespace {

// A heap type, so that reading it costs nothing.
struct ManualClockObject {
  PyObject_HEAD PyObject* weak_references;
  ManualClock clock;
};

PyTypeObject* manual_clock_type = nullptr;

ManualClock& clock_of(PyObject* self) { return reinterpret_cast<ManualClockObject*>(self)->clock; }

PyObject* as_object(PyTypeObject* type) { return reinterpret_cast<PyObject*>(type); }

PyObject* create(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* self = type->tp_alloc(type, 0);
  if (self != nullptr) new (&clock_of(self)) ManualClock();
  return self;
}

int initialise(PyObject* self, PyObject* arguments, PyObject* keywords) {
  return guarded(-1, [&] {
    static const char* names[] = {"start", nullptr};
    PyObject* start = nullptr;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|O:ManualClock", const_cast<char**>(names),
                                     &start)) {
      throw PythonError{};
    }
    clock_of(self).set(start == nullptr ? Instant{} : instant_from(start, "start"));
    return 0;
  });
}

void destroy_manual_clock(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_ClearWeakRefs(self);
  clock_of(self).~ManualClock();
  type->tp_free(self);
  Py_DECREF(type);
}

Instant now(PyObject* self) { return clock_of(self).now(); }

void advance(PyObject* self, PyObject* seconds) { clock_of(self).advance(duration_from(seconds, "seconds")); }

void set(PyObject* self, PyObject* seconds) { clock_of(self).set(instant_from(seconds, "seconds")); }

PyObject* represent(PyObject* self) {
  return PyUnicode_FromFormat("ManualClock(start=%R)", required(returned(now(self))).get());
}

PyMethodDef manual_clock_methods[] = {
    method<now>("now", "now($self, /)\n--\n\nThe reading, in seconds since the Unix epoch."),
    method<advance>(
        "advance",
        "advance($self, seconds, /)\n--\n\nMove by so many seconds; a negative number moves back."),
    method<set>("set", "set($self, seconds, /)\n--\n\nMove to an instant, in seconds since the Unix epoch."),
    {}};

PyMemberDef manual_clock_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(ManualClockObject, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyType_Slot manual_clock_slots[] = {
    {Py_tp_doc,
     const_cast<char*>(
         "ManualClock(start=0.0)\n--\n\nA clock that stands still until it is told to move.\n\n"
         "It keeps whole microseconds; ``start`` is in seconds since the Unix epoch. Thread-safe.\n"
         "Raises ValueError for an instant outside [0, 2**53 - 2**50) microseconds.")},
    {Py_tp_new, reinterpret_cast<void*>(create)},
    {Py_tp_init, reinterpret_cast<void*>(initialise)},
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy_manual_clock)},
    {Py_tp_repr, unary<represent>()},
    {Py_tp_methods, manual_clock_methods},
    {Py_tp_members, manual_clock_members},
    {0, nullptr}};

PyType_Spec manual_clock_spec = {"overlimit._core.ManualClock", sizeof(ManualClockObject), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, manual_clock_slots};

}  // namespace

void add_manual_clock(PyObject* module) { manual_clock_type = add_type(module, manual_clock_spec); }

// A subclass may tell the time its own way.
ManualClock* manual_clock_in(PyObject* object) {
  if (!PyObject_TypeCheck(object, manual_clock_type)) return nullptr;
  const Object theirs = required(PyObject_GetAttrString(as_object(Py_TYPE(object)), "now"));
  const Object ours = required(PyObject_GetAttrString(as_object(manual_clock_type), "now"));
  return theirs.get() == ours.get() ? &clock_of(object) : nullptr;
}

}  // namespace overlimit::python
