#include "redis/knowledge/lease_file.hpp"

#include <mutex>

#include "shared_memory/attachments.hpp"

namespace overlimit::redis {

using shared_memory::Attachment;
using shared_memory::Attachments;

LeaseFile::~LeaseFile() {
  if (Attachment* const attachment = attachment_.load()) Attachments::release(*attachment);
}

bool LeaseFile::name(const RedisStore::LeaseIn& file, std::string place) {
  const std::lock_guard lock(naming_);
  if (state_.load() != State::none) return file.name_or_path == file_.name_or_path;
  file_ = file;
  place_ = std::move(place);
  state_.store(State::named);
  return true;
}

// Not under a lock: what is warned may wait for another thread.
void LeaseFile::open_it() {
  try {
    constexpr shared_memory::Sizes kSizes{HostLeases::kBuckets * HostLeases::kBucketSize,
                                          sizeof(HostLeases::Head)};
    const std::string path = shared_memory::path_of(file_.name_or_path, HostLeases::kFiles);
    keep(Attachments::open_or_create(HostLeases::kFiles, path, file_.mode, kSizes));
  } catch (const StoreConfigError& error) {
    warn(error);
  }
}

void LeaseFile::keep_open() {
  open();
  Attachment* const known = attachment_.load(std::memory_order_acquire);
  if (known == nullptr) return;
  known->look_for_descriptor();
  known->processes().set_attached(true);
  if (known->is_own()) return;
  try {
    attachment_.store(
        &Attachments::renewed(*known, shared_memory::path_of(file_.name_or_path, HostLeases::kFiles)));
  } catch (const StoreConfigError& error) {
    warn(error);
  }
}

void LeaseFile::warn(const StoreConfigError& error) {
  if (state_.exchange(State::failed) == State::failed || !file_.warn) return;
  file_.warn(std::string("each process leases for itself, as lease_in cannot be used: ") + error.what());
}

HostLeases* LeaseFile::leases() {
  Attachment* const attachment = attachment_.load(std::memory_order_acquire);
  return attachment == nullptr || state_.load(std::memory_order_relaxed) == State::failed
             ? nullptr
             : &attachment->view<HostLeases>();
}

bool LeaseFile::leave() {
  Attachment* const attachment = attachment_.load();
  if (attachment == nullptr || !attachment->is_own()) return true;
  attachment->processes().set_attached(false);
  return attachment->processes().alive() == 0;
}

void LeaseFile::keep(Attachment& opened) {
  Attachment* known = nullptr;
  if (!attachment_.compare_exchange_strong(known, &opened)) Attachments::release(opened);
  State named = State::named;
  state_.compare_exchange_strong(named, State::open);
}

}  // namespace overlimit::redis
