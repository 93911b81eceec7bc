// How metrics are counted, for overlimit.metrics, which reads slots of any process.
#include <pybind11/stl.h>

#include <string>

#include "counters.hpp"
#include "module.hpp"

namespace overlimit::python {
namespace {

template <std::size_t size>
pybind11::tuple seconds_of(const std::array<Duration, size>& bounds) {
  std::array<double, size> seconds{};
  std::ranges::transform(bounds, seconds.begin(), &Duration::seconds);
  return pybind11::cast(seconds);
}

}  // namespace

void bind_counter_layout(pybind11::module_& module) {
  pybind11::dict places;
  for (const Counted& each : kCounted) places[pybind11::cast(each.name)] = place_of(each);
  module.attr("_PLACES") = places;
  module.attr("_SLOT") =
      "=" + std::to_string(CounterSlot::kKeyBytes) + "s" + std::to_string(CounterSlot::kNumbers) + "Q";
  module.attr("_STATUSES") = pybind11::cast(kStatusNames);
  module.attr("_SOURCES") = pybind11::cast(kSourceNames);
  module.attr("_FAILURES") = pybind11::cast(kFailureNames);
  module.attr("_BREAKER_STATES") = pybind11::cast(kBreakerNames);
  module.attr("_LATENCY_BOUNDS") = seconds_of(kLatencyBounds);
  module.attr("_WAIT_BOUNDS") = seconds_of(kWaitBounds);
}

}  // namespace overlimit::python
