#include "overlimit/redis_store.hpp"

#include <chrono>
#include <stdexcept>
#include <utility>
#include <vector>

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
  Reply run(const redis::ScriptCall& script, const Interrupted& interrupted) {
    const Deadline until = deadline();
    Reply reply = connections.call(script.evalsha(), until, interrupted);
    if (is_missing_script(reply)) reply = connections.call(script.eval(), until, interrupted);
    return checked_reply(std::move(reply));
  }

  Reply checked_reply(Reply reply) const {
    if (reply.is_error()) redis::protocol::raise_error_reply(reply.as_text(), endpoint);
    return reply;
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
    const Call& call = calls[i];
    if (call.now) checked_instant(*call.now);
    const std::size_t pairs = pairs_of(call.charges);
    const auto script = redis::script_call(call, core_->options.prefix, core_->scripts);
    const Reply reply = core_->run(script, interrupted);
    times[i] = redis::read_answer(call, reply, rows_of(rows, first, pairs));
    first += pairs;
  }
}

void RedisStore::reset(const Plan& plan, std::span<const std::string_view> identifiers,
                       const Interrupted& interrupted) {
  if (identifiers.empty()) return;
  std::vector<std::string> keys;
  for (const std::string_view identifier : identifiers) {
    keys.push_back(redis::key_of(core_->options.prefix, plan.policy(), identifier));
  }
  std::vector<std::string_view> words{"DEL"};
  words.insert(words.end(), keys.begin(), keys.end());
  std::string request;
  redis::protocol::append_request(request, words);
  core_->checked_reply(core_->connections.call(request, core_->deadline(), interrupted));
}

void RedisStore::close() { core_->connections.close(); }

}  // namespace overlimit
