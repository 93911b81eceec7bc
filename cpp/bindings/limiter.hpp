// overlimit._core.Limiter, the base of overlimit.Limiter, on the C API.
#pragma once

#include <Python.h>

#include <memory>

#include "clock.hpp"
#include "object.hpp"
#include "on_error.hpp"
#include "overlimit/store.hpp"
#include "stats.hpp"

namespace overlimit::python {

/// What a limiter is bound to. Made once by __init__; later only the policy changes, with update(), and the
/// statistics.
struct Binding {
  static constexpr std::uint64_t kNotCalled = ~std::uint64_t{0};

  Object policy;
  Object store_object;
  std::shared_ptr<Store> store;  ///< the one inside the object
  ClockSource clock;
  Object on_decision;  ///< called with each decision, or None
  OnError on_error;
  PyObject* limiter;                        ///< whose binding it is, borrowed
  std::uint64_t made_after;                 ///< so many forks
  std::uint64_t called_after = kNotCalled;  ///< so many forks it was called last
  Stats stats{};
  bool is_cut_off = false;  ///< the store failed when last asked, and that was not raised
};

/// Adds the type and the functions to the module; false with a Python exception set.
bool add_limiter(PyObject* module);

/// The binding of a Limiter. RuntimeError for one whose __init__ was never called, TypeError for another
/// object, thrown as PythonError.
Binding& binding_of(PyObject* limiter);

/// To be called before each call to the store. At a limiter's first call it warns of limiters that share its
/// counts under other limits; after a fork its statistics start anew, and it warns, once per process, if its
/// state is in memory.
void notice_call(Binding& binding);

/// A call of these charges, asked now by the limiter's clock.
Call call_of(const Binding& binding, std::span<const Charge> charges);

}  // namespace overlimit::python
