#include "crowded.hpp"

#include <bit>

#include "limiter.hpp"
#include "object.hpp"
#include "policy.hpp"

namespace overlimit::python {
namespace {

bool has_one_of(const Binding& binding, std::span<const Charge> charges, ChargeBits crowded) {
  const PolicyIdentity& own = plan_of(binding.policy.get()).identity();
  for (ChargeBits left = crowded; left != 0; left &= left - 1) {
    if (charges[std::size_t(std::countr_zero(left))].plan->identity() == own) return true;
  }
  return false;
}

void warn_of_crowded_store(PyObject* store) {
  const Object module = Object::steal(checked(PyImport_ImportModule("overlimit.crowding")));
  Object::steal(checked(PyObject_CallMethod(module.get(), "warn_of_crowded_store", "O", store)));
}

}  // namespace

void count_crowded(std::span<Binding* const> asking, std::span<const Charge> charges, ChargeBits crowded,
                   PyObject* store) {
  bool is_first = false;
  for (Binding* const binding : asking) {
    if (!has_one_of(*binding, charges, crowded)) continue;
    is_first = binding->stats.crowded++ == 0 || is_first;
  }
  if (is_first) warn_of_crowded_store(store);
}

}  // namespace overlimit::python
