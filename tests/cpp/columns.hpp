// The columns that a store or a test fills, one row per pair.
#pragma once

#include <cstddef>
#include <vector>

#include "overlimit/store.hpp"
#include "times.hpp"

namespace overlimit::testing {

struct Columns {
  explicit Columns(std::size_t pairs)
      : status(pairs),
        remaining(pairs),
        retry_after(pairs),
        reset_after(pairs),
        delay(pairs),
        receipt(pairs) {}

  Rows rows() {
    return {status.data(), remaining.data(), retry_after.data(), reset_after.data(),
            delay.data(),  receipt.data(),   status.size()};
  }

  std::vector<Status> status;
  std::vector<std::int64_t> remaining;
  std::vector<Duration> retry_after;
  std::vector<Duration> reset_after;
  std::vector<Duration> delay;
  std::vector<Receipt> receipt;
};

}  // namespace overlimit::testing
