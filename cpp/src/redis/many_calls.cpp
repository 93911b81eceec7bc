#include "redis/many_calls.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "redis/protocol/failures.hpp"
#include "redis/wire/answer.hpp"

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
    std::vector<std::size_t> asked(std::min(calls_.size() - first, kInFlight));
    std::iota(asked.begin(), asked.end(), first);
    for (int doubted = 0; !asked.empty(); ++doubted) asked = ask(asked, doubted < kMostDoubts, wait);
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

// What was answered counts, whatever happens to the others. Returns which are to be asked for again, as their
// servers have forgotten; what these had charged has been taken back then.
std::vector<std::size_t> ManyCalls::ask(std::span<const std::size_t> asked, bool may_doubt,
                                        const Wait& wait) {
  questions_.clear();
  slots_.clear();
  if (store_.remembering().is_on()) {
    std::vector<const Call*> calls;
    for (const std::size_t i : asked) calls.push_back(&*dated_[i]);
    store_.restore(calls, basis(asked.front()), wait);
  }
  for (const std::size_t i : asked) {
    questions_.emplace_back(store_, dated_[i], may_doubt);
    slots_.push_back(store_.servers().slot_of(questions_.back().script().keys.front()));
    ++basis(i).commands;
  }
  GiveBacks before = store_.give_backs();
  for (Question& each : questions_) each.follows(before);
  basis(asked.front()).commands += std::uint32_t(before.size());
  std::vector<std::string> commands;
  std::vector<std::optional<protocol::Slot>> slots;
  before.append_to(commands, slots, store_.servers());
  for (std::size_t k = 0; k < questions_.size(); ++k) commands.push_back(command(k));
  slots.insert(slots.end(), slots_.begin(), slots_.end());
  std::vector<std::optional<Reply>> replies(commands.size());
  FirstError failure;
  try {
    store_.servers().topology().call_many(commands, slots, replies, wait);
  } catch (...) {
    failure.note();
  }
  before.read(std::span(replies).first(before.size()));
  std::vector<std::size_t> doubted;
  std::vector<ScriptCall> refunds;
  for (std::size_t k = 0; k < asked.size(); ++k) {
    std::optional<Reply>& reply = replies[before.size() + k];
    if (!reply) {
      if (failure.maybe_charged()) questions_[k].lost();
    } else if (read(asked[k], *std::move(reply), questions_[k], wait, failure)) {
      doubted.push_back(asked[k]);
      take_back(asked[k], questions_[k], refunds, failure);
    }
  }
  if (!doubted.empty()) take_back(refunds, basis(doubted.front()), wait, failure);
  failure.raise_if_any();
  return doubted;
}

// A reply that is not final says that nothing was executed: then the same is asked by itself, which retries
// and follows what has moved. Returns whether the reply is not to be believed.
bool ManyCalls::read(std::size_t i, Reply reply, Question& question, const Wait& wait, FirstError& failure) {
  try {
    was_redirected_[i] = protocol::classify(reply).is_redirection();
    if (!is_final(reply)) reply = run(question, wait);
    question.take(store_.servers().checked(std::move(reply)));
    if (question.reply().is_out_of_bounds()) {
      times_[i] = store_.decide(calls_[i], rows_of_call(i), basis(i), wait);
      return false;
    }
    if (question.doubts()) return true;
    times_[i] = question.read(rows_of_call(i), are_ == Are::parts);
  } catch (...) {
    failure.note();
  }
  return false;
}

Reply ManyCalls::run(Question& question, const Wait& wait) {
  try {
    return store_.servers().run(question.script(), wait);
  } catch (const StoreError& error) {
    if (error.maybe_charged()) question.lost();
    throw;
  }
}

void ManyCalls::take_back(std::size_t i, Question& question, std::vector<ScriptCall>& refunds,
                          FirstError& failure) const {
  try {
    if (std::optional<ScriptCall> refund = question.taking_back(rows_of_call(i)))
      refunds.push_back(*std::move(refund));
  } catch (...) {
    failure.note();
    failure.set_maybe_charged();
  }
}

void ManyCalls::take_back(std::span<const ScriptCall> refunds, Basis& basis, const Wait& wait,
                          FirstError& failure) {
  try {
    if (!refunds.empty()) store_.take_back_doubted(refunds, basis, wait);
  } catch (...) {
    failure.note();
  }
}

}  // namespace overlimit::redis
