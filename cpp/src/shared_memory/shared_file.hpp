// Finding, creating, checking and removing the file that processes share.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

#include "shared_memory/layout.hpp"

namespace overlimit::shared_memory {

/// Which file it is, whatever its name.
struct FileId {
  dev_t device;
  ino_t inode;

  /// All 0 for a descriptor that is not open.
  [[nodiscard]] static FileId of(int fd) noexcept;
  auto operator<=>(const FileId&) const = default;
};

/// A file that is open and mapped. The lock of this process's slot lasts as long as the descriptor, which
/// others in the process may close by mistake, as those who become daemons do. What is mapped is another open
/// file description: a child shares that with its parent, and would keep a lock of it alive.
class Mapping : NonCopyable {
 public:
  /// Maps the file that `fd` is open for, and opens nothing.
  Mapping(int fd, const FileId& id, std::size_t bytes);
  ~Mapping();
  [[nodiscard]] int fd() const { return fd_; }
  /// Whether the descriptor is still that of the file.
  [[nodiscard]] bool has_descriptor() const noexcept;
  /// Opens the file for the lock. False if another file, or none, has the path.
  [[nodiscard]] bool open_descriptor(const std::string& path) noexcept;
  /// The same if the descriptor was closed. Throws StoreConfigError.
  void restore_descriptor(const std::string& path);
  /// In a child, at once: makes a descriptor of its own, so that the parent's lock ends with the parent.
  void leave_descriptor_to_parent() noexcept;
  [[nodiscard]] const FileId& id() const { return id_; }
  [[nodiscard]] std::byte* base() const { return base_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] FileHead& head() const { return *reinterpret_cast<FileHead*>(base_); }

 private:
  int fd_ = -1;
  FileId id_;
  std::byte* base_ = nullptr;
  std::size_t bytes_;
};

struct Sizes {
  std::size_t max_keys;
  std::size_t max_bytes;
};

/// `is_mapped` tells whether this process has mapped a file already, which is not opened again.
class SharedFile {
 public:
  using IsMapped = std::function<bool(const FileId&)>;

  SharedFile(std::string path, mode_t mode, IsMapped is_mapped)
      : path_(std::move(path)), mode_(mode), is_mapped_(std::move(is_mapped)) {}
  [[nodiscard]] const std::string& path() const { return path_; }
  /// Which file has the path now; all 0: none.
  [[nodiscard]] FileId id() const;
  /// Opens the file, or makes one. nullptr if this process has mapped it meanwhile. Throws StoreConfigError.
  [[nodiscard]] std::unique_ptr<Mapping> open_or_create(const Sizes& sizes) const;
  /// nullptr if there is none since the machine was started, or this process has mapped it.
  [[nodiscard]] std::unique_ptr<Mapping> open() const;
  void unlink() const;

 private:
  [[nodiscard]] std::unique_ptr<Mapping> open(int& stale) const;
  [[nodiscard]] std::unique_ptr<Mapping> create(const Sizes& sizes, int stale) const;
  [[noreturn]] void refuse(const std::string& why) const;
  [[noreturn]] void refuse(const std::string& doing, int error) const;
  void check_owner(const struct stat& status) const;
  void check_header(const Header& header, std::size_t bytes) const;
  [[nodiscard]] bool claim(int fd) const;
  void reserve(int fd, std::size_t bytes) const;
  [[nodiscard]] bool publish(const std::string& temporary, int stale) const;
  void remove_leftovers() const;

  std::string path_;
  mode_t mode_;
  IsMapped is_mapped_;
};

}  // namespace overlimit::shared_memory
