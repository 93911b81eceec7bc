// Decisions of a memory store that has run out of room: counted by the limiters, and worth one warning.
#pragma once

#include <Python.h>

#include <span>

#include "overlimit/store.hpp"

namespace overlimit::python {

struct Binding;

/// Counts a decision once for each limiter that has one of the crowded charges (see Store::decide). At a
/// limiter's first it warns of the store, unless that was done before.
void count_crowded(std::span<Binding* const> asking, std::span<const Charge> charges, ChargeBits crowded,
                   PyObject* store);

}  // namespace overlimit::python
