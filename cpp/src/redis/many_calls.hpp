// Several calls, each in one slot, a number of which are under way at the same time.
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "redis/calls.hpp"
#include "redis/transport/first_error.hpp"

namespace overlimit::redis {

class ManyCalls {
 public:
  using Wait = transport::Wait;
  /// Calls of their own, each with a basis, or the parts of one call, which share one.
  enum class Are : bool { calls, parts };

  ManyCalls(Calls& store, Are are, std::span<const Call> calls, const Rows& rows, std::span<Instant> times,
            std::span<Basis> bases);

  /// Asks for all in their order. Those that have been decided when it throws have their times.
  void decide(const Wait& wait);
  /// Whether a slot was not where it was thought to be, for this call.
  [[nodiscard]] bool was_redirected(std::size_t i) const { return was_redirected_[i]; }

 private:
  [[nodiscard]] Rows rows_of_call(std::size_t i) const {
    return rows_of(rows_, first_rows_[i], first_rows_[i + 1] - first_rows_[i]);
  }
  [[nodiscard]] Basis& basis(std::size_t i) const { return bases_[are_ == Are::parts ? 0 : i]; }
  [[nodiscard]] std::string command(std::size_t i) const;
  std::vector<std::size_t> ask(std::span<const std::size_t> asked, bool may_doubt, const Wait& wait);
  bool read(std::size_t i, protocol::Reply reply, Question& question, const Wait& wait, FirstError& failure);
  protocol::Reply run(Question& question, const Wait& wait);
  void take_back(std::size_t i, Question& question, std::vector<ScriptCall>& refunds,
                 FirstError& failure) const;
  void take_back(std::span<const ScriptCall> refunds, Basis& basis, const Wait& wait, FirstError& failure);

  Calls& store_;
  Are are_;
  std::span<const Call> calls_;
  Rows rows_;
  std::span<Instant> times_;
  std::span<Basis> bases_;
  std::deque<DatedCall> dated_;
  std::deque<Question> questions_;  // of those under way, as the next two
  std::vector<std::optional<protocol::Slot>> slots_;
  std::vector<std::size_t> first_rows_;
  std::vector<bool> was_redirected_;
};

}  // namespace overlimit::redis
