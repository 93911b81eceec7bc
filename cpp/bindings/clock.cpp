#include "clock.hpp"

#include <structmember.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <new>
#include <string>

#include "errors.hpp"

namespace overlimit::python {
namespace {

bool is_time_time(PyObject* clock) {
  const Object module = required(PyImport_ImportModule("time"));
  const Object function = required(PyObject_GetAttrString(module.get(), "time"));
  return function.get() == clock;
}

class SystemClock final : public Clock {
 public:
  Instant now() override { return system_now(); }
};
SystemClock system_clock;

std::int64_t micros_within(PyObject* seconds, const char* what, const char* range) {
  double value = PyFloat_AsDouble(seconds);
  if (value == -1.0 && PyErr_Occurred() != nullptr) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) != 0) {
      PyErr_Clear();
      raise_about(PyExc_TypeError, (std::string(what) + " must be a number of seconds, not %U").c_str(),
                  seconds);
    }
    if (PyErr_ExceptionMatches(PyExc_OverflowError) == 0) throw PythonError{};
    PyErr_Clear();
    value = std::numeric_limits<double>::infinity();
  }
  if (!(std::fabs(value) < 9e9)) {
    raise_about(PyExc_ValueError, (std::string(what) + " must be " + range + ", not %U").c_str(), seconds);
  }
  // The whole seconds and the fraction are exact; only the fraction is rounded.
  const double whole = std::floor(value);
  return static_cast<std::int64_t>(whole) * 1'000'000 + std::llround((value - whole) * 1e6);
}

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

void destroy(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_ClearWeakRefs(self);
  clock_of(self).~ManualClock();
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* now(PyObject* self, PyObject*) {
  return PyFloat_FromDouble(clock_of(self).now().since_epoch().seconds());
}

PyObject* advance(PyObject* self, PyObject* seconds) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    clock_of(self).advance(duration_from(seconds, "seconds"));
    return Py_NewRef(Py_None);
  });
}

PyObject* set(PyObject* self, PyObject* seconds) {
  return guarded(static_cast<PyObject*>(nullptr), [&] {
    clock_of(self).set(instant_from(seconds, "seconds"));
    return Py_NewRef(Py_None);
  });
}

PyObject* represent(PyObject* self) {
  const Object seconds = Object::steal(now(self, nullptr));
  return seconds ? PyUnicode_FromFormat("ManualClock(start=%R)", seconds.get()) : nullptr;
}

PyMethodDef methods[] = {
    {"now", now, METH_NOARGS, "now($self, /)\n--\n\nThe reading, in seconds since the Unix epoch."},
    {"advance", advance, METH_O,
     "advance($self, seconds, /)\n--\n\nMove by so many seconds; a negative number moves back."},
    {"set", set, METH_O,
     "set($self, seconds, /)\n--\n\nMove to an instant, in seconds since the Unix epoch."},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(ManualClockObject, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyType_Slot slots[] = {
    {Py_tp_doc,
     const_cast<char*>(
         "ManualClock(start=0.0)\n--\n\nA clock that stands still until it is told to move.\n\n"
         "It keeps whole microseconds; ``start`` is in seconds since the Unix epoch. Thread-safe.\n"
         "Raises ValueError for an instant outside [0, 2**53 - 2**50) microseconds.")},
    {Py_tp_new, reinterpret_cast<void*>(create)},
    {Py_tp_init, reinterpret_cast<void*>(initialise)},
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
    {Py_tp_repr, reinterpret_cast<void*>(represent)},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {0, nullptr}};

PyType_Spec spec = {"overlimit._core.ManualClock", sizeof(ManualClockObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

// The clock inside, or nullptr for any other object. A subclass may tell the time its own way.
ManualClock* manual_clock_in(PyObject* object) {
  if (!PyObject_TypeCheck(object, manual_clock_type)) return nullptr;
  const Object theirs = required(PyObject_GetAttrString(as_object(Py_TYPE(object)), "now"));
  const Object ours = required(PyObject_GetAttrString(as_object(manual_clock_type), "now"));
  return theirs.get() == ours.get() ? &clock_of(object) : nullptr;
}

}  // namespace

Duration duration_from(PyObject* seconds, const char* what) {
  return Duration(micros_within(seconds, what, "a number of seconds below 9e9"));
}

Instant instant_from(PyObject* seconds, const char* what) {
  return Instant(micros_within(seconds, what, "between 1970 and 2219, in seconds since the Unix epoch"));
}

ClockSource::ClockSource(PyObject* clock) : object_(Object::borrow(clock)) {
  if (clock == Py_None) return;
  manual_ = manual_clock_in(clock);
  if (manual_ != nullptr) {
    kind_ = Kind::manual;
  } else if (is_time_time(clock)) {
    kind_ = Kind::system;
  } else {
    kind_ = Kind::callable;
    latest_ = std::make_unique<std::atomic<Instant>>(Instant{});
    reader_ = Object::steal(PyObject_GetAttrString(clock, "now"));
    if (!reader_) {
      if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) throw PythonError{};
      PyErr_Clear();
    }
    // A callable clock may have data of that name.
    if (!reader_ || PyCallable_Check(reader_.get()) == 0) reader_ = Object::borrow(clock);
    if (PyCallable_Check(reader_.get()) == 0) {
      raise_about(
          PyExc_TypeError,
          "clock must be a function such as time.time or an object with now(), in seconds since the Unix "
          "epoch, not %U",
          clock);
    }
  }
}

Clock* ClockSource::for_call(std::optional<ReadBeforehand>& beforehand) const {
  switch (kind_) {
    case Kind::store:
      return nullptr;
    case Kind::manual:
      return manual_;
    case Kind::system:
      return &system_clock;
    case Kind::callable:
      break;
  }
  return &beforehand.emplace(reader_.get(), *latest_);
}

ReadBeforehand::ReadBeforehand(PyObject* reader, std::atomic<Instant>& latest)
    : latest_(latest), latest_before_(latest) {
  const Object reading = required(PyObject_CallNoArgs(reader));
  reading_ = checked_instant(instant_from(reading.get(), "what the clock returns"));
}

Instant ReadBeforehand::now() {
  Instant latest = latest_.load(std::memory_order_relaxed);
  Instant now{};
  do {
    now = latest == latest_before_ ? reading_ : std::max(reading_, latest);
  } while (!latest_.compare_exchange_weak(latest, now, std::memory_order_relaxed));
  return now;
}

bool ClockSource::is_same(const ClockSource& other) const {
  PyObject* const mine = object_.get();
  PyObject* const theirs = other.object_.get();
  if (mine == theirs) return true;
  if (mine == nullptr || theirs == nullptr || !PyMethod_Check(mine) || !PyMethod_Check(theirs)) return false;
  return PyMethod_GET_SELF(mine) == PyMethod_GET_SELF(theirs) &&
         PyMethod_GET_FUNCTION(mine) == PyMethod_GET_FUNCTION(theirs);
}

void ClockSource::clear() {
  kind_ = Kind::store;
  object_ = Object();
  reader_ = Object();
}

bool add_manual_clock(PyObject* module) {
  manual_clock_type = reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &spec, nullptr));
  return manual_clock_type != nullptr && PyModule_AddType(module, manual_clock_type) == 0;
}

}  // namespace overlimit::python
