#include "overlimit/past_rates.hpp"

#include <iterator>
#include <variant>

#include "overlimit/pair.hpp"

namespace overlimit {
namespace {

/// Whether both are buckets of one kind, and one of them drains faster.
bool drains_faster(const Limit& one, const Limit& other) {
  return std::visit(
      [&](const auto& limited) {
        using Limited = std::decay_t<decltype(limited)>;
        if constexpr (KnowingRefunds<Limited>) {
          const auto* const slower = std::get_if<Limited>(&other.algorithm());
          return slower != nullptr && drains_faster(limited, *slower);
        }
        return false;
      },
      one.algorithm());
}

/// Nothing is given back of what the faster limit cannot count.
Receipt receipt_by(const Limit& faster, const Limit& charged, Cost cost, const Receipt& receipt) {
  return std::visit(
      [&](const auto& limited) {
        using Limited = std::decay_t<decltype(limited)>;
        if constexpr (KnowingRefunds<Limited>) {
          const auto then = state_from<typename Limited::State>(receipt.after);
          const auto same = state_after(limited, std::get<Limited>(charged.algorithm()), then, cost);
          return same ? Receipt{receipt.created_at, header_from(*same)} : Receipt{};
        }
        return receipt;
      },
      faster.algorithm());
}

}  // namespace

void PastRates::add(const CompiledPolicy& policy) {
  newest_ = held_.empty() ? 0 : newest_ + 1;
  for (const auto& [limit, tag, place] : policy.limits()) {
    std::vector<Held>& held = held_[tag];
    while (!held.empty() && !drains_faster(held.back().limit, limit)) held.pop_back();
    held.push_back({limit, newest_});
    if (held.size() <= kMostHeld) continue;
    held[0].last = held[1].last;
    held.erase(std::next(held.begin()));
  }
}

std::optional<CompiledPolicy> PastRates::fastest_since(std::uint64_t number,
                                                       const CompiledPolicy& charged) const {
  // As they were given: equal tags are told apart by that order.
  std::vector<Limit> limits(charged.limits().size(), charged.limits().front().limit);
  bool is_faster = false;
  for (const auto& [own, tag, place] : charged.limits()) {
    limits[place] = own;
    const std::vector<Held>& held = held_.at(tag);
    const auto since = std::ranges::find_if(held, [&](const Held& each) { return each.last >= number; });
    if (since == held.end() || !drains_faster(since->limit, own)) continue;
    limits[place] = since->limit;
    is_faster = true;
  }
  if (!is_faster) return std::nullopt;
  return CompiledPolicy(charged.identity(), limits,
                        charged.penalty() == nullptr ? std::nullopt : std::optional(*charged.penalty()));
}

std::vector<Receipt> receipts_by(const CompiledPolicy& faster, const CompiledPolicy& charged, Cost cost,
                                 std::span<const Receipt> receipts) {
  std::vector<Receipt> carried;
  for (std::size_t i = 0; i < receipts.size(); ++i) {
    const Limit& by = faster.limits()[i].limit;
    const Limit& own = charged.limits()[i].limit;
    carried.push_back(drains_faster(by, own) ? receipt_by(by, own, cost, receipts[i]) : receipts[i]);
  }
  return carried;
}

}  // namespace overlimit
