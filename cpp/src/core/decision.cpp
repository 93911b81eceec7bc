#include "overlimit/decision.hpp"

namespace overlimit {
namespace {

// Calls visit(row, limit) for every row of one charge, and returns the row after them.
template <class Visit>
std::size_t for_each_row(const Charge& charge, std::size_t row, const Visit& visit) {
  for (const CompiledLimit& each : charge.policy->limits()) visit(row++, each);
  return row;
}

Status worst(std::span<const Charge> charges, const Rows& rows, Role role) {
  Status status = Status::ok;
  std::size_t row = 0;
  for (const Charge& charge : charges) {
    row = for_each_row(charge, row, [&](std::size_t at, const CompiledLimit&) {
      if (charge.role == role) status = std::max(status, rows.status[at]);
    });
  }
  return status;
}

// Meta limits that are used up answer for the whole call; else the enforced charges do; a call without any
// speaks for itself.
Role speaking_role(std::span<const Charge> charges, const Rows& rows) {
  unsigned roles = 0;
  for (const Charge& charge : charges) roles |= 1U << unsigned(charge.role);
  const auto has = [roles](Role role) { return (roles >> unsigned(role) & 1U) != 0; };
  if (has(Role::on_refusal) && worst(charges, rows, Role::on_refusal) != Status::ok) return Role::on_refusal;
  if (has(Role::enforce)) return Role::enforce;
  return has(Role::always) ? Role::always : Role::shadow;
}

/// The binding row so far. Rows come in the order of charges, but canonical within one.
struct BindingRow {
  std::int64_t urgency = INT64_MIN;
  Duration reset_after{};
  const Charge* charge = nullptr;
  std::size_t place = 0;
  std::size_t row = 0;

  [[nodiscard]] bool yields_to(const BindingRow& other) const {
    if (other.urgency != urgency) return other.urgency > urgency;
    if (other.reset_after != reset_after) return other.reset_after > reset_after;
    return other.charge == charge && other.place < place;
  }
};

}  // namespace

Decision fold(std::span<const Charge> charges, const Rows& rows) {
  const Role role = speaking_role(charges, rows);
  Decision decision;
  decision.status = worst(charges, rows, role);
  decision.remaining = INT64_MAX;
  const bool refused = decision.status != Status::ok;
  BindingRow binding;
  std::size_t row = 0;
  for (const Charge& charge : charges) {
    row = for_each_row(charge, row, [&](std::size_t at, const CompiledLimit& each) {
      // A refusal that a meta limit counted may have used that up: then it takes longer to succeed.
      const bool counted = refused && charge.role == Role::on_refusal;
      if (charge.role != role && !counted) return;
      decision.retry_after = max(decision.retry_after, rows.retry_after[at]);
      if (charge.role != role) return;
      const std::int64_t urgency = refused ? rows.retry_after[at].micros() : -rows.remaining[at];
      const BindingRow candidate{urgency, rows.reset_after[at], &charge, each.place, at};
      if (binding.charge == nullptr || binding.yields_to(candidate)) binding = candidate;
      decision.remaining = std::min(decision.remaining, rows.remaining[at]);
      if (!refused) decision.delay = max(decision.delay, rows.delay[at]);
    });
  }
  decision.binding_row = binding.row;
  decision.reset_after = binding.reset_after;
  return decision;
}

}  // namespace overlimit
