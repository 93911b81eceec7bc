// Errors and handshakes of servers: each error is classified, and none repeats the arguments of a command.
#include <algorithm>

#include "overlimit/errors.hpp"
#include "redis/protocol/failures.hpp"
#include "redis/protocol/replies.hpp"
#include "resp.hpp"
#include "target.hpp"

namespace overlimit::fuzz {
namespace {

using namespace redis::protocol;

void check_error(std::string_view text) {
  const Classified classified = classify_error(text);
  check(classified.outcome != Outcome::answered, "an error is no answer");
  check(!classified.advice.empty(), "there is something to do about it");
  check(!classified.is_retryable() || !classified.is_redirection(), "to wait or to go elsewhere");
  try {
    raise_error_reply(text, "who");
  } catch (const StoreError& error) {
    const std::string_view what = error.what();
    check(what.size() <= 600, "no server makes a message longer than one reads");
    check(what.starts_with("redis at who answered \""), "it says who answered");
    const std::size_t arguments = text.find(", with args");
    check(arguments == std::string_view::npos || what.find(text.substr(arguments)) == std::string_view::npos,
          "it doesn't repeat the arguments, which may be a password");
    check(!error.maybe_charged() || error.kind() == StoreError::Kind::script,
          "an error reply charges nothing");
  }
}

void check_handshake(const Reply& reply) {
  redis::Endpoint endpoint;
  endpoint.password = "s3cret";
  endpoint.must_be_master = true;
  const auto to_a_master = handshake_failure(reply, endpoint);
  endpoint.must_be_master = false;
  check(!handshake_failure(reply, endpoint) || to_a_master, "what nobody may use is no master either");
}

void read_errors(std::string_view input) {
  const std::optional<Reply> reply = first_reply(input);
  if (!reply) return;
  check_handshake(*reply);
  if (reply->is_error()) check_error(reply->as_text());
}

std::vector<std::string> error_replies() {
  return {
      written(words({"server", "redis", "version", "7.0.15", "role", "master"})),
      written(words({"server", "valkey", "version", "6.2", "role", "replica"})),
      written(Reply::error("ERR unknown command 'HELLO', with args beginning with: '2' 'AUTH' 's3cret'")),
      written(Reply::error("ERR Error running script (call to f_1): @user_script:1: -READONLY You can't")),
      written(Reply::error("CLUSTERDOWN Hash slot not served")),
      written(Reply::error("OOM x"))};
}

const Registration kErrors("errors", {read_errors, error_replies});

}  // namespace
}  // namespace overlimit::fuzz
