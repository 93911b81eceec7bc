// The charges of one call under several limiters.
#pragma once

#include <Python.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory_resource>
#include <vector>

#include "asking.hpp"
#include "clock.hpp"
#include "collected.hpp"
#include "limiter.hpp"
#include "object.hpp"

namespace overlimit::python {

inline void check_same_store(const Binding& first, const Binding& other) {
  if (first.store != other.store) {
    raise_value_error(
        "hit_all decides in one store, and these limiters are on different ones: give them the same store=");
  }
  if (!first.clock.is_same(other.clock)) {
    raise_value_error(
        "hit_all decides at one instant, and these limiters have different clocks: give them the same "
        "clock=");
  }
}

/// A charge as it is given. All borrowed.
struct GivenCharge {
  PyObject* limiter = nullptr;
  PyObject* identifier = nullptr;
  PyObject* cost = nullptr;
  Role role = Role::enforce;
};

/// The charges of a call, and the limiters they come from, each once. Keeps the policies alive; borrows the
/// rest.
class CollectedAll {
  // For a few charges nothing is allocated.
  std::array<std::byte, 512> room;
  std::pmr::monotonic_buffer_resource memory{room.data(), room.size()};

 public:
  Collected charges;
  std::pmr::vector<Object> kept{&memory};
  std::pmr::vector<Binding*> asking{&memory};
  Object cost = Object::steal(checked(PyLong_FromLong(0)));

  void add(const GivenCharge& given) {
    const WholeCost whole(given.cost);  // first of all, as reading it may change the limiter
    Binding& binding = binding_of(given.limiter);
    if (!asking.empty()) check_same_store(*asking.front(), binding);
    if (std::ranges::find(asking, &binding) == asking.end()) asking.push_back(&binding);
    kept.push_back(Object::borrow(binding.policy.get()));
    charges.add(kept.back().get(), given.identifier, whole.units(), given.role);
    if (charges.repeats())
      raise_value_error(
          "the same policy and identifier occur twice: give one charge with the sum as its cost");
    if (charges.contradicts()) {
      raise_value_error(
          "two limiters of one name have different limits or local shares: give one of them another name=");
    }
    if (given.role != Role::on_refusal)
      cost = Object::steal(checked(PyNumber_Add(cost.get(), whole.number())));
  }
};

}  // namespace overlimit::python
