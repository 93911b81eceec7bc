#include "redis/many_calls.hpp"

#include <algorithm>
#include <utility>

#include "redis/answer.hpp"
#include "redis/protocol/failures.hpp"

namespace overlimit::redis {
namespace {

using protocol::Reply;

constexpr std::size_t kInFlight = 64;

}  // namespace

ManyCalls::ManyCalls(Calls& store, Are are, std::span<const Call> calls, const Rows& rows,
                     std::span<Instant> times, std::span<Basis> bases)
    : store_(store),
      are_(are),
      calls_(calls),
      rows_(rows),
      times_(times),
      bases_(bases),
      was_redirected_(calls.size()) {
  std::size_t first = 0;
  for (const Call& asked : calls) {
    const Call call = with_reading(asked);
    dated_.emplace_back(call, call.now ? *call.now : system_now());
    first_rows_.push_back(first);
    first += pairs_of(call.charges);
  }
  first_rows_.push_back(first);
}

void ManyCalls::decide(const Wait& wait) {
  for (std::size_t first = 0; first < calls_.size(); first += kInFlight) {
    decide(first, std::min(calls_.size(), first + kInFlight), wait);
  }
}

// A call without its script at the server is made again after the others, so calls of the same keys would
// change places if only some scripts are there. Then the text is sent along.
std::string ManyCalls::command(std::size_t i) const {
  const auto script_of = [&](std::size_t k) { return questions_[k].script().script; };
  bool is_first = true;
  bool are_alike = true;
  for (std::size_t k = 0; k < questions_.size(); ++k) {
    if (slots_[k] != slots_[i]) continue;
    are_alike &= script_of(k) == script_of(i);
    is_first &= k >= i || script_of(k) != script_of(i);
  }
  const ScriptCall& script = questions_[i].script();
  return is_first && !are_alike ? script.eval() : script.evalsha();
}

// What was answered counts, whatever happens to the others.
void ManyCalls::decide(std::size_t first, std::size_t last, const Wait& wait) {
  questions_.clear();
  slots_.clear();
  for (std::size_t i = first; i < last; ++i) {
    questions_.emplace_back(store_, dated_[i]);
    slots_.push_back(store_.servers().slot_of(questions_.back().script().keys.front()));
    ++basis(i).commands;
  }
  const GiveBacks before = store_.give_backs();
  for (Question& each : questions_) each.follows(before);
  basis(first).commands += std::uint32_t(before.size());
  std::vector<std::string> commands;
  std::vector<std::optional<protocol::Slot>> slots;
  before.append_to(commands, slots, store_.servers());
  for (std::size_t i = 0; i < questions_.size(); ++i) commands.push_back(command(i));
  slots.insert(slots.end(), slots_.begin(), slots_.end());
  std::vector<std::optional<Reply>> replies(commands.size());
  FirstError failure;
  try {
    store_.servers().topology().call_many(commands, slots, replies, wait);
  } catch (...) {
    failure.note();
  }
  before.read(std::span(replies).first(before.size()));
  for (std::size_t i = first; i < last; ++i) {
    std::optional<Reply>& reply = replies[before.size() + i - first];
    if (reply) {
      read(i, *std::move(reply), questions_[i - first], wait, failure);
    } else if (failure.maybe_charged()) {
      questions_[i - first].lost();
    }
  }
  failure.raise_if_any();
}

// An error says that nothing was executed, unless it is one that is raised anyway: then the call is made by
// itself, which retries and follows what has moved.
void ManyCalls::read(std::size_t i, Reply reply, Question& question, const Wait& wait, FirstError& failure) {
  try {
    was_redirected_[i] = protocol::classify(reply).is_redirection();
    if (!is_final(reply) || out_of_bounds(reply)) {
      times_[i] = store_.decide(calls_[i], rows_of_call(i), basis(i), wait);
      return;
    }
    const Reply checked = store_.servers().checked(std::move(reply));
    times_[i] = question.read(checked, rows_of_call(i), are_ == Are::parts);
  } catch (...) {
    failure.note();
  }
}

}  // namespace overlimit::redis
