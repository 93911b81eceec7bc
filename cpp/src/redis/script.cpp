#include "redis/script.hpp"

#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "lua_fragments.hpp"
#include "overlimit/forks.hpp"
#include "redis/hex.hpp"

namespace overlimit::redis {
namespace {

using Plans = std::span<const Plan* const>;

std::string sha1_of(const std::string& text) {
  std::array<unsigned char, SHA_DIGEST_LENGTH> digest{};
  const OutsideForks outside;
  SHA1(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return hex(digest);
}

std::string_view fragment(std::string_view stem) {
  for (const auto& [name, text] : kLuaFragments) {
    if (name == stem) return text;
  }
  throw std::logic_error("lua/ has no fragment '" + std::string(stem) + "'");
}

// What a fragment's lines may name besides other fragments.
using Generated = std::map<std::string, std::string, std::less<>>;

// An algorithm's file begins with its step, which is pasted, and ends with its refund, a function.
std::string refund_head(std::string_view algorithm) {
  return "\nlocal function " + std::string(algorithm) + "_refund(";
}

std::string step_of(std::string_view algorithm) {
  const std::string_view whole = fragment(algorithm);
  return std::string(whole.substr(0, whole.find(refund_head(algorithm))));
}

std::string refund_of(std::string_view algorithm) {
  const std::string_view whole = fragment(algorithm);
  return std::string(whole.substr(whole.find(refund_head(algorithm))));
}

std::size_t size_of(const PlannedLimit& planned) { return 8 + 8 * planned.limit.packed().size(); }

// Where a policy's part has the numbers of its penalty: behind its limits.
std::size_t size_of_limits(const Plan& plan) {
  std::size_t bytes = 0;
  for (const PlannedLimit& planned : plan.limits()) bytes += size_of(planned);
  return bytes;
}

// A text with others put in the place of lines that name them: --[[ fetch ]]. Pasted and not called, because
// every function costs a call something, even one that is not called.
std::string expanded(std::string text, const Generated& generated = {}) {
  constexpr std::string_view kOpen = "--[[ ";
  constexpr std::string_view kClose = " ]]\n";
  for (std::size_t at = text.find(kOpen); at != std::string::npos; at = text.find(kOpen, at)) {
    const std::size_t close = text.find(kClose, at);
    const std::string name = text.substr(at + kOpen.size(), close - at - kOpen.size());
    const auto made = generated.find(name);
    text.replace(at, close + kClose.size() - at, made == generated.end() ? fragment(name) : made->second);
  }
  return text;
}

std::string joined(std::initializer_list<std::string_view> stems, const Generated& generated = {}) {
  std::string text;
  for (const std::string_view stem : stems) text += fragment(stem);
  return expanded(text, generated);
}

std::set<std::string_view> algorithms_of(Plans plans) {
  std::set<std::string_view> algorithms;
  for (const Plan* plan : plans) {
    for (const PlannedLimit& planned : plan->limits()) algorithms.insert(planned.limit.algorithm_name());
  }
  return algorithms;
}

// One after the other, the steps of a policy's limits.
std::string steps_of(const Plan& plan) {
  std::string text;
  std::size_t offset = 0;
  for (const PlannedLimit& planned : plan.limits()) {
    if (offset > 0) text += "--[[ ahead ]]\n";
    text += "do\nlocal at = part + " + std::to_string(offset) + "\n";
    text += "--[[ " + std::string(planned.limit.algorithm_name()) + " ]]\n--[[ charged ]]\nend\n";
    offset += size_of(planned);
  }
  return text;
}

std::string offsets_of(const Plan& plan) {
  std::string text = "offsets = {";
  std::size_t offset = 0;
  for (const PlannedLimit& planned : plan.limits()) {
    text += std::to_string(offset) + ", ";
    offset += size_of(planned);
  }
  return text + "}\n";
}

std::string penalty_of(const Plan& plan) {
  if (plan.penalty() == nullptr) return "";
  return "penalty = part + " + std::to_string(size_of_limits(plan)) + "\n";
}

// The text of the policy whose number it is.
template <class Text>
std::string by_number(Plans plans, const Text& text_of) {
  if (plans.size() == 1) return text_of(*plans[0]);
  std::string text;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    text +=
        (i == 0 ? "if" : "elseif") + (" number == " + std::to_string(i + 1)) + " then\n" + text_of(*plans[i]);
  }
  return text + "end\n";
}

// What cannot be needed is left out: locks of a policy without a penalty.
Generated deciding_lines(Plans plans) {
  Generated lines;
  for (const std::string_view algorithm : algorithms_of(plans)) {
    lines.emplace(algorithm, step_of(algorithm));
  }
  lines["limits"] = by_number(plans, steps_of);
  lines["offsets"] = "local offsets\n" + by_number(plans, offsets_of);
  lines["penalty_at"] = by_number(plans, penalty_of);
  if (std::ranges::none_of(plans, &Plan::penalty)) lines["penalty"] = "";
  return lines;
}

// A policy as Lua: what gives back to each of its limits, followed by the size of its tag and numbers in
// bytes.
std::string refunds_of(const Plan& plan) {
  std::string table;
  for (const PlannedLimit& planned : plan.limits()) {
    table +=
        std::string(planned.limit.algorithm_name()) + "_refund, " + std::to_string(size_of(planned)) + ", ";
  }
  return "{" + table + "}";
}

std::string refunding_text(Plans plans) {
  std::string text = joined({"prelude", "now", "names", "history"});
  for (const std::string_view algorithm : algorithms_of(plans)) text += expanded(refund_of(algorithm));
  text += "local policies = {";
  for (const Plan* plan : plans) text += refunds_of(*plan) + ", ";
  return text + "}\n" + joined({"refund"});
}

std::string single_text(Plans plans) { return joined({"prelude", "single"}, deciding_lines(plans)); }

std::string several_text(Plans plans) { return joined({"prelude", "several"}, deciding_lines(plans)); }

}  // namespace

Script::Script(std::string text) : text_(std::move(text)), sha1_(sha1_of(text_)) {}

struct Scripts::ByShapes::Entry {
  Entry(Plans plans, std::string text) : script(std::make_shared<const Script>(std::move(text))) {
    for (const Plan* plan : plans) shapes.push_back(plan->shape());
  }

  [[nodiscard]] bool is_for(Plans plans) const { return std::ranges::equal(plans, shapes, {}, &Plan::shape); }

  std::vector<std::string> shapes;
  const std::shared_ptr<const Script> script;
  Entry* next = nullptr;
};

Scripts::ByShapes::~ByShapes() {
  for (const Entry* entry = first_.load(); entry != nullptr;) {
    const std::unique_ptr<const Entry> owner(entry);
    entry = entry->next;
  }
}

// An entry that another thread was the first to add is found in the next round.
template <class MakeText>
const std::shared_ptr<const Script>& Scripts::ByShapes::of(Plans plans, const MakeText& make_text) {
  std::unique_ptr<Entry> made;
  for (;;) {
    Entry* newest = first_.load(std::memory_order_acquire);
    for (const Entry* entry = newest; entry != nullptr; entry = entry->next) {
      if (entry->is_for(plans)) return entry->script;
    }
    if (!made) made = std::make_unique<Entry>(plans, make_text(plans));
    made->next = newest;
    if (first_.compare_exchange_strong(newest, made.get())) return made.release()->script;
  }
}

Scripts::Scripts() : reading_(joined({"prelude", "read"})), locking_(joined({"prelude", "lock"})) {}

std::shared_ptr<const Script> Scripts::single(const Plan& plan) const {
  const Plan* const plans[] = {&plan};
  return single_.of(plans, single_text);
}

const Script& Scripts::several(Plans plans) const { return *several_.of(plans, several_text); }

const Script& Scripts::refunding(Plans plans) const { return *refunding_.of(plans, refunding_text); }

}  // namespace overlimit::redis
