#include "overlimit/decision.hpp"

namespace overlimit {
namespace {

unsigned bit_of(Role role) { return 1U << unsigned(role); }

/// The rows of the charges in one role, in the order of the charges.
class RowsOfRole {
 public:
  RowsOfRole(std::span<const Charge> charges, Role role, const Rows& rows, bool are_all)
      : charges_(charges), role_(role), rows_(rows), count_(are_all ? pairs_of(charges) : 0) {}

  template <class Visit>
  void each(const Visit& visit) const {
    if (count_ > 0) [[likely]] {
      for (std::size_t row = 0; row < count_; ++row) visit(row);
      return;
    }
    std::size_t row = 0;
    for (const Charge& charge : charges_) {
      const std::size_t end = row + charge.policy->size();
      for (; charge.role == role_ && row < end; ++row) visit(row);
      row = end;
    }
  }

  [[nodiscard]] Status worst() const {
    Status status = Status::ok;
    each([&](std::size_t row) { status = std::max(status, rows_.status[row]); });
    return status;
  }

  /// Whether of two rows that are equally urgent the later one decides. Rows of one charge are in canonical
  /// order, and not as its limits were given.
  [[nodiscard]] bool prevails(std::size_t row, std::size_t before) const {
    if (rows_.reset_after[row] != rows_.reset_after[before])
      return rows_.reset_after[row] > rows_.reset_after[before];
    for (const Charge& charge : charges_) {
      const std::size_t limits = charge.policy->size();
      if (before < limits) {
        return row < limits && charge.policy->limits()[row].place < charge.policy->limits()[before].place;
      }
      row -= limits;
      before -= limits;
    }
    return false;
  }

 private:
  std::span<const Charge> charges_;
  Role role_;
  const Rows& rows_;
  std::size_t count_;  // of all rows, if these are all
};

Decision fold_admitted(const RowsOfRole& speaking, const Rows& rows) {
  constexpr std::size_t kNone = SIZE_MAX;
  Decision decision{.remaining = INT64_MAX, .binding_row = kNone};
  speaking.each([&](std::size_t row) {
    decision.delay = max(decision.delay, rows.delay[row]);
    const std::int64_t remaining = rows.remaining[row];
    if (remaining > decision.remaining) return;
    if (remaining == decision.remaining && decision.binding_row != kNone &&
        !speaking.prevails(row, decision.binding_row))
      return;
    decision.remaining = remaining;
    decision.binding_row = row;
  });
  if (decision.binding_row == kNone) return {.remaining = INT64_MAX};
  decision.reset_after = rows.reset_after[decision.binding_row];
  return decision;
}

Decision fold_refused(const RowsOfRole& speaking, const Rows& rows) {
  Decision decision{.remaining = INT64_MAX, .retry_after = Duration(-1)};
  speaking.each([&](std::size_t row) {
    decision.remaining = std::min(decision.remaining, rows.remaining[row]);
    const Duration retry_after = rows.retry_after[row];
    if (retry_after < decision.retry_after) return;
    if (retry_after == decision.retry_after && !speaking.prevails(row, decision.binding_row)) return;
    decision.retry_after = retry_after;
    decision.binding_row = row;
  });
  decision.reset_after = rows.reset_after[decision.binding_row];
  return decision;
}

}  // namespace

// Meta limits that are used up answer for the whole call; else the enforced charges do; a call without any
// speaks for itself.
Decision fold_many(std::span<const Charge> charges, const Rows& rows) {
  unsigned roles = 0;
  for (const Charge& charge : charges) roles |= bit_of(charge.role);
  const auto in = [&](Role role) { return RowsOfRole(charges, role, rows, roles == bit_of(role)); };
  const auto has = [&](Role role) { return (roles & bit_of(role)) != 0; };
  const RowsOfRole meta = in(Role::on_refusal);
  if (has(Role::on_refusal) && meta.worst() != Status::ok) {
    Decision decision = fold_refused(meta, rows);
    decision.status = meta.worst();
    return decision;
  }
  const Role role = has(Role::enforce) ? Role::enforce : has(Role::always) ? Role::always : Role::shadow;
  const RowsOfRole speaking = in(role);
  const Status status = speaking.worst();
  if (status == Status::ok) return fold_admitted(speaking, rows);
  Decision decision = fold_refused(speaking, rows);
  decision.status = status;
  // A refusal that a meta limit counted may have used that up: then it takes longer to succeed.
  if (has(Role::on_refusal)) {
    meta.each(
        [&](std::size_t row) { decision.retry_after = max(decision.retry_after, rows.retry_after[row]); });
  }
  return decision;
}

}  // namespace overlimit
