#include "overlimit/policy_identity.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <memory>
#include <new>
#include <utility>

#include "overlimit/errors.hpp"
#include "overlimit/limit.hpp"

namespace overlimit {
namespace {

constexpr int kNumberBits = 24;
constexpr std::uint32_t kMostNumbers = 1U << kNumberBits;
constexpr std::uint64_t kUseMask = (std::uint64_t{1} << (63 - kNumberBits)) - 1;

/// How often a number was taken or given back (odd: it is taken), and the free number below it.
struct Slot {
  std::atomic<std::uint64_t> use{0};
  std::atomic<std::uint32_t> next_free{0};
};

// The numbers from 1 on, each held by at most one identity at a time. They are taken and given back without a
// lock, so that a process may fork at any moment, and the slots never move, so that a sweep may read them
// meanwhile. Chunks are as large as all before them together.
class Numbers {
 public:
  /// A number nobody has, and its use.
  std::pair<std::uint32_t, std::uint64_t> take() {
    std::uint32_t number = pop_free();
    if (number == 0) number = fresh();
    return {number, slot(number).use.fetch_add(1, std::memory_order_acq_rel) + 1};
  }

  void give_back(std::uint32_t number) {
    slot(number).use.fetch_add(1, std::memory_order_acq_rel);
    push_free(number);
  }

  [[nodiscard]] std::uint64_t use_of(std::uint32_t number) {
    return slot(number).use.load(std::memory_order_acquire);
  }

 private:
  Slot& slot(std::uint32_t number) {
    const auto chunk = std::size_t(std::bit_width(number) - 1);
    return chunks_[chunk].load(std::memory_order_acquire)[number - (1U << chunk)];
  }

  // The upper half of the head counts pushes, or a head that was popped and pushed back between a look and
  // the exchange would pass for untouched.
  void push_free(std::uint32_t number) {
    std::uint64_t head = free_.load(std::memory_order_relaxed);
    std::uint64_t next = 0;
    do {
      slot(number).next_free.store(static_cast<std::uint32_t>(head), std::memory_order_relaxed);
      next = ((head >> 32) + 1) << 32 | number;
    } while (!free_.compare_exchange_weak(head, next, std::memory_order_acq_rel));
  }

  std::uint32_t pop_free() {
    std::uint64_t head = free_.load(std::memory_order_acquire);
    while (static_cast<std::uint32_t>(head) != 0) {
      const std::uint32_t below =
          slot(static_cast<std::uint32_t>(head)).next_free.load(std::memory_order_relaxed);
      const std::uint64_t next = (head >> 32) << 32 | below;
      if (free_.compare_exchange_weak(head, next, std::memory_order_acq_rel)) break;
    }
    return static_cast<std::uint32_t>(head);
  }

  std::uint32_t fresh() {
    std::uint32_t number = fresh_.load(std::memory_order_relaxed);
    do {
      if (number == kMostNumbers) throw std::bad_alloc();
      ensure_chunk(number);
    } while (!fresh_.compare_exchange_weak(number, number + 1, std::memory_order_acq_rel));
    return number;
  }

  void ensure_chunk(std::uint32_t number) {
    const auto chunk = std::size_t(std::bit_width(number) - 1);
    if (chunks_[chunk].load(std::memory_order_acquire) != nullptr) return;
    auto made = std::make_unique<Slot[]>(std::size_t{1} << chunk);
    Slot* expected = nullptr;
    if (chunks_[chunk].compare_exchange_strong(expected, made.get(), std::memory_order_acq_rel)) {
      static_cast<void>(made.release());
    }
  }

  std::array<std::atomic<Slot*>, kNumberBits> chunks_{};
  std::atomic<std::uint64_t> free_{0};
  std::atomic<std::uint32_t> fresh_{1};
};

// Never destroyed: policies may end while the process does.
constinit Numbers numbers;

std::uint32_t number_in(std::uint64_t digest) {
  return static_cast<std::uint32_t>(digest) & (kMostNumbers - 1);
}

}  // namespace

class PolicyIdentity::Unnamed {
 public:
  Unnamed() {
    const auto [number, use] = numbers.take();
    digest = kUnnamedBit | (use & kUseMask) << kNumberBits | number;
  }
  ~Unnamed() { numbers.give_back(number_in(digest)); }
  Unnamed(const Unnamed&) = delete;
  Unnamed& operator=(const Unnamed&) = delete;

  std::uint64_t digest;
};

PolicyIdentity::PolicyIdentity(std::string name)
    : name_(std::move(name)), digest_(hash_of(name_) & ~kUnnamedBit) {
  if (!is_key_name(name_)) {
    throw InvalidLimit("a policy's name must be " + std::string(kKeyNameRule) + ", not '" + name_ + "'");
  }
}

PolicyIdentity::PolicyIdentity(std::shared_ptr<const Unnamed> unnamed)
    : unnamed_(std::move(unnamed)), digest_(unnamed_->digest) {}

PolicyIdentity PolicyIdentity::unnamed() { return PolicyIdentity(std::make_shared<const Unnamed>()); }

bool PolicyIdentity::is_in_use(std::uint64_t digest) {
  return (numbers.use_of(number_in(digest)) & kUseMask) == (digest & ~kUnnamedBit) >> kNumberBits;
}

}  // namespace overlimit
