// Clocks as Python gives them, and seconds as Python speaks of them.
#pragma once

#include <Python.h>

#include <atomic>
#include <memory>
#include <optional>

#include "object.hpp"
#include "overlimit/time.hpp"

namespace overlimit::python {

/// Seconds (an int or a float) to the nearest microsecond. TypeError for another type; ValueError naming
/// `what` when it is NaN, infinite or too large to be exact; both thrown as PythonError.
Duration duration_from(PyObject* seconds, const char* what);

/// The same of an instant, which may be out of range by a few years still.
Instant instant_from(PyObject* seconds, const char* what);

/// A clock of Python for one call. It is read beforehand, since it may do anything, even call the limiter,
/// which must not happen while a store holds its locks. Calls that were decided by the same source between
/// that reading and this call are not preceded: the latest instant of theirs is taken if it is later.
class ReadBeforehand final : public Clock {
 public:
  /// `latest` is the instant of the last call decided. Throws PythonError.
  ReadBeforehand(PyObject* reader, std::atomic<Instant>& latest);
  Instant now() override;

 private:
  std::atomic<Instant>& latest_;
  Instant latest_before_;
  Instant reading_;
};

/// Where a limiter's calls get their time from.
class ClockSource {
 public:
  ClockSource() = default;
  /// None: the store's own clock. TypeError for what is no clock, thrown as PythonError.
  explicit ClockSource(PyObject* clock);

  /// The clock of one call, or nullptr for the store's own; one of Python is read now, into `beforehand`.
  /// ValueError for a reading that is NaN, infinite or out of range, as PythonError.
  Clock* for_call(std::optional<ReadBeforehand>& beforehand) const;
  [[nodiscard]] bool is_system() const { return kind_ == Kind::system; }
  /// Whether both read one clock: the same object, or the same method of one.
  [[nodiscard]] bool is_same(const ClockSource& other) const;
  [[nodiscard]] PyObject* object() const { return object_.get(); }
  /// What is called for a reading, as long as it's kept: for the garbage collector.
  [[nodiscard]] PyObject* reader() const { return reader_.get(); }
  void clear();

 private:
  enum class Kind : std::uint8_t { store, manual, system, callable };
  Kind kind_ = Kind::store;
  Object object_;
  Object reader_;
  ManualClock* manual_ = nullptr;
  std::unique_ptr<std::atomic<Instant>> latest_;
};

/// overlimit.ManualClock: a heap type, so that reading it costs nothing. False with a Python exception set.
bool add_manual_clock(PyObject* module);

}  // namespace overlimit::python
