#include "overlimit/decision.hpp"

#include <algorithm>
#include <tuple>

namespace overlimit {
namespace {

// Calls visit(row, charge index, planned limit) for every row of a call.
template <class Visit>
void for_each_row(std::span<const Charge> charges, const Visit& visit) {
  std::size_t row = 0;
  for (std::size_t i = 0; i < charges.size(); ++i) {
    for (const PlannedLimit& planned : charges[i].plan->limits()) visit(row++, i, planned);
  }
}

bool refuses(Status status) { return status != Status::ok; }

// Meta limits that are used up answer for the whole call; else the enforced charges do; a call of shadow
// charges alone speaks for itself.
Role speaking_role(std::span<const Charge> charges, const Rows& rows) {
  Role role = Role::shadow;
  for (const Charge& charge : charges) {
    if (charge.role == Role::enforce) role = Role::enforce;
  }
  for_each_row(charges, [&](std::size_t row, std::size_t i, const PlannedLimit&) {
    if (charges[i].role == Role::on_refusal && refuses(rows.status[row])) role = Role::on_refusal;
  });
  return role;
}

Status worst(std::span<const Charge> charges, const Rows& rows, Role role) {
  Status status = Status::ok;
  for_each_row(charges, [&](std::size_t row, std::size_t i, const PlannedLimit&) {
    if (charges[i].role == role) status = std::max(status, rows.status[row]);
  });
  return status;
}

}  // namespace

Decision fold(std::span<const Charge> charges, const Rows& rows) {
  const Role role = speaking_role(charges, rows);
  Decision decision;
  decision.status = worst(charges, rows, role);
  const bool refused = refuses(decision.status);
  decision.remaining = INT64_MAX;
  auto best = std::tuple(INT64_MIN, INT64_MIN, std::size_t{0}, std::size_t{0});
  for_each_row(charges, [&](std::size_t row, std::size_t i, const PlannedLimit& planned) {
    // A refusal that a meta limit counted may have used that up: then it takes longer to succeed.
    if (refused && charges[i].role == Role::on_refusal) {
      decision.retry_after = std::max(decision.retry_after, rows.retry_after[row]);
    }
    if (charges[i].role != role) return;
    const std::int64_t urgency = refused ? rows.retry_after[row] : -rows.remaining[row];
    const auto rank = std::tuple(urgency, rows.reset_after[row], SIZE_MAX - i, SIZE_MAX - planned.place);
    if (rank > best) {
      best = rank;
      decision.binding = row;
    }
    decision.remaining = std::min(decision.remaining, rows.remaining[row]);
    decision.retry_after = std::max(decision.retry_after, rows.retry_after[row]);
    if (!refused) decision.delay = std::max(decision.delay, rows.delay[row]);
  });
  decision.reset_after = rows.reset_after[decision.binding];
  return decision;
}

}  // namespace overlimit
