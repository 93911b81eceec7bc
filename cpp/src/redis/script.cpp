#include "redis/script.hpp"

#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "lua_fragments.hpp"
#include "overlimit/forks.hpp"
#include "redis/keys.hpp"

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

// What stands for lines that are not a fragment's name: made for the plans of a script.
using Generated = std::map<std::string, std::string, std::less<>>;

// An algorithm's file begins with its step, which is pasted, and ends with its refund, a function. Other
// files are pasted whole.
std::size_t refund_begins(std::string_view stem) {
  return fragment(stem).find("\nlocal function " + std::string(stem) + "_refund(");
}

std::string_view pasted_of(std::string_view stem) { return fragment(stem).substr(0, refund_begins(stem)); }

std::string_view refund_of(std::string_view algorithm) {
  return fragment(algorithm).substr(refund_begins(algorithm) + 1);
}

// What a line --[[ name ]] names; nothing for any other line.
std::string_view name_in(std::string_view line) {
  constexpr std::string_view kOpen = "--[[ ";
  constexpr std::string_view kClose = " ]]\n";
  if (!line.starts_with(kOpen) || !line.ends_with(kClose)) return {};
  return line.substr(kOpen.size(), line.size() - kOpen.size() - kClose.size());
}

// Appends a text; in the place of each line --[[ name ]] the text of that name, as far indented as the line.
// Pasted and not called, because every function costs a call something, even one that is not called.
void paste(std::string& script, std::string_view text, const Generated& generated,
           const std::string& indentation = "") {
  for (std::size_t at = 0, end = 0; at < text.size(); at = end) {
    end = std::min(text.find('\n', at), text.size() - 1) + 1;
    const std::size_t first = std::min(text.find_first_not_of(' ', at), end);
    const std::string_view line = text.substr(first, end - first);
    const std::string margin = indentation + std::string(text.substr(at, first - at));
    const std::string_view name = name_in(line);
    if (name.empty()) {
      script += line == "\n" ? "\n" : margin + std::string(line);
    } else {
      const auto made = generated.find(name);
      paste(script, made == generated.end() ? pasted_of(name) : made->second, generated, margin);
    }
  }
}

std::string script_text(std::string_view file, const Generated& generated = {}) {
  std::string script;
  paste(script, fragment(file), generated);
  return script;
}

std::set<std::string_view> algorithms_of(Plans plans) {
  std::set<std::string_view> algorithms;
  for (const Plan* plan : plans) {
    for (const PlannedLimit& planned : plan->limits()) algorithms.insert(planned.limit.algorithm_name());
  }
  return algorithms;
}

std::size_t size_of(const PlannedLimit& planned) { return 8 + 8 * planned.limit.packed().size(); }

// Where in its policy's part each limit's tag and numbers begin, and last, where the penalty's numbers do.
std::vector<std::size_t> offsets_in(const Plan& plan) {
  std::vector<std::size_t> offsets{0};
  for (const PlannedLimit& planned : plan.limits()) offsets.push_back(offsets.back() + size_of(planned));
  return offsets;
}

// One after the other, the steps of a policy's limits.
std::string steps_of(const Plan& plan) {
  const std::vector<std::size_t> offsets = offsets_in(plan);
  std::string text;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    text += "do\n  local at = part + " + std::to_string(offsets[i]) + "\n  --[[ " +
            std::string(plan.limits()[i].limit.algorithm_name()) + " ]]\nend\n";
  }
  return text;
}

std::string tag_offsets_of(const Plan& plan) {
  const std::vector<std::size_t> offsets = offsets_in(plan);
  std::string list = "0";
  for (std::size_t i = 1; i < plan.size(); ++i) list += ", " + std::to_string(offsets[i]);
  return "tag_offsets = {" + list + "}\n";
}

std::string penalty_at(const Plan& plan) {
  if (plan.penalty() == nullptr) return "";
  return "penalty = part + " + std::to_string(offsets_in(plan).back()) + "\n";
}

// Generates a name's text: that of the only policy, or of the one whose number it is.
void generate(Generated& generated, const std::string& name, Plans plans,
              std::string (*text_of)(const Plan&)) {
  if (plans.size() == 1) {
    generated[name] = text_of(*plans[0]);
    return;
  }
  std::string& text = generated[name];
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const std::string number = std::to_string(i + 1);
    const std::string part = name + " of policy " + number;
    generated[part] = text_of(*plans[i]);
    text.append(i == 0 ? "if" : "elseif").append(" number == ").append(number);
    text.append(" then\n  --[[ ").append(part).append(" ]]\n");
  }
  text += "end\n";
}

// What cannot be needed is left out: the locks of policies without a penalty.
std::string deciding_text(std::string_view file, Plans plans) {
  Generated generated;
  generate(generated, "limits", plans, steps_of);
  generate(generated, "tag_offsets", plans, tag_offsets_of);
  generate(generated, "penalty_at", plans, penalty_at);
  if (std::ranges::none_of(plans, &Plan::penalty)) generated["lock_after_refusal"] = "";
  return script_text(file, generated);
}

// Each limit's refund, and the size of its tag and numbers.
std::string refunds_of(const Plan& plan) {
  std::string list;
  for (const PlannedLimit& planned : plan.limits()) {
    list.append(list.empty() ? "" : ", ").append(planned.limit.algorithm_name());
    list.append("_refund, ").append(std::to_string(size_of(planned)));
  }
  return "  {" + list + "},\n";
}

std::string refunding_text(Plans plans) {
  Generated generated;
  for (const std::string_view algorithm : algorithms_of(plans)) {
    generated["refunds"] += std::string(refund_of(algorithm)) + "\n";
  }
  std::string& policies = generated["policies"] = "local policies = {\n";
  for (const Plan* plan : plans) policies += refunds_of(*plan);
  policies += "}\n";
  return script_text("refund", generated);
}

std::string single_text(Plans plans) { return deciding_text("decide_one", plans); }

std::string several_text(Plans plans) { return deciding_text("decide_several", plans); }

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

Scripts::Scripts() : reading_(script_text("read")), locking_(script_text("lock")) {}

std::shared_ptr<const Script> Scripts::single(const Plan& plan) const {
  const Plan* const plans[] = {&plan};
  return single_.of(plans, single_text);
}

const Script& Scripts::several(Plans plans) const { return *several_.of(plans, several_text); }

const Script& Scripts::refunding(Plans plans) const { return *refunding_.of(plans, refunding_text); }

}  // namespace overlimit::redis
