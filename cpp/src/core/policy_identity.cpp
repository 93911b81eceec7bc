#include "overlimit/policy_identity.hpp"

#include <bit>
#include <mutex>
#include <new>
#include <utility>

#include "overlimit/errors.hpp"
#include "overlimit/forks.hpp"
#include "overlimit/limit.hpp"

namespace overlimit {
namespace {

constexpr int kNumberBits = 24;
constexpr std::uint32_t kMostNumbers = 1U << kNumberBits;
constexpr std::uint64_t kUseMask = (std::uint64_t{1} << (63 - kNumberBits)) - 1;

/// How often a number was taken or given back (odd: it is taken).
using Use = std::atomic<std::uint64_t>;

// The numbers from 1 on, each held by at most one identity at a time. Their uses never move, so that a sweep,
// which holds a mutex already, may read them without another. Chunks are as large as all before them
// together.
class Numbers {
 public:
  /// A number nobody has, and its use.
  std::pair<std::uint32_t, std::uint64_t> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) add();
    const std::uint32_t number = free_.back();
    free_.pop_back();
    return {number, use(number).fetch_add(1, std::memory_order_acq_rel) + 1};
  }

  void give_back(std::uint32_t number) noexcept {
    const std::lock_guard lock(mutex_);
    use(number).fetch_add(1, std::memory_order_acq_rel);
    free_.push_back(number);
  }

  [[nodiscard]] std::uint64_t use_of(std::uint32_t number) {
    return use(number).load(std::memory_order_acquire);
  }

 private:
  Use& use(std::uint32_t number) {
    const auto chunk = std::size_t(std::bit_width(number) - 1);
    return chunks_[chunk].load(std::memory_order_acquire)[number - (1U << chunk)];
  }

  // The free list then has room for all numbers, so that giving one back never fails.
  void add() {
    if (count_ + 1 == kMostNumbers) throw std::bad_alloc();
    const std::uint32_t first = count_ + 1;
    auto made = std::make_unique<Use[]>(first);
    free_.reserve(count_ + first);
    chunks_[std::size_t(std::bit_width(first) - 1)].store(made.release(), std::memory_order_release);
    for (std::uint32_t number = 2 * first; number-- > first;) free_.push_back(number);
    count_ += first;
  }

  std::array<std::atomic<Use*>, kNumberBits> chunks_{};
  ForkSafeMutex mutex_;  // guards what follows
  std::vector<std::uint32_t> free_;
  std::uint32_t count_ = 0;
};

// Made when the library is loaded, and never destroyed: policies may end while the process does.
Numbers& numbers = *new Numbers;

std::uint32_t number_in(std::uint64_t digest) {
  return static_cast<std::uint32_t>(digest) & (kMostNumbers - 1);
}

}  // namespace

class PolicyIdentity::Unnamed : NonCopyable {
 public:
  Unnamed() {
    const auto [number, use] = numbers.take();
    digest = kUnnamedBit | (use & kUseMask) << kNumberBits | number;
  }
  ~Unnamed() { numbers.give_back(number_in(digest)); }

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
