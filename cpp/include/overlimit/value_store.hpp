// A store whose counts are values in a place that knows nothing of limits, such as a database: that reads and
// writes values, all or nothing, and what is decided is decided here.
#pragma once

#ifndef OVERLIMIT_LINKS_VALUE_STORE
#error "only targets that link overlimit_value_store may include value_store.hpp"
#endif

#include <memory>
#include <string>
#include <vector>

#include "overlimit/non_copyable.hpp"
#include "overlimit/store.hpp"

namespace overlimit {

class BreakerOfCalls;

/// What is to be kept under a key, and how much longer it has to be.
struct ValueWrite {
  std::string value;
  Duration expires_in;
};

/// What one transaction does with the values of its keys. It owns or outlives all that it uses, except for
/// policies, so it may be run anywhere until the call that made it is over, but by one thread at a time.
class ValueStep : NonCopyable {
 public:
  /// Per key; nothing: there is none.
  using Values = std::span<const std::optional<std::string_view>>;
  /// Per key; nothing: it stays as it is. Empty: all do.
  using Writes = std::vector<std::optional<ValueWrite>>;

  virtual ~ValueStep() = default;
  /// Sorted, each once: 1 to 250 bytes of printable ASCII without spaces.
  [[nodiscard]] virtual std::span<const std::string> keys() const = 0;
  /// Whether it never writes.
  [[nodiscard]] virtual bool reads_only() const = 0;
  /// Decides on these values, at this time of the store unless a clock is injected; nothing: at that of this
  /// process. May be run again, on other values: the last run counts. Throws what Store throws.
  [[nodiscard]] virtual Writes run(Values values, std::optional<Instant> now) = 0;
};

/// A time for several transactions together: who begins the first one sets its end.
struct TransactionTime {
  std::optional<Duration> timeout{};  ///< instead of the store's own
  std::optional<std::chrono::steady_clock::time_point> until{};
};

/// Those that derive from it say where values are kept. As thread-safe as they are.
class ValueStore : public Store {
 public:
  ValueStore();
  ~ValueStore() override;
  void decide(std::span<const Call> calls, const Rows& rows, std::span<Instant> times, std::span<Basis> bases,
              const Interrupted& interrupted) final;
  void decide_one(const Call& call, const Rows& rows, Instant& time, Basis& basis,
                  const Interrupted& interrupted) final;
  void refund_showing(const Call& call, std::span<const Receipt> receipts, Present* present,
                      const Interrupted& interrupted) final;
  void lock(const Call& call, Duration duration, const Interrupted& interrupted) final;
  void unlock(const Call& call, const Interrupted& interrupted) final;
  /// As many identifiers together as the store takes.
  void reset(const PolicyIdentity& policy, std::span<const std::string_view> identifiers,
             const Interrupted& interrupted) final;
  void reset_all(const PolicyIdentity& policy, const Interrupted& interrupted) final;
  /// Reads a key that is nobody's.
  Duration ping(std::optional<Duration> timeout, const Interrupted& interrupted) override;
  /// That of all transactions, whose failures open it.
  [[nodiscard]] BreakerState breaker() const final;

 protected:
  /// Reads the values of the step's keys, runs it, and writes what it returns, all or nothing, while nobody
  /// else writes these keys. Throws CallerMistake for more keys than max_keys().
  virtual void transact(const std::shared_ptr<ValueStep>& step, TransactionTime& time) = 0;
  /// How many keys one transaction takes.
  [[nodiscard]] virtual std::size_t max_keys() const = 0;
  /// All keys that begin so. Throws StoreConfigError for a store that cannot say.
  [[nodiscard]] virtual std::vector<std::string> scan(const std::string& prefix) = 0;

 private:
  void attempt(const std::shared_ptr<ValueStep>& step, TransactionTime& time);
  void reset_keys(std::vector<std::string> keys);

  std::unique_ptr<BreakerOfCalls> breaker_;
};

}  // namespace overlimit
