#include "overlimit/shared_memory_store.hpp"

#include <unistd.h>
#include <mutex>

#include <ctime>

#include "overlimit/stopwatch.hpp"
#include "shared_memory/attachments.hpp"
#include "shared_memory/shared_table.hpp"
#include "table/keys.hpp"

namespace overlimit {
namespace {

using shared_memory::Attachment;
using shared_memory::Attachments;
using shared_memory::SharedFile;
using shared_memory::SharedTable;
using shared_memory::Sizes;

constexpr std::size_t kDefaultKeys = 100'000;
constexpr std::size_t kDefaultBytes = std::size_t{32} << 20;
constexpr Duration kRetryAfter{100'000};
constexpr Duration kLookEvery{1'000'000};

void check_name(const std::string& name) {
  if (shared_memory::is_name_or_path(name)) return;
  throw std::invalid_argument(
      "'" + name +
      "' is no name for shared memory: a name has 1 to 64 letters, digits, '_', '.' and "
      "'-'; a path is absolute, such as '/dev/shm/myapp'");
}

void check_options(const SharedMemoryStore::Options& options) {
  check_name(options.name_or_path);
  if ((options.mode & ~mode_t{0666}) != 0 || (options.mode & 0600) != 0600) {
    throw std::invalid_argument(
        "mode must let the owner read and write, and nobody execute, such as 0o600 or 0o660");
  }
  if (options.timeout <= Duration{}) throw std::invalid_argument("timeout must be above 0");
}

table::Table& table_of(Attachment& attachment) { return attachment.view<SharedTable>().table(); }

/// Since the start of the machine: cheap enough for every call, and exact to a few milliseconds.
Instant coarse_time() {
#ifdef CLOCK_MONOTONIC_COARSE
  constexpr auto kClock = CLOCK_MONOTONIC_COARSE;
#else
  constexpr auto kClock = CLOCK_MONOTONIC;
#endif
  timespec time{};
  ::clock_gettime(kClock, &time);
  return Instant(time.tv_sec * 1'000'000 + time.tv_nsec / 1'000);
}

}  // namespace

/// The file of one store: closed until the first call.
class SharedMemoryStore::Impl {
 public:
  explicit Impl(Options options) : options_(std::move(options)) {
    shared_memory::require_system();
    check_options(options_);
    const Sizes sizes = wanted_sizes();
    check_sizes(sizes.max_keys, sizes.max_bytes, kMinBytes);
  }
  ~Impl() {
    if (Attachment* const attachment = attachment_.load()) Attachments::release(*attachment);
  }

  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] std::string path() const {
    return shared_memory::path_of(options_.name_or_path, SharedTable::kFiles);
  }

  /// Whether it is the same file, or would be if both were opened now.
  [[nodiscard]] bool is_same_as(const Impl& other) const {
    const Attachment* const own = attachment_.load();
    const Attachment* const theirs = other.attachment_.load();
    if (own == nullptr || theirs == nullptr) return path() == other.path();
    return &own->mapping() == &theirs->mapping();
  }

  /// For a call: opens the file, or creates it.
  Attachment& attached() {
    Attachment* attachment = attachment_.load(std::memory_order_acquire);
    if (attachment == nullptr || !attachment->is_own()) [[unlikely]]
      attachment = &open_for_call(attachment);
    if (coarse_time() >= next_look_.load(std::memory_order_relaxed)) look_whether_unlinked(*attachment);
    return *attachment;
  }
  /// To find something out: nullptr if there is no file, or none that can be used, as calls will say.
  Attachment* attached_if_any() {
    Attachment* const attachment = attachment_.load(std::memory_order_acquire);
    if (attachment != nullptr) return &attached();
    try {
      return keep(Attachments::open(SharedTable::kFiles, path(), options_.mode));
    } catch (const StoreConfigError&) {
      return nullptr;
    }
  }

  [[nodiscard]] bool is_unlinked() {
    Attachment* const attachment = attachment_.load(std::memory_order_acquire);
    if (attachment != nullptr) look_whether_unlinked(*attachment);
    return is_unlinked_;
  }

 private:
  [[nodiscard]] Sizes wanted_sizes() const {
    return {options_.max_keys.value_or(kDefaultKeys), options_.max_bytes.value_or(kDefaultBytes)};
  }
  Attachment& open_for_call(Attachment* old) {
    if (old != nullptr) {
      Attachment& own = Attachments::renewed(*old, path());
      attachment_.store(&own, std::memory_order_release);
      return own;
    }
    {
      const std::lock_guard lock(failure_mutex_);
      if (failure_ && coarse_time() < failed_at_ + kRetryAfter) throw StoreConfigError(*failure_);
      failure_.reset();
    }
    try {
      return open_or_create();
    } catch (const StoreConfigError& error) {
      const std::lock_guard lock(failure_mutex_);
      failure_ = error;
      failed_at_ = coarse_time();
      throw;
    }
  }

  Attachment& open_or_create() {
    Attachment& kept =
        *keep(&Attachments::open_or_create(SharedTable::kFiles, path(), options_.mode, wanted_sizes()));
    warn_of_other_sizes(kept.mapping().sizes());
    return kept;
  }

  /// Keeps an attachment that was opened, unless another thread was faster.
  Attachment* keep(Attachment* opened) {
    if (opened == nullptr) return nullptr;
    Attachment* known = nullptr;
    if (attachment_.compare_exchange_strong(known, opened)) return opened;
    Attachments::release(*opened);
    return known;
  }

  void look_whether_unlinked(Attachment& attachment) {
    next_look_.store(coarse_time() + kLookEvery, std::memory_order_relaxed);
    attachment.look_for_descriptor();
    const SharedFile file(SharedTable::kFiles, path(), options_.mode, {});
    if (file.id() == attachment.mapping().id() || is_unlinked_.exchange(true)) return;
    if (attachment.has_warned()) return;
    warn(
        "the shared memory " + path() +
        " was removed while it is used: processes that start now count anew in another one, so that together "
        "they admit more than the limits. Restart all processes that use it");
  }

  void warn_of_other_sizes(const Sizes& sizes) {
    const bool other_keys = options_.max_keys && *options_.max_keys != sizes.max_keys;
    const bool other_bytes = options_.max_bytes && *options_.max_bytes != sizes.max_bytes;
    if (!other_keys && !other_bytes) return;
    warn("the shared memory " + path() + " was made with max_keys=" + std::to_string(sizes.max_keys) +
         " and max_bytes=" + std::to_string(sizes.max_bytes) +
         ", which hold for all who use it: what this store asks for is ignored until the file is removed");
  }

  void warn(const std::string& message) const {
    if (options_.warn) options_.warn(message);
  }

  Options options_;
  std::atomic<Attachment*> attachment_{nullptr};
  std::atomic<Instant> next_look_{Instant{}};
  std::atomic<bool> is_unlinked_{false};
  ForkSafeMutex failure_mutex_;  // guards what follows
  std::optional<StoreConfigError> failure_;
  Instant failed_at_{};
};

SharedMemoryStore::SharedMemoryStore(Options options)
    : TableStore(options.timeout), impl_(std::make_unique<Impl>(std::move(options))) {}

SharedMemoryStore::~SharedMemoryStore() = default;

const SharedMemoryStore::Options& SharedMemoryStore::options() const { return impl_->options(); }
std::string SharedMemoryStore::path() const { return impl_->path(); }

table::Table& SharedMemoryStore::table() { return table_of(impl_->attached()); }

bool SharedMemoryStore::is_same_as(const Store& other) const {
  const auto* const store = dynamic_cast<const SharedMemoryStore*>(&other);
  return store != nullptr && impl_->is_same_as(*store->impl_);
}

Duration SharedMemoryStore::ping(std::optional<Duration> /*timeout*/, const Interrupted& /*interrupted*/) {
  const Stopwatch stopwatch;
  (void)impl_->attached();
  return stopwatch.elapsed();
}

void SharedMemoryStore::unlink() { Attachments::unlink(SharedTable::kFiles, path(), impl_->options().mode); }

std::size_t SharedMemoryStore::size() {
  Attachment* const attachment = impl_->attached_if_any();
  if (attachment == nullptr) return 0;
  const std::size_t tracked = table_of(*attachment).state().totals.tracked.load();
  return std::min(tracked, attachment->mapping().sizes().max_keys);  // more only if the file is damaged
}

MemoryUsage SharedMemoryStore::usage() {
  Attachment* const attachment = impl_->attached_if_any();
  if (attachment == nullptr) return {};
  const Interrupted never;
  table::MutexWait wait(timeout(), never);
  const Sizes sizes = attachment->mapping().sizes();
  return {size(), sizes.max_keys, table_of(*attachment).touched_bytes(wait), sizes.max_bytes};
}

std::uint64_t SharedMemoryStore::crowded_calls() {
  Attachment* const attachment = impl_->attached_if_any();
  return attachment == nullptr ? 0 : table_of(*attachment).state().crowded_calls.load();
}

std::size_t SharedMemoryStore::damaged_shards() {
  Attachment* const attachment = impl_->attached_if_any();
  return attachment == nullptr ? 0 : table_of(*attachment).damaged_shards();
}

SharedMemoryStore::Processes SharedMemoryStore::processes() {
  Attachment* const attachment = impl_->attached_if_any();
  if (attachment == nullptr) return {};
  return {attachment->processes().attached(), attachment->processes().alive()};
}

std::size_t SharedMemoryStore::shards() {
  Attachment* const attachment = impl_->attached_if_any();
  return attachment == nullptr ? 0 : table_of(*attachment).shards().size();
}

std::size_t SharedMemoryStore::copy_keys(std::size_t shard, std::size_t below, std::size_t buckets,
                                         std::vector<KeptKey>& keys, const Interrupted& interrupted) {
  Attachment* const attachment = impl_->attached_if_any();
  if (attachment == nullptr) return 0;
  table::MutexWait wait(timeout(), interrupted);
  return table::copy_keys(table_of(*attachment), shard, below, buckets, keys, wait);
}

std::optional<KeptKey> SharedMemoryStore::copy_key(const PolicyIdentity& policy, std::string_view identifier,
                                                   const Interrupted& interrupted) {
  Attachment* const attachment = impl_->attached_if_any();
  if (attachment == nullptr) return std::nullopt;
  return copy_key(table_of(*attachment).state().hash(policy.digest(), identifier), interrupted);
}

std::optional<KeptKey> SharedMemoryStore::copy_key(const KeptKey::Hash& hash,
                                                   const Interrupted& interrupted) {
  Attachment* const attachment = impl_->attached_if_any();
  if (attachment == nullptr) return std::nullopt;
  table::MutexWait wait(timeout(), interrupted);
  return table::copy_key(table_of(*attachment), hash, wait);
}

void SharedMemoryStore::reset_key(const KeptKey::Hash& hash, const Interrupted& interrupted) {
  table::MutexWait wait(timeout(), interrupted);
  table::reset_key(table(), hash, wait);
}

void SharedMemoryStore::lock_key(const KeptKey::Hash& hash, Duration duration,
                                 const Interrupted& interrupted) {
  table::MutexWait wait(timeout(), interrupted);
  table::lock_key(table(), hash, duration, wait);
}

void SharedMemoryStore::unlock_key(const KeptKey::Hash& hash, const Interrupted& interrupted) {
  table::MutexWait wait(timeout(), interrupted);
  table::unlock_key(table(), hash, wait);
}

bool SharedMemoryStore::is_unlinked() { return impl_->is_unlinked(); }

}  // namespace overlimit
