#include "redis/script.hpp"

#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <set>
#include <stdexcept>
#include <utility>

#include "lua_fragments.hpp"
#include "redis/hex.hpp"

namespace overlimit::redis {
namespace {

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

std::string shape_of(std::span<const Plan* const> plans) {
  std::string shape;
  for (const Plan* plan : plans) shape += plan->shape() + ';';
  return shape;
}

// A policy as Lua: its functions, each followed by the size of its tag and numbers in bytes, and where after
// them the numbers of its penalty lie.
std::string policy_table(const Plan& plan, std::string_view suffix) {
  std::string table;
  std::size_t bytes = 0;
  for (const PlannedLimit& planned : plan.limits()) {
    const std::size_t size = 8 + 8 * planned.limit.packed().size();
    table += std::string(planned.limit.algorithm_name()) + std::string(suffix) + ", " + std::to_string(size) +
             ", ";
    bytes += size;
  }
  if (plan.penalty() != nullptr) table += "penalty = " + std::to_string(bytes);
  return "{" + table + "}";
}

// A fragment with others pasted into it, where a line names them: --[[ fetch ]]. Pasted and not called,
// because every function costs a call something, even one that is not called.
std::string expanded(std::string_view stem) {
  constexpr std::string_view kOpen = "--[[ ";
  constexpr std::string_view kClose = " ]]\n";
  std::string text(fragment(stem));
  for (std::size_t at = text.find(kOpen); at != std::string::npos; at = text.find(kOpen, at)) {
    const std::size_t close = text.find(kClose, at);
    const std::string name = text.substr(at + kOpen.size(), close - at - kOpen.size());
    text.replace(at, close + kClose.size() - at, fragment(name));
  }
  return text;
}

std::string joined(std::initializer_list<std::string_view> stems) {
  std::string text;
  for (const std::string_view stem : stems) text += expanded(stem);
  return text;
}

std::set<std::string_view> algorithms_of(std::span<const Plan* const> plans) {
  std::set<std::string_view> algorithms;
  for (const Plan* plan : plans) {
    for (const PlannedLimit& planned : plan->limits()) algorithms.insert(planned.limit.algorithm_name());
  }
  return algorithms;
}

std::string policies_table(std::span<const Plan* const> plans, std::string_view suffix) {
  std::string policies;
  for (const Plan* plan : plans) policies += policy_table(*plan, suffix) + ", ";
  return "local policies = {" + policies + "}\n";
}

// What cannot be needed is left out: locks of a policy without a penalty, and refunds.
std::string deciding_text(std::span<const Plan* const> plans) {
  std::string text = joined({"prelude"});
  if (std::ranges::any_of(plans, [](const Plan* plan) { return plan->penalty() != nullptr; })) {
    text += fragment("penalty");
  }
  for (const std::string_view algorithm : algorithms_of(plans)) {
    const std::string whole = expanded(algorithm);
    text += whole.substr(0, whole.find("local function " + std::string(algorithm) + "_refund"));
  }
  return text + policies_table(plans, "") + expanded("decide");
}

std::string refunding_text(std::span<const Plan* const> plans) {
  std::string text = joined({"prelude", "history"});
  for (const std::string_view algorithm : algorithms_of(plans)) text += expanded(algorithm);
  return text + policies_table(plans, "_refund") + expanded("refund");
}

}  // namespace

Script::Script(std::string text) : text_(std::move(text)), sha1_(sha1_of(text_)) {}

const Script& read_script() {
  static const Script script(joined({"prelude", "read"}));
  return script;
}

const Script& lock_script() {
  static const Script script(joined({"prelude", "penalty", "lock"}));
  return script;
}

const Script& Scripts::deciding(std::span<const Plan* const> plans) {
  return made("decide:" + shape_of(plans), [&] { return deciding_text(plans); });
}

const Script& Scripts::refunding(std::span<const Plan* const> plans) {
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
