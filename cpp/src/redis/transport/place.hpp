// The place of one thread's connection.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "redis/transport/connection.hpp"
#include "redis/transport/fork_generation.hpp"

namespace overlimit::redis::transport {

/// Lends its connection to the thread it belongs to, and lets any thread close it: at once when it is not
/// lent, else when it comes back. Owned by that thread, so it ends with the thread, and the connection with
/// it.
class Place {
 public:
  /// `owner` is only compared, never followed.
  Place(const void* owner, std::shared_ptr<Dialer> dialer, std::shared_ptr<OpenDescriptors> open)
      : owner_(owner), connection_(std::move(dialer), std::move(open)) {}

  /// The connection while this lives; none when it is lent already, to a call further up the same stack.
  class Loan {
   public:
    explicit Loan(Place& place) : place_(place), connection_(place.lend()) {}
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    /// In a child that was forked meanwhile there is nobody to give it back to, and the lock may be held.
    ~Loan() {
      if (connection_ != nullptr && generation_ == fork_generation()) place_.take_back();
    }
    [[nodiscard]] Connection* get() const noexcept { return connection_; }

   private:
    Place& place_;
    Connection* connection_;
    std::uint64_t generation_ = fork_generation();
  };

  void close();
  /// The owner has gone: closes, and belongs to nobody from now on.
  void disown();
  [[nodiscard]] const void* owner() const;

 private:
  [[nodiscard]] Connection* lend();
  void take_back();
  void close_or_mark();

  mutable std::mutex mutex_;
  const void* owner_;          // guarded by mutex_
  bool lent_ = false;          // guarded by mutex_
  bool to_be_closed_ = false;  // guarded by mutex_
  Connection connection_;      // guarded by mutex_, but while it is lent
};

}  // namespace overlimit::redis::transport
