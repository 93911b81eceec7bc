#include "overlimit/decision.hpp"

namespace overlimit {
namespace {

unsigned bit_of(Role role) { return 1U << unsigned(role); }

/// In which roles a call has charges, a bit each, and how many rows they have.
struct Contents {
  unsigned roles = 0;
  std::size_t rows = 0;

  explicit Contents(std::span<const Charge> charges) {
    for (const Charge& charge : charges) {
      roles |= bit_of(charge.role);
      rows += charge.policy->size();
    }
  }
  [[nodiscard]] bool has(Role role) const { return (roles & bit_of(role)) != 0; }
  [[nodiscard]] bool has_only(Role role) const { return roles == bit_of(role); }
};

/// The rows of the charges in one role, in the order of the charges.
class RowsOfRole {
 public:
  RowsOfRole(std::span<const Charge> charges, const Contents& contents, Role role, const Rows& rows)
      : charges_(charges), role_(role), rows_(rows), count_(contents.has_only(role) ? contents.rows : 0) {}

  template <class Visit>
  [[gnu::always_inline]] void each(const Visit& visit) const {
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

  [[nodiscard, gnu::noinline]] Status worst() const {
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

/// As if all of them admit; the status tells whether they do.
Decision fold_admitting(const RowsOfRole& speaking, const Rows& rows) {
  constexpr std::size_t kNone = SIZE_MAX;
  Status status = Status::ok;
  std::int64_t least = INT64_MAX;
  Duration delay{};
  std::size_t binding = kNone;
  speaking.each([&](std::size_t row) {
    status = std::max(status, rows.status[row]);
    delay = max(delay, rows.delay[row]);
    const std::int64_t remaining = rows.remaining[row];
    if (remaining > least) return;
    if (remaining == least && binding != kNone && !speaking.prevails(row, binding)) return;
    least = remaining;
    binding = row;
  });
  if (binding == kNone) return {.remaining = INT64_MAX};
  return {status, least, {}, rows.reset_after[binding], delay, binding};
}

[[gnu::noinline]] Decision fold_refused(const RowsOfRole& speaking, Status status, const Rows& rows) {
  Decision decision{.status = status, .remaining = INT64_MAX, .retry_after = Duration(-1)};
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
  const Contents contents(charges);
  const auto in = [&](Role role) { return RowsOfRole(charges, contents, role, rows); };
  if (contents.has(Role::always) && in(Role::always).worst() == Status::ok) {
    in(Role::always).each([&](std::size_t row) { rows.retry_after[row] = {}; });
  }
  if (contents.has(Role::on_refusal)) {
    const Status worst = in(Role::on_refusal).worst();
    if (worst != Status::ok) return fold_refused(in(Role::on_refusal), worst, rows);
  }
  const Role role = contents.has(Role::enforce)  ? Role::enforce
                    : contents.has(Role::always) ? Role::always
                                                 : Role::shadow;
  const RowsOfRole speaking = in(role);
  Decision decision = fold_admitting(speaking, rows);
  if (decision.status == Status::ok) return decision;
  decision = fold_refused(speaking, decision.status, rows);
  // A refusal that a meta limit counted may have used that up: then it takes longer to succeed.
  if (contents.has(Role::on_refusal)) {
    in(Role::on_refusal).each([&](std::size_t row) {
      decision.retry_after = max(decision.retry_after, rows.retry_after[row]);
    });
  }
  return decision;
}

}  // namespace overlimit
