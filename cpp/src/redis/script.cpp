#include "redis/script.hpp"

#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

#include "lua_fragments.hpp"
#include "redis/hex.hpp"

namespace overlimit::redis {
namespace {

using Plans = std::span<const Plan* const>;

std::string sha1_of(const std::string& text) {
  std::array<unsigned char, SHA_DIGEST_LENGTH> digest{};
  SHA1(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return hex(digest);
}

std::string_view fragment(std::string_view stem) {
  for (const auto& [name, text] : kLuaFragments) {
    if (name == stem) return text;
  }
  throw std::logic_error("lua/ has no fragment '" + std::string(stem) + "'");
}

std::string shape_of(Plans plans) {
  std::string shape;
  for (const Plan* plan : plans) shape += plan->shape() + ';';
  return shape;
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

}  // namespace

Script::Script(std::string text) : text_(std::move(text)), sha1_(sha1_of(text_)) {}

const Script& read_script() {
  static const Script script(joined({"prelude", "read"}));
  return script;
}

const Script& lock_script() {
  static const Script script(joined({"prelude", "lock"}));
  return script;
}

const Script& Scripts::single(const Plan& plan) {
  const Plan* const plans[] = {&plan};
  return made("single:" + plan.shape(), [&] { return joined({"prelude", "single"}, deciding_lines(plans)); });
}

const Script& Scripts::several(Plans plans) {
  return made("several:" + shape_of(plans), [&] {
    return joined({"prelude", "several"}, deciding_lines(plans));
  });
}

const Script& Scripts::refunding(Plans plans) {
  return made("refund:" + shape_of(plans), [&] { return refunding_text(plans); });
}

template <class Text>
const Script& Scripts::made(const std::string& shape, const Text& text) {
  const std::lock_guard lock(mutex_);
  auto found = scripts_.find(shape);
  if (found == scripts_.end()) {
    found = scripts_.emplace(shape, std::make_unique<const Script>(text())).first;
  }
  return *found->second;
}

}  // namespace overlimit::redis
