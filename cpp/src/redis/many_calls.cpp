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
    scripts_.push_back(store.script_call(*dated_.back()));
    slots_.push_back(store.servers().slot_of(scripts_.back().keys.front()));
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
std::string ManyCalls::command(std::size_t i, std::size_t first, std::size_t last) const {
  const auto script_of = [&](std::size_t k) { return scripts_[k].script; };
  const auto same_slot = [&](std::size_t k) { return slots_[k] == slots_[i]; };
  bool is_first = true;
  bool are_alike = true;
  for (std::size_t k = first; k < last; ++k) {
    if (!same_slot(k)) continue;
    are_alike &= script_of(k) == script_of(i);
    is_first &= k >= i || script_of(k) != script_of(i);
  }
  return is_first && !are_alike ? scripts_[i].eval() : scripts_[i].evalsha();
}

// What was answered counts, whatever happens to the others.
void ManyCalls::decide(std::size_t first, std::size_t last, const Wait& wait) {
  std::vector<std::string> commands;
  tellings_.clear();
  for (std::size_t i = first; i < last; ++i) {
    commands.push_back(command(i, first, last));
    tellings_.emplace_back(store_.known(), scripts_[i].keys);
    ++basis(i).commands;
  }
  std::vector<std::optional<Reply>> replies(commands.size());
  FirstError failure;
  try {
    store_.servers().topology().call_many(commands, std::span(slots_).subspan(first, last - first), replies,
                                          wait);
  } catch (...) {
    failure.note();
  }
  for (std::size_t i = first; i < last; ++i) {
    if (replies[i - first]) read(i, std::move(*replies[i - first]), tellings_[i - first], wait, failure);
  }
  failure.raise_if_any();
}

// An error says that nothing was executed, unless it is one that is raised anyway: then the call is made by
// itself, which retries and follows what has moved.
void ManyCalls::read(std::size_t i, Reply reply, Telling& telling, const Wait& wait, FirstError& failure) {
  try {
    was_redirected_[i] = protocol::classify(reply).is_redirection();
    if (!is_final(reply) || out_of_bounds(reply)) {
      times_[i] = store_.decide(calls_[i], rows_of_call(i), basis(i), wait);
      return;
    }
    const Reply checked = store_.servers().checked(std::move(reply));
    const Answer answer = read_answer(dated_[i], checked, rows_of_call(i));
    telling.tell(*dated_[i], answer, rows_of_call(i), are_ == Are::parts);
    times_[i] = answer.now;
  } catch (...) {
    failure.note();
  }
}

}  // namespace overlimit::redis
