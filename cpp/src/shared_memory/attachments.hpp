// The shared files that this process has open: each once, whoever asks for it.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "overlimit/forks.hpp"
#include "shared_memory/process_slots.hpp"
#include "shared_memory/shared_file.hpp"

namespace overlimit::shared_memory {

/// What this process has of a file: its slot, and its view.
class Attachment {
 public:
  Attachment(const FileKind& kind, Mapping& mapping);
  [[nodiscard]] Mapping& mapping() const { return mapping_; }
  [[nodiscard]] const ProcessSlots& processes() const { return slots_; }
  [[nodiscard]] const FileKind& kind() const { return kind_; }
  /// That of its kind.
  template <class Own>
  [[nodiscard]] Own& view() {
    return static_cast<Own&>(*view_);
  }
  /// Whether it belongs to this process, not to one that forked it, and has its slot as far as is known.
  [[nodiscard]] bool is_own() const {
    return fork_generation_ == fork_generation() && !has_lost_slot_.load(std::memory_order_relaxed);
  }
  /// To be called now and then: somebody may have closed the descriptor, and the slot's lock with it.
  void look_for_descriptor() {
    if (!mapping_.has_descriptor()) has_lost_slot_.store(true, std::memory_order_relaxed);
  }
  /// Whether it was asked before: of several stores of a file, one warns that it was removed.
  [[nodiscard]] bool has_warned() { return has_warned_.exchange(true); }

 private:
  const FileKind& kind_;
  Mapping& mapping_;
  std::uint64_t fork_generation_ = fork_generation();
  std::atomic<bool> has_lost_slot_{false};
  std::atomic<bool> has_warned_{false};
  ProcessSlots slots_;
  std::unique_ptr<View> view_;
};

/// Thread-safe, also while other threads fork.
class Attachments {
 public:
  /// For one more user. `sizes` are for a file that is made now. Throws StoreConfigError.
  static Attachment& open_or_create(const FileKind& kind, const std::string& path, mode_t mode,
                                    const Sizes& sizes);
  /// nullptr if there is no file.
  static Attachment* open(const FileKind& kind, const std::string& path, mode_t mode);
  /// In the place of one that is not this process's own any more, for the same user. Throws StoreConfigError.
  static Attachment& renewed(Attachment& old, const std::string& path);
  /// Removes the file, and what processes have left behind that died while they created it.
  static void unlink(const FileKind& kind, const std::string& path, mode_t mode);
  static void release(Attachment& attachment);

 private:
  struct Shared {
    std::unique_ptr<Mapping> mapping;
    std::unique_ptr<Attachment> attachment;
    std::size_t users = 0;
  };

  static SharedFile file_at(const FileKind& kind, const std::string& path, mode_t mode);
  static Attachment& add_user(const FileKind& kind, const FileId& id, const std::string& path);
  static Attachment& add_user(const FileKind& kind, std::unique_ptr<Mapping> mapping,
                              const std::string& path);
  static Attachment& own_of(Shared& shared, const std::string& path);
  static void leave_descriptors_to_parent() noexcept;

  static ForkSafeMutex mutex_;  // guards what follows
  static std::map<FileId, Shared> shared_;
  /// Views of a parent, or from before the descriptor was closed. Other threads may use them: left alone.
  static std::vector<std::unique_ptr<Attachment>> old_;
};

}  // namespace overlimit::shared_memory
