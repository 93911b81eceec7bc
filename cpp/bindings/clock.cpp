#include "clock.hpp"

#include "hooks.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>

#include "errors.hpp"
#include "functions.hpp"
#include "module.hpp"
#include "overlimit/forks.hpp"

namespace overlimit::python {
namespace {

PyObject* time_module = nullptr;
PyObject* real_time_time = nullptr;

// As everybody who calls it finds it: tests patch it.
Object present_time_time() { return required(PyObject_GetAttrString(time_module, "time")); }

bool is_time_time_function(PyObject* clock) {
  return clock == real_time_time || clock == present_time_time().get();
}

// Never destroyed: limiters may end after the interpreter.
struct Following {
  ForkSafeMutex mutex;                       // guards what follows, and whether each of them follows
  std::unordered_set<ClockSource*> sources;  // that have no clock of their own
  Object object;
  ManualClock* clock = nullptr;
  bool is_time_time = false;
  std::atomic<Instant> latest{Instant{}};
};
Following& following = *new Following;

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

Instant reading_of(PyObject* reader) {
  const RecursionGuard guard;
  const Object reading = required(PyObject_CallNoArgs(reader));
  return checked_instant(instant_from(reading.get(), "what the clock returns"));
}

// Of time.time, and whether that is this machine's real time: nobody has stopped or moved it.
Instant real_or_patched(bool& is_real) {
  const Instant before = system_now();
  const Instant reading = reading_of(present_time_time().get());
  is_real = before - kMicrosecond <= reading && reading <= system_now() + kMicrosecond;
  return reading;
}

std::int64_t steady_micros(PyObject*) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

PyMethodDef clock_functions[] = {
    method<[](PyObject*, PyObject* clock) { ClockSource::follow(clock); }>(
        "_follow_clock",
        "_follow_clock(clock, /)\n--\n\nHave limiters without a clock follow a ManualClock or "
        "time.time, or with None their stores'."),
    method<steady_micros>(
        "_steady_micros",
        "_steady_micros()\n--\n\nThe monotonic clock in microseconds, which nobody can patch.")};

}  // namespace

void add_clocks(PyObject* module) {
  time_module = checked(PyImport_ImportModule("time"));
  real_time_time = present_time_time().release();
  add_functions(module, clock_functions);
}

Duration duration_from(PyObject* seconds, const char* what) {
  return Duration(micros_within(seconds, what, "a number of seconds below 9e9"));
}

std::optional<Duration> store_timeout_from(PyObject* seconds) {
  if (seconds == Py_None) return std::nullopt;
  const Object micros = call_hook("timeout_us_given", seconds);
  return Duration(PyLong_AsLongLong(micros.get()));
}

Instant instant_from(PyObject* seconds, const char* what) {
  return Instant(micros_within(seconds, what, "between 1970 and 2219, in seconds since the Unix epoch"));
}

ClockSource::ClockSource(PyObject* clock) : object_(Object::borrow(clock)) {
  if (clock == Py_None) {
    const std::lock_guard lock(following.mutex);
    following.sources.insert(this);
    if (following.object) kind_ = Kind::followed;
    return;
  }
  manual_ = manual_clock_in(clock);
  if (manual_ != nullptr) {
    kind_ = Kind::manual;
  } else if (is_time_time_function(clock)) {
    kind_ = Kind::time_time;
    latest_ = std::make_unique<std::atomic<Instant>>(Instant{});
  } else {
    kind_ = Kind::callable;
    latest_ = std::make_unique<std::atomic<Instant>>(Instant{});
    reader_ = call_hook("limiter_reader", clock);
  }
}

ClockSource::~ClockSource() {
  const std::lock_guard lock(following.mutex);
  following.sources.erase(this);
}

void ClockSource::follow(PyObject* clock) {
  ManualClock* const manual = clock == Py_None ? nullptr : manual_clock_in(clock);
  const bool is_time_time = clock != Py_None && is_time_time_function(clock);
  if (clock != Py_None && manual == nullptr && !is_time_time)
    raise_about(PyExc_TypeError, "expected a ManualClock or time.time, not %U", clock);
  Object replaced = clock == Py_None ? Object() : Object::borrow(clock);
  const std::lock_guard lock(following.mutex);
  std::swap(following.object, replaced);
  following.clock = manual;
  following.is_time_time = is_time_time;
  for (ClockSource* source : following.sources) {
    source->kind_ = clock == Py_None ? Kind::store : Kind::followed;
  }
}

// The clock that all follow is read beforehand too: it may end before the call does.
void ClockSource::set_followed(Call& call, std::optional<ReadBeforehand>& beforehand) {
  {
    const std::lock_guard lock(following.mutex);
    if (following.clock != nullptr)
      call.clock = &beforehand.emplace(following.latest, [] { return following.clock->now(); });
    if (!following.is_time_time) return;  // or nothing until just now
  }
  call.clock = &beforehand.emplace(following.latest, [&] { return real_or_patched(call.system_clock); });
}

void ClockSource::set_injected(Call& call, std::optional<ReadBeforehand>& beforehand) const {
  switch (kind_) {
    case Kind::store:
      return;
    case Kind::manual:
      call.clock = manual_;
      return;
    case Kind::followed:
      return set_followed(call, beforehand);
    case Kind::time_time:
      call.clock = &beforehand.emplace(*latest_, [&] { return real_or_patched(call.system_clock); });
      return;
    case Kind::callable:
      call.clock = &beforehand.emplace(*latest_, [&] { return reading_of(reader_.get()); });
  }
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
  if (mine == theirs || (is_time_time() && other.is_time_time())) return true;
  if (mine == nullptr || theirs == nullptr || !PyMethod_Check(mine) || !PyMethod_Check(theirs)) return false;
  return PyMethod_GET_SELF(mine) == PyMethod_GET_SELF(theirs) &&
         PyMethod_GET_FUNCTION(mine) == PyMethod_GET_FUNCTION(theirs);
}

void ClockSource::clear() {
  {
    const std::lock_guard lock(following.mutex);
    following.sources.erase(this);
    kind_ = Kind::store;
  }
  object_ = Object();
  reader_ = Object();
}

}  // namespace overlimit::python
