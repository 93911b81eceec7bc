// What is asked of a server for a call, and what is made of the answer.
#pragma once

#include <optional>

#include "overlimit/store.hpp"
#include "redis/knowledge/known_refusals.hpp"
#include "redis/knowledge/leasing_calls.hpp"
#include "redis/knowledge/remembering.hpp"
#include "redis/lease_give_backs.hpp"
#include "redis/protocol/reply.hpp"
#include "redis/wire/script_call.hpp"
#include "redis/wire/script_reply.hpp"

namespace overlimit::redis {

class Calls;

/// Of one call, asked once.
class Question {
 public:
  /// Borrows the call. To be made right before it is asked. Nothing is done on keys that are not those that
  /// this process remembers, if that `may_doubt` its server.
  Question(Calls& store, DatedCall& call, bool may_doubt);
  /// Notes what goes back in front of it.
  void follows(const GiveBacks& before) { before.precede(telling_); }

  [[nodiscard]] const ScriptCall& script() const { return script_; }
  /// Notes that no reply came, although it may have been charged.
  void lost() const { lease_.lost(*call_); }
  /// Takes the reply, which the next three are about.
  void take(protocol::Reply reply) { reply_.emplace(std::move(reply), script_.keys.size()); }
  [[nodiscard]] const ScriptReply& reply() const { return *reply_; }
  /// Whether the reply is not to be believed, as the server may have forgotten what this process remembers:
  /// then what is to be taken back is, and the call is to be asked for again.
  bool doubts();
  /// Gives back what the reply that was taken says was charged; nothing if nothing was, or that is lost. Sets
  /// the rows.
  [[nodiscard]] std::optional<ScriptCall> taking_back(const Rows& rows);
  /// Fills the rows by the reply that was taken, and returns when it was decided. Values of calls that are
  /// not refused are told too if `of_all`.
  Instant read(const Rows& rows, bool of_all);

 private:
  Calls& store_;
  DatedCall& call_;
  LeaseRequest lease_;
  ScriptCall script_;
  Telling telling_;
  std::optional<Hearing> hearing_;
  bool may_doubt_;
  std::optional<ScriptReply> reply_;
  Belief belief_ = Belief::sound;
};

}  // namespace overlimit::redis
