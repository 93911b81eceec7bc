// Limiter(on_error=...): what a call answers when its store fails.
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>
#include <span>

#include "object.hpp"
#include "overlimit/decision.hpp"
#include "overlimit/errors.hpp"
#include "overlimit/store.hpp"

namespace overlimit::python {

struct CallCharges;
struct LimiterState;

/// From the most lenient to the strictest: where several limiters decide together, the strictest counts.
enum class OnError : std::uint8_t { allow, local, deny, raise };

/// TypeError for what is no str, ValueError for another one, thrown as PythonError.
OnError on_error_from(PyObject* name);
const char* name_of(OnError on_error);

/// What on_error=allow or deny answers while a store fails.
Decision answer_without_store(OnError on_error, const StoreError& error, const Store& store);

/// By the limiters' on_error; `raise` throws the error again. To be called while the error is handled.
Object decided_without_store(const StoreError& error, std::span<LimiterState* const> limiters,
                             const Call& call, const CallCharges& collected, PyObject* cost);

/// Logs a failure that is not raised, and remembers it until the store answers again.
void log_failure(const StoreError& error, std::span<LimiterState* const> limiters, OnError on_error);

void log_recovery(std::span<LimiterState* const> limiters);

/// The store object that decides in this process while this one fails, the same for all its limiters.
Object local_fallback_object(PyObject* store);
std::shared_ptr<Store> local_fallback_store(PyObject* store);

}  // namespace overlimit::python
