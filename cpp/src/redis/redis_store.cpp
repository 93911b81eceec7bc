#include "overlimit/redis_store.hpp"

#include <deque>
#include <map>
#include <sstream>

#include "overlimit/stopwatch.hpp"
#include "redis/answer.hpp"
#include "redis/first_error.hpp"
#include "redis/keys.hpp"
#include "redis/known_refusals.hpp"
#include "redis/protocol/cluster_slots.hpp"
#include "redis/protocol/command.hpp"
#include "redis/protocol/failures.hpp"
#include "redis/script_call.hpp"
#include "redis/split_call.hpp"
#include "redis/transport/per_process.hpp"
#include "redis/transport/tls.hpp"
#include "redis/transport/topology.hpp"

namespace overlimit {
namespace {

using redis::FirstError;
using redis::protocol::Outcome;
using redis::protocol::Reply;
using redis::protocol::Slot;
using redis::transport::Deadline;
using redis::transport::Wait;

RedisStore::Options checked(RedisStore::Options options) {
  const std::string& prefix = options.keys.prefix;
  if (!is_key_name(prefix)) {
    throw std::invalid_argument("prefix must be " + std::string(kKeyNameRule) + ", not '" + prefix + "'");
  }
  if (options.timeout <= Duration{} || options.timeout > kMaxPeriod) {
    throw std::invalid_argument("timeout must be above 0 seconds, not " +
                                std::to_string(options.timeout.micros()) + " microseconds");
  }
  if (options.max_stale < Duration{} || options.max_stale > RedisStore::kMaxStale) {
    throw std::invalid_argument("max_stale must be from 0 to 60 seconds, not " +
                                std::to_string(options.max_stale.micros()) + " microseconds");
  }
  return options;
}

bool has_tls(const redis::Location& location) {
  if (const auto* endpoint = std::get_if<redis::Endpoint>(&location)) return endpoint->tls.has_value();
  if (const auto* sentinels = std::get_if<redis::SentinelLocation>(&location))
    return sentinels->server.tls.has_value();
  return std::get<redis::ClusterLocation>(location).server.tls.has_value();
}

bool is_missing_script(const Reply& reply) {
  return redis::protocol::classify(reply).outcome == Outcome::no_script;
}

/// Whether no other server, and not the same one again, has another answer.
bool is_final(const Reply& reply) {
  const Outcome outcome = redis::protocol::classify(reply).outcome;
  return outcome == Outcome::answered || outcome == Outcome::failed;
}

std::string encoded(const std::vector<std::string>& words) {
  std::string command;
  redis::protocol::append_command(command, std::vector<std::string_view>(words.begin(), words.end()));
  return command;
}

/// The call at the instant that its clock reads now. The server reads its own.
Call with_reading(Call call) {
  call.now = call.reading();
  return call;
}

/// An instant that no call has.
constexpr Instant kUnasked{-1};

/// Does something, and says in a StoreTimeout how long the timeout is.
void naming_timeout(Duration timeout, const auto& action) {
  try {
    action();
  } catch (const StoreTimeout& error) {
    std::ostringstream what;
    what << error.what() << " (timeout=" << timeout.seconds() << ")";
    throw StoreTimeout(what.str(), error.maybe_charged(), error.retry_after());
  }
}

/// The topologies of the stores that are used on one event loop.
class TopologiesOfLoop {
 public:
  /// That of a store, which lives as long as the store does.
  [[nodiscard]] redis::transport::Topology& of(const std::shared_ptr<const redis::Location>& store) {
    for (const auto& [known, topology] : topologies_) {
      if (known.lock() == store) return *topology;
    }
    std::erase_if(topologies_, [](const auto& each) { return each.first.expired(); });
    return *topologies_.emplace_back(store, redis::transport::topology_of(*store)).second;
  }

 private:
  std::vector<std::pair<std::weak_ptr<const redis::Location>, std::shared_ptr<redis::transport::Topology>>>
      topologies_;
};

}  // namespace

struct RedisStore::Impl {
  using Servers = std::shared_ptr<redis::transport::Topology>;

  Impl(redis::Location where, Options how)
      : location(std::make_shared<const redis::Location>(std::move(where))),
        options(checked(std::move(how))),
        topology([this] { return std::make_unique<Servers>(redis::transport::topology_of(*location)); }),
        known(*location, {options.keys, options.max_stale, options.timeout}) {
    if (has_tls(*location)) redis::transport::require_tls();
  }

  /// Those that all threads of this process use, or those of the event loop whose fiber runs in this thread.
  [[nodiscard]] redis::transport::Topology& servers() {
    Fibers* const fibers = Fibers::current();
    return fibers == nullptr ? **topology : fibers->own<TopologiesOfLoop>().of(location);
  }

  [[nodiscard]] Deadline deadline() const {
    return Deadline(std::chrono::microseconds(options.timeout.micros()));
  }

  /// Of a call with this key; none when keys have no slots.
  [[nodiscard]] std::optional<Slot> slot_of(const std::string& key) {
    if (!servers().has_slots()) return std::nullopt;
    return redis::protocol::key_slot(key);
  }

  [[nodiscard]] std::string key_of(const Charge& charge) const {
    return redis::key_of(options.keys, charge.policy->name(), charge.identifier);
  }

  /// Whether the hash tag alone says that the keys are in one slot.
  [[nodiscard]] bool are_tagged_alike(std::span<const Charge> charges) const {
    if (options.keys.hash_tag != HashTag::policy) return options.keys.hash_tag == HashTag::prefix;
    return std::ranges::all_of(
        charges, [&](const Charge& each) { return each.policy->name() == charges.front().policy->name(); });
  }

  /// Of each charge, if there are several slots among them; else nothing.
  [[nodiscard]] std::vector<Slot> slots_across(std::span<const Charge> charges) {
    if (charges.size() < 2 || !servers().has_slots() || are_tagged_alike(charges)) return {};
    std::vector<Slot> slots;
    for (const Charge& charge : charges) slots.push_back(redis::protocol::key_slot(key_of(charge)));
    if (std::ranges::all_of(slots, [&](Slot each) { return each == slots.front(); })) return {};
    return slots;
  }

  Reply run(const redis::ScriptCall& script, const Interrupted& interrupted) {
    Reply reply;
    naming_timeout(options.timeout, [&] { reply = run(script, {deadline(), interrupted}); });
    return reply;
  }

  // A server that was restarted or flushed its scripts did not execute the call: send the text along.
  Reply run(const redis::ScriptCall& script, const Wait& wait) {
    const std::optional<Slot> slot = slot_of(script.keys.front());
    const auto call = [&](const std::string& command) { return servers().call(command, slot, wait); };
    Reply reply = call(script.evalsha());
    if (is_missing_script(reply)) reply = call(script.eval());
    return checked_reply(std::move(reply));
  }

  /// Calls action(wait) with what is left of the call's timeout.
  void within_timeout_of(const Call& call, const Interrupted& interrupted, const auto& action) const {
    const Duration timeout = call.timeout.value_or(options.timeout);
    naming_timeout(timeout, [&] {
      action(Wait{Deadline(std::chrono::microseconds(timeout.micros())), interrupted});
    });
  }

  [[nodiscard]] std::vector<std::string> keys_of(std::span<const Charge> charges) const {
    std::vector<std::string> keys;
    for (const Charge& charge : charges) keys.push_back(key_of(charge));
    return keys;
  }

  Instant decide(const Call& asked, const Rows& rows, Basis& basis, const Wait& wait) {
    const Call call = with_reading(asked);
    const std::vector<Slot> slots = slots_across(call.charges);
    if (!slots.empty()) return decide_across(call, slots, rows, basis, wait);
    return decide_in_slot(call, rows, basis, wait);
  }

  // If the server's clock is in another period of a calendar, the call is made once more with its bounds.
  Instant decide_in_slot(const Call& call, const Rows& rows, Basis& basis, const Wait& wait) {
    DatedCall dated(call, call.now ? *call.now : system_now());
    for (bool is_first = true;; is_first = false) {
      const redis::ScriptCall script = redis::script_call(*dated, options.keys, scripts);
      redis::Telling telling(known, script.keys);
      ++basis.commands;
      const Reply reply = run(script, wait);
      const std::optional<Instant> elsewhere = redis::out_of_bounds(reply);
      if (!elsewhere) {
        const redis::Answer answer = redis::read_answer(dated, reply, rows);
        telling.tell(*dated, answer, rows, false);
        return answer.now;
      }
      if (!is_first) {
        throw ScriptError("the server's clock is in none of the periods that its calendar has around it",
                          false);
      }
      dated.move_to(*elsewhere);
    }
  }

  // No call has a key without an identifier, so XX finds none and nothing is written.
  Duration write_nothing(const Wait& wait) {
    const std::string key = redis::key_of(options.keys, "ping", "");
    const std::string command = encoded({"SET", key, "", "XX", "PX", "1"});
    const Stopwatch stopwatch;
    (void)checked_reply(servers().call(command, slot_of(key), wait));
    return stopwatch.elapsed();
  }

  // The slowest of all servers. One whose user may not PING has answered as well.
  Duration ping_each_server(const Wait& wait) {
    Duration slowest{};
    const auto ping = [&](const redis::transport::Topology::Server& server) {
      const Stopwatch stopwatch;
      Reply reply = server(encoded({"PING"}), wait);
      if (redis::protocol::classify(reply).is_unavailable()) (void)checked_reply(std::move(reply));
      slowest = std::max(slowest, stopwatch.elapsed());
    };
    servers().for_each_server(ping, wait);
    return slowest;
  }

  Duration ping(const Wait& wait) {
    const Duration slowest = servers().has_slots() ? ping_each_server(wait) : Duration{};
    return std::max(slowest, write_nothing(wait));
  }

  // Removes keys by a command; keys in several slots are removed by one command each.
  void reset(std::string_view command, const std::vector<std::string>& keys, const Wait& wait) {
    std::map<std::optional<Slot>, std::vector<std::string>> commands;
    for (const std::string& key : keys) {
      std::vector<std::string>& words = commands[slot_of(key)];
      if (words.empty()) words.emplace_back(command);
      words.push_back(key);
    }
    for (const auto& [where, words] : commands) {
      (void)checked_reply(servers().call(encoded(words), where, wait));
    }
  }

  // Removes the keys of one page of a SCAN and returns the cursor of the next.
  std::string reset_page(const Reply& page, const Interrupted& interrupted) {
    if (!page.is_array() || page.as_array().size() != 2 || !page.as_array()[1].is_array()) {
      throw ScriptError(
          "the reply is not one that SCAN can give; check what stands between this process and the server",
          true);
    }
    std::vector<std::string> keys;
    for (const Reply& key : page.as_array()[1].as_array()) keys.emplace_back(key.as_text());
    reset("UNLINK", keys, {deadline(), interrupted});
    return std::string(page.as_array()[0].as_text());
  }

  void reset_all(const redis::transport::Topology::Server& server, const std::string& pattern,
                 const Interrupted& interrupted) {
    std::string cursor = "0";
    do {
      const std::string command = encoded({"SCAN", cursor, "MATCH", pattern, "COUNT", "1000"});
      cursor = reset_page(checked_reply(server(command, {deadline(), interrupted})), interrupted);
    } while (cursor != "0");
  }

  [[nodiscard]] Reply checked_reply(Reply reply) const {
    if (!reply.is_error()) return reply;
    const std::string who = std::visit([](const auto& each) { return redis::describe(each); }, *location);
    redis::protocol::raise_error_reply(reply.as_text(), who);
  }

  Instant decide_across(const Call& call, std::span<const Slot> slots, const Rows& rows, Basis& basis,
                        const Wait& wait);
  void ask(redis::SplitCall& split, std::size_t first, std::size_t charged, std::span<Instant> times,
           Basis& basis, const Wait& wait);
  bool take_back(redis::SplitCall& split, Basis& basis, const Wait& wait);
  void follow(const redis::ScriptCall& refund, const Wait& wait);
  void decide_many(std::span<const Call> calls, const Rows& rows, std::span<Instant> times,
                   std::span<Basis> bases, const Wait& wait);
  void give_back(const Call& call, std::span<const Receipt> receipts, Present* present,
                 const Interrupted& interrupted);
  void give_back_across(const Call& call, std::span<const Slot> slots, std::span<const Receipt> receipts,
                        Present* present, const Interrupted& interrupted);

  const std::shared_ptr<const redis::Location> location;
  const Options options;
  redis::transport::PerProcess<Servers> topology;
  redis::KnownRefusals known;
  const redis::Scripts scripts;
  redis::RecentRefusals refusals;
};

/// Several calls, each in one slot, a number of which are under way at the same time.
class RedisStore::ManyCalls {
 public:
  /// Calls of their own, each with a basis, or the parts of one call, which share one.
  enum class Are : bool { calls, parts };

  ManyCalls(Impl& impl, Are are, std::span<const Call> calls, const Rows& rows, std::span<Instant> times,
            std::span<Basis> bases)
      : impl_(impl),
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
      scripts_.push_back(redis::script_call(*dated_.back(), impl.options.keys, impl.scripts));
      slots_.push_back(impl.slot_of(scripts_.back().keys.front()));
      first_rows_.push_back(first);
      first += pairs_of(call.charges);
    }
    first_rows_.push_back(first);
  }

  /// Whether a slot was not where it was thought to be, for this call.
  [[nodiscard]] bool was_redirected(std::size_t i) const { return was_redirected_[i]; }

  void decide(const Wait& wait) {
    for (std::size_t first = 0; first < calls_.size(); first += kInFlight) {
      decide(first, std::min(calls_.size(), first + kInFlight), wait);
    }
  }

 private:
  static constexpr std::size_t kInFlight = 64;

  [[nodiscard]] Rows rows_of_call(std::size_t i) const {
    return rows_of(rows_, first_rows_[i], first_rows_[i + 1] - first_rows_[i]);
  }

  // A call without its script at the server is made again after the others, so calls of the same keys would
  // change places if only some scripts are there. Then the text is sent along.
  [[nodiscard]] std::string command(std::size_t i, std::size_t first, std::size_t last) const {
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
  void decide(std::size_t first, std::size_t last, const Wait& wait) {
    std::vector<std::string> commands;
    tellings_.clear();
    for (std::size_t i = first; i < last; ++i) {
      commands.push_back(command(i, first, last));
      tellings_.emplace_back(impl_.known, scripts_[i].keys);
      ++basis(i).commands;
    }
    std::vector<std::optional<Reply>> replies(commands.size());
    FirstError failure;
    try {
      impl_.servers().call_many(commands, std::span(slots_).subspan(first, last - first), replies, wait);
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
  void read(std::size_t i, Reply reply, redis::Telling& telling, const Wait& wait, FirstError& failure) {
    try {
      was_redirected_[i] = redis::protocol::classify(reply).is_redirection();
      if (!is_final(reply) || redis::out_of_bounds(reply)) {
        times_[i] = impl_.decide(calls_[i], rows_of_call(i), basis(i), wait);
        return;
      }
      const Reply checked = impl_.checked_reply(std::move(reply));
      const redis::Answer answer = redis::read_answer(dated_[i], checked, rows_of_call(i));
      telling.tell(*dated_[i], answer, rows_of_call(i), are_ == Are::parts);
      times_[i] = answer.now;
    } catch (...) {
      failure.note();
    }
  }

  [[nodiscard]] Basis& basis(std::size_t i) const { return bases_[are_ == Are::parts ? 0 : i]; }

  Impl& impl_;
  Are are_;
  std::span<const Call> calls_;
  Rows rows_;
  std::span<Instant> times_;
  std::span<Basis> bases_;
  std::vector<redis::Telling> tellings_;
  std::deque<DatedCall> dated_;
  std::vector<redis::ScriptCall> scripts_;
  std::vector<std::optional<Slot>> slots_;
  std::vector<std::size_t> first_rows_;
  std::vector<bool> was_redirected_;
};

// A call that no part can admit, and one that only looks, charges nowhere. Parts that may refuse it, because
// they have lately, are charged while the others are only read, so that a flood that one of them refuses
// leaves the others alone.
Instant RedisStore::Impl::decide_across(const Call& call, std::span<const Slot> slots, const Rows& rows,
                                        Basis& basis, const Wait& wait) {
  redis::SplitCall split(call, slots, [&](const Charge& charge) { return refusals.has(key_of(charge)); });
  const std::size_t parts = split.parts().size();
  const std::size_t leading = redis::may_charge(call) ? split.leading() : 0;
  std::vector<Instant> times(parts, kUnasked);
  ask(split, 0, leading, times, basis, wait);
  if (leading > 0 && leading < parts && split.admits()) ask(split, leading, parts, times, basis, wait);
  if (!split.admits()) {
    for (const Charge* const charge : split.refusing()) refusals.note(key_of(*charge));
    take_back(split, basis, wait);
    split.show_uncharged();
  }
  split.copy_rows(rows);
  return std::ranges::max(times);
}

// Of the parts from `first` on, those before `charged` are charged. If one of them does not answer, what the
// others have charged is taken back, which nobody confirms.
void RedisStore::Impl::ask(redis::SplitCall& split, std::size_t first, std::size_t charged,
                           std::span<Instant> times, Basis& basis, const Wait& wait) {
  const std::vector<Call> calls = split.calls(first, charged);
  const std::span<Instant> own = times.subspan(first);
  std::ranges::fill(own, kUnasked);
  ManyCalls many(*this, ManyCalls::Are::parts, calls, split.rows_from(first), own, {&basis, 1});
  FirstError failure;
  try {
    many.decide(wait);
  } catch (...) {
    failure.note();
  }
  for (std::size_t i = first; i < charged; ++i) {
    redis::CallPart& part = split.parts()[i];
    part.is_charged = times[i] != kUnasked && part.admits();
    part.was_redirected = many.was_redirected(i - first);
  }
  if (failure && take_back(split, basis, wait)) failure.set_maybe_charged();
  failure.raise_if_any();
}

// A refund is sent with its text: nobody learns whether the server has the script. Nor where the slot is,
// so one that has moved is followed at once.
bool RedisStore::Impl::take_back(redis::SplitCall& split, Basis& basis, const Wait& wait) {
  bool has_charged = false;
  for (redis::CallPart& part : split.parts()) {
    if (!part.is_charged) continue;
    const redis::ScriptCall script =
        redis::refund_call(split.call_of(part), part.rows.receipts(), false, options.keys, scripts);
    ++basis.commands;
    if (part.was_redirected) {
      follow(script, wait);
    } else {
      servers().send(script.eval(), part.slot, wait);
      known.change_unheard(script.keys);
    }
    part.is_charged = false;
    has_charged = true;
  }
  return has_charged;
}

// A refund that does not arrive leaves its charge, as one that is sent does.
void RedisStore::Impl::follow(const redis::ScriptCall& refund, const Wait& wait) {
  const redis::Changing changing(known, refund.keys);
  try {
    (void)run(refund, wait);
  } catch (const StoreError&) {
  }
}

// In their order. A call across slots is under way alone, so that no other is refused by what it takes back,
// and one that is refused here follows those before it.
void RedisStore::Impl::decide_many(std::span<const Call> calls, const Rows& rows, std::span<Instant> times,
                                   std::span<Basis> bases, const Wait& wait) {
  std::vector<std::size_t> first_rows{0};
  for (const Call& call : calls) first_rows.push_back(first_rows.back() + pairs_of(call.charges));
  const auto rows_of_calls = [&](std::size_t first, std::size_t last) {
    return rows_of(rows, first_rows[first], first_rows[last] - first_rows[first]);
  };
  const auto is_refused = [&](std::size_t i) {
    return known.refuse(calls[i], rows_of_calls(i, i + 1), times[i], bases[i]);
  };
  const auto is_in_slot = [&](std::size_t i) { return slots_across(calls[i].charges).empty(); };
  for (std::size_t first = 0, next = 0; first < calls.size(); first = next) {
    next = first + 1;
    if (is_refused(first)) continue;
    if (is_in_slot(first)) {
      while (next < calls.size() && is_in_slot(next) && !is_refused(next)) ++next;
    }
    const std::size_t count = next - first;
    if (count == 1) {
      times[first] = decide(calls[first], rows_of_calls(first, next), bases[first], wait);
    } else {
      ManyCalls(*this, ManyCalls::Are::calls, calls.subspan(first, count), rows_of_calls(first, next),
                times.subspan(first, count), bases.subspan(first, count))
          .decide(wait);
    }
  }
}

void RedisStore::Impl::give_back(const Call& call, std::span<const Receipt> receipts, Present* present,
                                 const Interrupted& interrupted) {
  const redis::ScriptCall script =
      redis::refund_call(call, receipts, present != nullptr, options.keys, scripts);
  const redis::Changing changing(known, script.keys);
  const Reply reply = run(script, interrupted);
  if (present == nullptr) return;
  DatedCall peek({.charges = present->charges, .mode = Mode::peek});
  present->time = redis::read_answer(peek, reply, present->rows).now;
}

// A failure of one slot keeps nothing from the others. What these have given back is not given back again, so
// the error says that it may have been.
void RedisStore::Impl::give_back_across(const Call& call, std::span<const Slot> slots,
                                        std::span<const Receipt> receipts, Present* present,
                                        const Interrupted& interrupted) {
  const auto in_order = [](const Charge&) { return false; };
  redis::SplitCall given(call, slots, in_order);
  given.set_receipts(receipts);
  std::optional<redis::SplitCall> shown;
  const Call peek{.charges = present == nullptr ? call.charges : present->charges, .mode = Mode::peek};
  if (present != nullptr) shown.emplace(peek, slots, in_order);
  std::vector<redis::ScriptCall> refunds;
  std::vector<std::string> commands;
  std::vector<std::optional<Slot>> where;
  for (const redis::CallPart& part : given.parts()) {
    refunds.push_back(redis::refund_call(given.call_of(part), part.rows.receipts(), shown.has_value(),
                                         options.keys, scripts));
    commands.push_back(refunds.back().evalsha());
    where.emplace_back(part.slot);
  }
  const redis::Changing changing(known, keys_of(call.charges));
  const Wait wait{deadline(), interrupted};
  std::vector<std::optional<Reply>> replies(commands.size());
  FirstError failure;
  try {
    servers().call_many(commands, where, replies, wait);
  } catch (...) {
    failure.note();
  }
  bool is_any_given = false;
  for (std::size_t i = 0; i < replies.size(); ++i) {
    if (!replies[i]) continue;
    try {
      const Reply reply =
          is_final(*replies[i]) ? checked_reply(*std::move(replies[i])) : run(refunds[i], wait);
      is_any_given = true;
      if (!shown) continue;
      const redis::CallPart& part = shown->parts()[i];
      DatedCall dated(shown->call_of(part));
      present->time = max(present->time, redis::read_answer(dated, reply, part.rows).now);
    } catch (...) {
      failure.note();
    }
  }
  if (is_any_given) failure.set_maybe_charged();
  failure.raise_if_any();
  if (shown) shown->copy_rows(present->rows);
}

RedisStore::RedisStore(redis::Location location, Options options)
    : impl_(std::make_unique<Impl>(std::move(location), std::move(options))) {}

RedisStore::~RedisStore() = default;

void RedisStore::decide(std::span<const Call> calls, const Rows& rows, std::span<Instant> times,
                        std::span<Basis> bases, const Interrupted& interrupted) {
  std::ranges::fill(bases.first(calls.size()), Basis{});
  if (calls.empty()) return;
  impl_->within_timeout_of(calls.front(), interrupted,
                           [&](const Wait& wait) { impl_->decide_many(calls, rows, times, bases, wait); });
}

void RedisStore::decide_one(const Call& call, const Rows& rows, Instant& time, Basis& basis,
                            const Interrupted& interrupted) {
  basis = {};
  impl_->within_timeout_of(call, interrupted,
                           [&](const Wait& wait) { time = impl_->decide(call, rows, basis, wait); });
}

bool RedisStore::decide_here(const Call& call, const Rows& rows, Instant& time, Basis& basis) {
  return impl_->known.refuse(call, rows, time, basis);
}

void RedisStore::give_back(const Call& call, std::span<const Receipt> receipts, Present* present,
                           const Interrupted& interrupted) {
  const std::vector<Slot> slots = impl_->slots_across(call.charges);
  if (slots.empty()) return impl_->give_back(with_reading(call), receipts, present, interrupted);
  naming_timeout(timeout(),
                 [&] { impl_->give_back_across(with_reading(call), slots, receipts, present, interrupted); });
}

void RedisStore::lock(const Call& call, Duration duration, const Interrupted& interrupted) {
  const redis::ScriptCall script =
      redis::lock_call(with_reading(call), duration, impl_->options.keys, impl_->scripts);
  const redis::Changing changing(impl_->known, script.keys);
  (void)impl_->run(script, interrupted);
}

void RedisStore::unlock(const Call& call, const Interrupted& interrupted) {
  lock(call, Duration{}, interrupted);
}

void RedisStore::reset(const PolicyIdentity& policy, std::span<const std::string_view> identifiers,
                       const Interrupted& interrupted) {
  std::vector<std::string> keys;
  for (const std::string_view identifier : identifiers) {
    keys.push_back(redis::key_of(impl_->options.keys, policy.name(), identifier));
  }
  const redis::Changing changing(impl_->known, keys);
  naming_timeout(timeout(), [&] { impl_->reset("DEL", keys, {impl_->deadline(), interrupted}); });
}

void RedisStore::reset_all(const PolicyIdentity& policy, const Interrupted& interrupted) {
  const auto reset_server = [&](const redis::transport::Topology::Server& server) {
    for (const std::string& pattern : redis::patterns_of(impl_->options.keys, policy.name())) {
      impl_->reset_all(server, pattern, interrupted);
    }
  };
  const redis::ChangingAll changing(impl_->known);
  naming_timeout(timeout(), [&] {
    impl_->servers().for_each_server(reset_server, {impl_->deadline(), interrupted});
  });
}

Duration RedisStore::ping(std::optional<Duration> within, const Interrupted& interrupted) {
  const Duration longest = within.value_or(timeout());
  Duration took{};
  naming_timeout(longest, [&] {
    took = impl_->ping({Deadline(std::chrono::microseconds(longest.micros())), interrupted});
  });
  return took;
}

void RedisStore::close() { impl_->servers().close(); }

BreakerState RedisStore::breaker() const { return impl_->servers().breaker(); }

Duration RedisStore::timeout() const { return impl_->options.timeout; }

}  // namespace overlimit
