#include "overlimit/redis_store.hpp"

#include <chrono>
#include <stdexcept>
#include <utility>
#include <vector>

#include "overlimit/dated_call.hpp"
#include "overlimit/errors.hpp"
#include "overlimit/limit.hpp"
#include "redis/answer.hpp"
#include "redis/keys.hpp"
#include "redis/protocol/failures.hpp"
#include "redis/protocol/request.hpp"
#include "redis/script_call.hpp"
#include "redis/transport/connections.hpp"

namespace overlimit {
namespace {

using redis::protocol::Failure;
using redis::protocol::Reply;
using redis::transport::Deadline;

RedisStore::Options checked(RedisStore::Options options) {
  if (!is_key_name(options.prefix)) {
    throw std::invalid_argument("prefix must match [A-Za-z0-9_.-]{1,64}, got '" + options.prefix + "'");
  }
  if (options.timeout <= 0 || options.timeout > kMaxPeriod) {
    throw std::invalid_argument("timeout must be above 0 seconds, got " + std::to_string(options.timeout) +
                                " microseconds");
  }
  return options;
}

bool is_missing_script(const Reply& reply) {
  return reply.is_error() && redis::protocol::meaning_of(reply.as_text()).failure == Failure::no_script;
}

}  // namespace

struct RedisStore::Core {
  Core(redis::Endpoint where, Options how)
      : endpoint(std::move(where)), options(checked(std::move(how))), connections(endpoint) {}

  [[nodiscard]] Deadline deadline() const { return Deadline(std::chrono::microseconds(options.timeout)); }

  // A server that was restarted or flushed its scripts did not execute the call: send the text along.
  Reply run(const redis::ScriptCall& script, const Deadline& until, const Interrupted& interrupted) {
    Reply reply = connections.call(script.evalsha(), until, interrupted);
    if (is_missing_script(reply)) reply = connections.call(script.eval(), until, interrupted);
    return checked_reply(std::move(reply));
  }

  // The server's clock may be in another period of a calendar than ours: then once more, with its bounds.
  Micros decide(const Call& call, const Rows& rows, const Interrupted& interrupted) {
    const Deadline until = deadline();
    Micros now = call.now ? checked_instant(*call.now) : system_now();
    for (int attempts = 0; attempts < 2; ++attempts) {
      const DatedCall dated(call, now);
      const Reply reply = run(redis::script_call(*dated, options.prefix, scripts), until, interrupted);
      const std::optional<Micros> elsewhere = redis::out_of_bounds(reply);
      if (!elsewhere) return redis::read_answer(call, reply, rows);
      now = *elsewhere;
    }
    throw ScriptError("the server's clock is in none of the periods that its calendar has around it", false);
  }

  Reply checked_reply(Reply reply) const {
    if (reply.is_error()) redis::protocol::raise_error_reply(reply.as_text(), endpoint);
    return reply;
  }

  Reply command(const std::vector<std::string>& words, const Interrupted& interrupted) {
    std::string request;
    redis::protocol::append_request(request, std::vector<std::string_view>(words.begin(), words.end()));
    return checked_reply(connections.call(request, deadline(), interrupted));
  }

  // Drops the keys of one page of a SCAN and returns the cursor of the next.
  std::string drop(const Reply& page, const Interrupted& interrupted) {
    if (!page.is_array() || page.as_array().size() != 2 || !page.as_array()[1].is_array()) {
      throw ScriptError("SCAN answered what it never should: is the server changing replies?", true);
    }
    std::vector<std::string> words{"UNLINK"};
    for (const Reply& key : page.as_array()[1].as_array()) words.emplace_back(key.as_text());
    if (words.size() > 1) command(words, interrupted);
    return std::string(page.as_array()[0].as_text());
  }

  redis::Endpoint endpoint;
  Options options;
  redis::transport::Connections connections;
  redis::Scripts scripts;
};

RedisStore::RedisStore(redis::Endpoint endpoint, Options options)
    : core_(std::make_unique<Core>(std::move(endpoint), std::move(options))) {}

RedisStore::~RedisStore() = default;

void RedisStore::prepare(const Plan& plan) {
  const Plan* const plans[] = {&plan};
  core_->scripts.deciding(plans);
}

void RedisStore::decide(std::span<const Call> calls, const Rows& rows, std::span<Micros> times,
                        const Interrupted& interrupted) {
  std::size_t first = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::size_t pairs = pairs_of(calls[i].charges);
    times[i] = core_->decide(calls[i], rows_of(rows, first, pairs), interrupted);
    first += pairs;
  }
}

void RedisStore::refund(const Call& call, std::span<const Receipt> receipts, const Interrupted& interrupted) {
  core_->run(redis::refund_call(call, receipts, core_->options.prefix, core_->scripts), core_->deadline(),
             interrupted);
}

void RedisStore::lock(const Call& call, Micros duration, const Interrupted& interrupted) {
  core_->run(redis::lock_call(call, duration, core_->options.prefix), core_->deadline(), interrupted);
}

void RedisStore::reset(const Plan& plan, std::span<const std::string_view> identifiers,
                       const Interrupted& interrupted) {
  if (identifiers.empty()) return;
  std::vector<std::string> words{"DEL"};
  for (const std::string_view identifier : identifiers) {
    words.push_back(redis::key_of(core_->options.prefix, plan.policy(), identifier));
  }
  core_->command(words, interrupted);
}

void RedisStore::reset_all(const Plan& plan, const Interrupted& interrupted) {
  for (const std::string& pattern : redis::patterns_of(core_->options.prefix, plan.policy())) {
    std::string cursor = "0";
    do {
      const Reply page = core_->command({"SCAN", cursor, "MATCH", pattern, "COUNT", "1000"}, interrupted);
      cursor = core_->drop(page, interrupted);
    } while (cursor != "0");
  }
}

void RedisStore::close() { core_->connections.close(); }

}  // namespace overlimit
