// A call as it is decided at an instant: where a policy follows a calendar, with the plan of that day.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "overlimit/store.hpp"

namespace overlimit {

class DatedCall {
 public:
  /// May ask the calendar (see Plan::dated).
  DatedCall(const Call& call, Micros now) : call_(call) {
    const auto has_calendar = [](const Charge& charge) { return charge.plan->has_calendar(); };
    if (std::ranges::none_of(call.charges, has_calendar)) return;
    charges_.assign(call.charges.begin(), call.charges.end());
    for (Charge& charge : charges_) {
      if (!has_calendar(charge)) continue;
      plans_.push_back(charge.plan->dated(now));
      charge.plan = plans_.back().get();
    }
    call_.charges = charges_;
  }
  DatedCall(const DatedCall&) = delete;
  DatedCall& operator=(const DatedCall&) = delete;

  const Call& operator*() const { return call_; }

 private:
  Call call_;
  std::vector<Charge> charges_;
  std::vector<std::shared_ptr<const Plan>> plans_;
};

}  // namespace overlimit
