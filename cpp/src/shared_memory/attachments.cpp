#include "shared_memory/attachments.hpp"

namespace overlimit::shared_memory {
namespace {

std::vector<std::unique_ptr<table::Shard>> shards_of(Mapping& mapping, const Sizes& sizes,
                                                     const table::Holders& holders) {
  const Layout layout(sizes.max_keys, sizes.max_bytes);
  std::vector<std::unique_ptr<table::Shard>> shards;
  for (unsigned i = 0; i < layout.shards(); ++i) {
    shards.push_back(std::make_unique<table::Shard>(layout.place(mapping.base(), i), &holders));
  }
  return shards;
}

Sizes sizes_of(const Header& header) { return {header.max_keys, header.max_bytes}; }

}  // namespace

ForkSafeMutex Attachments::mutex_;
std::map<FileId, Attachments::Shared> Attachments::shared_;
std::vector<std::unique_ptr<Attachment>> Attachments::old_;

Attachment::Attachment(Mapping& mapping)
    : mapping_(mapping),
      sizes_(sizes_of(mapping.head().header)),
      slots_(mapping.fd(), mapping.head().slots),
      table_(mapping.head().table, shards_of(mapping, sizes_, slots_)) {}

SharedFile Attachments::file_at(const std::string& path, mode_t mode) {
  return {path, mode, [](const FileId& id) { return shared_.contains(id); }};
}

Attachment& Attachments::open_or_create(const std::string& path, mode_t mode, const Sizes& sizes) {
  const std::lock_guard lock(mutex_);
  const SharedFile file = file_at(path, mode);
  for (;;) {
    if (std::unique_ptr<Mapping> mapping = file.open_or_create(sizes))
      return add_user(std::move(mapping), path);
    const FileId id = file.id();
    if (shared_.contains(id)) return add_user(id, path);
  }
}

Attachment* Attachments::open(const std::string& path, mode_t mode) {
  const std::lock_guard lock(mutex_);
  const SharedFile file = file_at(path, mode);
  if (std::unique_ptr<Mapping> mapping = file.open()) return &add_user(std::move(mapping), path);
  const FileId id = file.id();
  return shared_.contains(id) ? &add_user(id, path) : nullptr;
}

Attachment& Attachments::add_user(std::unique_ptr<Mapping> mapping, const std::string& path) {
  const FileId id = mapping->id();
  [[maybe_unused]] static const bool registered = (call_in_children(leave_descriptors_to_parent), true);
  auto attachment = std::make_unique<Attachment>(*mapping);
  shared_[id] = {std::move(mapping), std::move(attachment), 0};
  return add_user(id, path);
}

Attachment& Attachments::add_user(const FileId& id, const std::string& path) {
  Shared& shared = shared_.at(id);
  Attachment& own = own_of(shared, path);
  ++shared.users;
  return own;
}

Attachment& Attachments::own_of(Shared& shared, const std::string& path) {
  if (!shared.attachment->is_own()) {
    shared.mapping->restore_descriptor(path);
    auto own = std::make_unique<Attachment>(*shared.mapping);
    old_.push_back(std::move(shared.attachment));
    shared.attachment = std::move(own);
  }
  return *shared.attachment;
}

Attachment& Attachments::renewed(Attachment& old, const std::string& path) {
  const std::lock_guard lock(mutex_);
  return own_of(shared_.at(old.mapping().id()), path);
}

void Attachments::leave_descriptors_to_parent() noexcept {
  for (auto& [id, shared] : shared_) shared.mapping->leave_descriptor_to_parent();
}

void Attachments::unlink(const std::string& path, mode_t mode) {
  const std::lock_guard lock(mutex_);
  file_at(path, mode).unlink();
}

void Attachments::release(Attachment& attachment) {
  const std::lock_guard lock(mutex_);
  const auto found = shared_.find(attachment.mapping().id());
  if (--found->second.users > 0) return;
  if (!found->second.attachment->is_own()) old_.push_back(std::move(found->second.attachment));
  shared_.erase(found);
}

}  // namespace overlimit::shared_memory
