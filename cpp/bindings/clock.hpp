// Clocks as Python gives them, and seconds as Python speaks of them.
#pragma once

#include <Python.h>

#include <atomic>
#include <memory>
#include <optional>

#include "free_threading.hpp"
#include "object.hpp"
#include "overlimit/call.hpp"
#include "overlimit/time.hpp"

namespace overlimit::python {

/// Seconds (an int or a float) to the nearest microsecond. TypeError for another type; ValueError naming
/// `what` when it is NaN, infinite or too large to be exact; both thrown as PythonError.
Duration duration_from(PyObject* seconds, const char* what);

/// Seconds as they are given to a store as a timeout; nothing for None. Throws as duration_from() does.
std::optional<Duration> store_timeout_from(PyObject* seconds);

/// The same of an instant, which may be out of range by a few years still.
Instant instant_from(PyObject* seconds, const char* what);

/// A clock of Python for one call. It is read beforehand, since it may do anything, even call the limiter,
/// which must not happen while a store holds its locks. Calls that were decided by the same source between
/// that reading and this call are not preceded: the latest instant of theirs is taken if it is later.
class ReadBeforehand final : public Clock {
 public:
  /// `latest` is the instant of the last call decided. Throws what `read` throws.
  template <class Read>
  ReadBeforehand(std::atomic<Instant>& latest, const Read& read)
      : latest_(latest), latest_before_(latest), reading_(read()) {}
  Instant now() override;

 private:
  std::atomic<Instant>& latest_;
  Instant latest_before_;
  Instant reading_;
};

/// Where a limiter's calls get their time from.
class ClockSource {
 public:
  /// None: the store's own clock, or while there is one the clock that all such limiters follow. A
  /// ManualClock, time.time, an object with now(), or a callable. TypeError for anything else, thrown as
  /// PythonError.
  explicit ClockSource(PyObject* clock);
  ~ClockSource();
  ClockSource(const ClockSource&) = delete;
  ClockSource& operator=(const ClockSource&) = delete;

  /// Gives a call its clock, or none when the store is to use its own; one of Python is read now, into
  /// `beforehand`. ValueError naming the clock when its reading is NaN, infinite or out of range, thrown as
  /// PythonError.
  void set_clock(Call& call, std::optional<ReadBeforehand>& beforehand) const {
    if (kind_ != Kind::store) set_injected(call, beforehand);
  }
  /// Whether it is time.time, whoever has patched that.
  [[nodiscard]] bool is_time_time() const { return kind_ == Kind::time_time; }
  /// Whether both read one clock: the same object, or the same method of one.
  [[nodiscard]] bool is_same(const ClockSource& other) const;
  [[nodiscard]] PyObject* object() const { return object_.get(); }
  /// What is called for a reading, as long as it's kept: for the garbage collector.
  [[nodiscard]] PyObject* reader() const { return reader_.get(); }
  void clear();

  /// Has all sources that were given None follow a ManualClock or time.time, whoever has patched that, those
  /// made from now on too; with None again none. TypeError for another clock, thrown as PythonError. Calls
  /// under way go on by the clock they began with.
  static void follow(PyObject* clock);

 private:
  enum class Kind : std::uint8_t { store, manual, followed, time_time, callable };
  void set_injected(Call& call, std::optional<ReadBeforehand>& beforehand) const;
  static void set_followed(Call& call, std::optional<ReadBeforehand>& beforehand);

  Shared<Kind> kind_ = Kind::store;
  Object object_;
  Object reader_;
  ManualClock* manual_ = nullptr;
  std::unique_ptr<std::atomic<Instant>> latest_;
};

/// The clock inside a ManualClock, or nullptr for any other object.
ManualClock* manual_clock_in(PyObject* object);

}  // namespace overlimit::python
