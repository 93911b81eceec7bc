// A call on the values of its keys, as they were found: decided as the scripts do.
#pragma once

#include <memory_resource>
#include <optional>
#include <span>
#include <vector>

#include "overlimit/pair.hpp"
#include "values/value.hpp"

namespace overlimit::values {

/// The value of a charge's key, and the instant at which that is decided.
struct FoundKey {
  const Value* value;
  Instant now;
};

/// False for a call that looks, spends nothing or asks an enforced limit for more than it ever grants.
bool may_charge(const Call& call);

class CallOnValues {
 public:
  /// A key per charge. Borrows all.
  CallOnValues(const Call& call, std::span<const FoundKey> keys,
               std::pmr::memory_resource* memory = std::pmr::get_default_resource());

  [[nodiscard]] bool passes() const { return resolution_.passes; }
  [[nodiscard]] bool are_all_locked() const;
  /// Whether an enforced charge that does not pass still does not at the later instants of these keys, if
  /// nothing is written meanwhile.
  [[nodiscard]] bool still_refuses(std::span<const FoundKey> later) const;
  /// Whether it charges or locks anything.
  [[nodiscard]] bool writes() const;
  /// Fills the rows, those of a peek as if it charged. `creations`: per charge when its key was created; none
  /// if nothing was written.
  void show(std::span<const Instant> creations, const Rows& rows) const;
  /// Fills the rows as if all of it were refused, whatever is.
  void show_refused(const Rows& rows) const;
  /// The value of a charge's key once the call is written, under a key of this creation; nothing if the call
  /// leaves it as it is.
  [[nodiscard]] std::optional<Value> written(std::size_t k, Instant created_at) const;

 private:
  [[nodiscard]] bool charges(std::size_t k) const;
  [[nodiscard]] std::optional<Lock> set_lock(std::size_t k) const;
  void fill_as_charged(const CompiledLimit& each, std::size_t k, Instant created_at, const Rows& rows,
                       std::size_t row) const;
  void examine_all();
  [[nodiscard]] std::size_t first_row_of(std::size_t k) const;

  const Call& call_;
  std::span<const FoundKey> keys_;
  std::pmr::vector<ExaminedPair> pairs_;
  std::pmr::vector<std::optional<Lock>> locks_;  // per charge, as far as remembered
  std::pmr::vector<Status> verdicts_;            // per charge
  Resolution resolution_;
};

}  // namespace overlimit::values
