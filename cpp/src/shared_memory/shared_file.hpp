// Finding, creating, checking and removing the file that processes share.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "overlimit/errors.hpp"
#include "overlimit/limit.hpp"
#include "overlimit/non_copyable.hpp"
#include "table/shard_mutex.hpp"

namespace overlimit::shared_memory {

inline constexpr std::size_t kMostProcesses = 1024;

/// A place for a process. Whoever holds a record lock on its byte of the file is that process.
struct ProcessSlot {
  std::atomic<std::uint32_t> generation;  ///< another one for each process
  std::atomic<std::uint32_t> is_used;     ///< 0 once a process has closed the file in an orderly way
};

/// Written once, before anybody else sees the file.
struct Header {
  std::array<char, 8> magic;
  std::uint32_t version;
  std::uint32_t unused;
  std::uint64_t layout;  ///< a hash of how everything is laid out
  std::uint64_t bytes;   ///< of the file
  std::uint64_t max_keys;
  std::uint64_t max_bytes;  ///< as it was asked for
  std::array<char, 40> boot_id;
  std::uint64_t check;  ///< a hash of what is above
};

/// What every shared file begins with, whatever it is for.
struct FileHead {
  Header header;
  std::array<ProcessSlot, kMostProcesses> slots;
};

[[nodiscard]] std::uint64_t check_of(const Header& header);

/// Which file it is, whatever its name.
struct FileId {
  dev_t device;
  ino_t inode;

  /// All 0 for a descriptor that is not open.
  [[nodiscard]] static FileId of(int fd) noexcept;
  auto operator<=>(const FileId&) const = default;
};

struct Sizes {
  std::size_t max_keys;
  std::size_t max_bytes;
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
  [[nodiscard]] Sizes sizes() const { return {head().header.max_keys, head().header.max_bytes}; }

 private:
  int fd_ = -1;
  FileId id_;
  std::byte* base_ = nullptr;
  std::size_t bytes_;
};

/// What a process makes of the memory of a file.
class View : NonCopyable {
 public:
  View() = default;
  virtual ~View() = default;
};

/// What files of one kind hold behind their head.
struct FileKind {
  std::array<char, 8> magic;
  std::uint32_t version;      ///< to be increased when the same bytes come to mean something else
  const char* suffix;         ///< of what such a file is called after its name
  const char* remedy;         ///< what to do with a file of this kind that cannot be used
  const char* elsewhere;      ///< what to do otherwise, and if the file is somebody else's
  const char* economy;        ///< what to do if there is no room for one
  std::uint64_t (*layout)();  ///< a hash of the sizes and the places of everything in the file
  std::size_t (*bytes)(const Sizes& sizes);  ///< of a whole file
  /// Makes the zeroed memory of a file, which nobody else has seen, an empty one of this kind.
  void (*format)(Mapping& mapping, const Sizes& sizes);
  std::unique_ptr<View> (*view)(Mapping& mapping, const table::Holders& processes);
};

/// Throws StoreConfigError where no processes can share a file.
void require_system();

/// Whether it can be the name of a file in /dev/shm, or the absolute path of one.
[[nodiscard]] inline bool is_name_or_path(const std::string& name) {
  return name.starts_with('/') ? !name.ends_with('/') : is_key_name(name);
}
/// Where the file of a name or a path is, for this user.
[[nodiscard]] std::string path_of(const std::string& name_or_path, const FileKind& kind);

/// `is_mapped` tells whether this process has mapped a file already, which is not opened again.
class SharedFile {
 public:
  using IsMapped = std::function<bool(const FileId&)>;

  SharedFile(const FileKind& kind, std::string path, mode_t mode, IsMapped is_mapped)
      : kind_(kind), path_(std::move(path)), mode_(mode), is_mapped_(std::move(is_mapped)) {}
  [[nodiscard]] const std::string& path() const { return path_; }
  /// Which file has the path now; all 0: none.
  [[nodiscard]] FileId id() const;
  /// Opens the file, or makes one. nullptr if this process has mapped it meanwhile. Throws StoreConfigError.
  [[nodiscard]] std::unique_ptr<Mapping> open_or_create(const Sizes& sizes) const;
  /// nullptr if there is none since the machine was started, or this process has mapped it.
  [[nodiscard]] std::unique_ptr<Mapping> open() const;
  /// Throws StoreConfigError for a file that is not of this kind.
  void unlink() const;

 private:
  [[nodiscard]] std::unique_ptr<Mapping> open(int& stale) const;
  [[nodiscard]] std::unique_ptr<Mapping> create(const Sizes& sizes, int stale) const;
  [[noreturn]] void refuse(const std::string& why) const;
  [[noreturn]] void refuse_unusable(const std::string& why) const;
  /// For one that is left as it is, as it may be anybody's.
  [[noreturn]] void refuse_foreign(const std::string& why) const;
  [[noreturn]] void refuse(const std::string& doing, int error) const;
  [[nodiscard]] struct stat status_of(int fd) const;
  void check_magic(int fd) const;
  void check_owner(const struct stat& status) const;
  void check_mode(const struct stat& status) const;
  void check_header(const Header& header, std::size_t bytes) const;
  [[nodiscard]] bool claim(int fd) const;
  void reserve(int fd, std::size_t bytes) const;
  [[nodiscard]] bool publish(const std::string& temporary, int stale) const;
  void remove_leftovers() const;

  const FileKind& kind_;
  std::string path_;
  mode_t mode_;
  IsMapped is_mapped_;
};

}  // namespace overlimit::shared_memory
