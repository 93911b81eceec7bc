#include "redis/script.hpp"

#include <openssl/sha.h>

#include <array>
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

// What the script of a purpose is made of; the suffix tells which function of an algorithm it calls.
std::string shaped_text(std::string_view purpose, std::string_view suffix,
                        std::span<const Plan* const> plans) {
  std::set<std::string_view> algorithms;
  std::string policies;
  for (const Plan* plan : plans) {
    for (const PlannedLimit& planned : plan->limits()) algorithms.insert(planned.limit.algorithm_name());
    policies += policy_table(*plan, suffix) + ", ";
  }
  std::string text;
  for (const std::string_view part : {"prelude", "penalty", "history"}) text += fragment(part);
  for (const std::string_view algorithm : algorithms) text += fragment(algorithm);
  return text + "local policies = {" + policies + "}\n" + std::string(fragment(purpose));
}

}  // namespace

Script::Script(std::string text) : text_(std::move(text)), sha1_(sha1_of(text_)) {}

const Script& read_script() {
  static const Script script(std::string(fragment("prelude")) + std::string(fragment("read")));
  return script;
}

const Script& lock_script() {
  static const Script script(std::string(fragment("prelude")) + std::string(fragment("penalty")) +
                             std::string(fragment("lock")));
  return script;
}

const Script& Scripts::deciding(std::span<const Plan* const> plans) { return made("decide", "", plans); }

const Script& Scripts::refunding(std::span<const Plan* const> plans) {
  return made("refund", "_refund", plans);
}

const Script& Scripts::made(std::string_view purpose, std::string_view suffix,
                            std::span<const Plan* const> plans) {
  const std::string shape = std::string(purpose) + ':' + shape_of(plans);
  const std::lock_guard lock(mutex_);
  auto found = scripts_.find(shape);
  if (found == scripts_.end()) {
    found =
        scripts_.emplace(shape, std::make_unique<const Script>(shaped_text(purpose, suffix, plans))).first;
  }
  return *found->second;
}

}  // namespace overlimit::redis
