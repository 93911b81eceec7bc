#include "clock.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "errors.hpp"
#include "manual_clock.hpp"

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

}  // namespace overlimit::python
