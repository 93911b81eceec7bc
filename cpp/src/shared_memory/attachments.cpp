#include "shared_memory/attachments.hpp"

#include <mutex>

namespace overlimit::shared_memory {

ForkSafeMutex Attachments::mutex_;
std::map<FileId, Attachments::Shared> Attachments::shared_;
std::vector<std::unique_ptr<Attachment>> Attachments::old_;

Attachment::Attachment(const FileKind& kind, Mapping& mapping)
    : kind_(kind),
      mapping_(mapping),
      slots_(mapping.fd(), mapping.head().slots),
      view_(kind.view(mapping, slots_)) {}

SharedFile Attachments::file_at(const FileKind& kind, const std::string& path, mode_t mode) {
  return {kind, path, mode, [](const FileId& id) { return shared_.contains(id); }};
}

Attachment& Attachments::open_or_create(const FileKind& kind, const std::string& path, mode_t mode,
                                        const Sizes& sizes) {
  const std::lock_guard lock(mutex_);
  const SharedFile file = file_at(kind, path, mode);
  for (;;) {
    if (std::unique_ptr<Mapping> mapping = file.open_or_create(sizes))
      return add_user(kind, std::move(mapping), path);
    const FileId id = file.id();
    if (shared_.contains(id)) return add_user(kind, id, path);
  }
}

Attachment* Attachments::open(const FileKind& kind, const std::string& path, mode_t mode) {
  const std::lock_guard lock(mutex_);
  const SharedFile file = file_at(kind, path, mode);
  if (std::unique_ptr<Mapping> mapping = file.open()) return &add_user(kind, std::move(mapping), path);
  const FileId id = file.id();
  return shared_.contains(id) ? &add_user(kind, id, path) : nullptr;
}

Attachment& Attachments::add_user(const FileKind& kind, std::unique_ptr<Mapping> mapping,
                                  const std::string& path) {
  const FileId id = mapping->id();
  [[maybe_unused]] static const bool registered = (call_in_children(leave_descriptors_to_parent), true);
  auto attachment = std::make_unique<Attachment>(kind, *mapping);
  shared_[id] = {std::move(mapping), std::move(attachment), 0};
  return add_user(kind, id, path);
}

Attachment& Attachments::add_user(const FileKind& kind, const FileId& id, const std::string& path) {
  Shared& shared = shared_.at(id);
  if (&shared.attachment->kind() != &kind) {
    throw StoreConfigError("the shared memory " + path +
                           " is in use for something else in this process: give one of the two another name");
  }
  Attachment& own = own_of(shared, path);
  ++shared.users;
  return own;
}

Attachment& Attachments::own_of(Shared& shared, const std::string& path) {
  if (!shared.attachment->is_own()) {
    shared.mapping->restore_descriptor(path);
    auto own = std::make_unique<Attachment>(shared.attachment->kind(), *shared.mapping);
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

void Attachments::unlink(const FileKind& kind, const std::string& path, mode_t mode) {
  const std::lock_guard lock(mutex_);
  file_at(kind, path, mode).unlink();
}

void Attachments::release(Attachment& attachment) {
  const std::lock_guard lock(mutex_);
  const auto found = shared_.find(attachment.mapping().id());
  if (--found->second.users > 0) return;
  if (!found->second.attachment->is_own()) old_.push_back(std::move(found->second.attachment));
  shared_.erase(found);
}

}  // namespace overlimit::shared_memory
