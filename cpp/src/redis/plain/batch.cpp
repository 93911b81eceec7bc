#include "redis/plain/batch.hpp"

#include "redis/protocol/failures.hpp"

namespace overlimit::redis {

using protocol::Reply;

void Batch::add(const ScriptCall& script, By by) {
  scripts_.push_back(&script);
  by_.push_back(by);
  slots_.push_back(servers_.slot_of(script.keys.front()));
}

void Batch::run(const Wait& wait) {
  std::vector<std::string> commands;
  for (std::size_t i = 0; i < size(); ++i)
    commands.push_back(goes_with_text(i) ? scripts_[i]->eval() : scripts_[i]->evalsha());
  replies_.resize(size());
  try {
    if (size() > 0) servers_.topology().call_many(commands, slots_, replies_, wait);
  } catch (...) {
    failure_.note();
  }
}

// Calls of the same keys would change their order if only some of their scripts are there: then the first of
// each goes with its text.
bool Batch::goes_with_text(std::size_t i) const {
  if (by_[i] != By::in_order) return by_[i] == By::text;
  bool is_first = true;
  bool are_alike = true;
  for (std::size_t k = 0; k < size(); ++k) {
    if (slots_[k] != slots_[i] || by_[k] != By::in_order) continue;
    const bool is_alike = scripts_[k]->script == scripts_[i]->script;
    are_alike &= is_alike;
    is_first &= k >= i || !is_alike;
  }
  return is_first && !are_alike;
}

bool Batch::was_redirected(std::size_t i) const {
  return replies_[i] && protocol::classify(*replies_[i]).is_redirection();
}

Reply Batch::reply(std::size_t i, const Wait& wait) {
  if (!is_final(*replies_[i])) return servers_.run(*scripts_[i], wait);
  return servers_.checked(*std::move(replies_[i]));
}

}  // namespace overlimit::redis
