#include "shared_memory/shared_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace overlimit::shared_memory {
namespace {

constexpr mode_t kAllModes = 0777;

/// A descriptor that is closed unless somebody takes it.
class Descriptor : NonCopyable {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const { return fd_; }
  int take() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

std::string text_of(int error) { return std::generic_category().message(error); }

std::array<char, 40> this_boot() {
  std::array<char, 40> id{};
  std::ifstream("/proc/sys/kernel/random/boot_id").read(id.data(), id.size() - 1);
  return id;
}

FileId id_of(const struct stat& status) { return {status.st_dev, status.st_ino}; }

std::string octal(mode_t mode) {
  std::array<char, 8> digits{};
  std::snprintf(digits.data(), digits.size(), "%o", unsigned(mode));
  return digits.data();
}

}  // namespace

void require_system() {}

std::uint64_t check_of(const Header& header) {
  return hash_of({reinterpret_cast<const char*>(&header), offsetof(Header, check)});
}

std::string path_of(const std::string& name_or_path, const FileKind& kind) {
  if (name_or_path.starts_with('/')) return name_or_path;
  return "/dev/shm/overlimit-" + std::to_string(::geteuid()) + "-" + name_or_path + kind.suffix + "-v" +
         std::to_string(kind.version);
}

FileId FileId::of(int fd) noexcept {
  struct stat status {};
  return fd >= 0 && ::fstat(fd, &status) == 0 ? id_of(status) : FileId{};
}

Mapping::Mapping(int fd, const FileId& id, std::size_t bytes) : id_(id), bytes_(bytes) {
  void* const base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) throw StoreConfigError("cannot map the shared memory: " + text_of(errno));
  base_ = static_cast<std::byte*>(base);
}

Mapping::~Mapping() {
  ::munmap(base_, bytes_);
  if (has_descriptor()) ::close(fd_);
}

bool Mapping::has_descriptor() const noexcept { return FileId::of(fd_) == id_; }

bool Mapping::open_descriptor(const std::string& path) noexcept {
  Descriptor fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (FileId::of(fd.get()) != id_) return false;
  fd_ = fd.take();
  return true;
}

void Mapping::restore_descriptor(const std::string& path) {
  if (has_descriptor() || open_descriptor(path)) return;
  throw StoreConfigError("this process has closed the descriptor of the shared memory " + path +
                         ", and the file is not there any more: restart the process");
}

// The new descriptor gets the number of the old one, which is closed by that. Who forks may hold locks, so
// nothing is allocated.
void Mapping::leave_descriptor_to_parent() noexcept {
  if (!has_descriptor()) return void(fd_ = -1);
  std::array<char, 32> path{"/proc/self/fd/"};
  std::to_chars(path.data() + std::strlen(path.data()), path.data() + path.size() - 1, fd_);
  const int own = ::open(path.data(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (own < 0) {
    ::close(std::exchange(fd_, -1));
    return;
  }
  ::dup3(own, fd_, O_CLOEXEC);
  ::close(own);
}

void SharedFile::refuse(const std::string& why) const {
  throw StoreConfigError("the shared memory " + path_ + " " + why);
}

void SharedFile::refuse_unusable(const std::string& why) const {
  refuse(why + ": " + kind_.remedy + ", or " + kind_.elsewhere);
}

void SharedFile::refuse_foreign(const std::string& why) const {
  refuse(why + ", and is left alone: " + kind_.elsewhere);
}

void SharedFile::refuse(const std::string& doing, int error) const {
  throw StoreConfigError("cannot " + doing + " the shared memory " + path_ + ": " + text_of(error));
}

FileId SharedFile::id() const {
  struct stat status {};
  return ::lstat(path_.c_str(), &status) == 0 ? id_of(status) : FileId{};
}

std::unique_ptr<Mapping> SharedFile::open() const {
  if (is_mapped_(id())) return nullptr;
  int stale = -1;
  std::unique_ptr<Mapping> mapping = open(stale);
  const Descriptor closed(stale);
  return mapping;
}

// Others may create, replace or remove the file at the same time, so it is tried again.
std::unique_ptr<Mapping> SharedFile::open_or_create(const Sizes& sizes) const {
  for (int attempt = 0; attempt < 100; ++attempt) {
    if (is_mapped_(id())) return nullptr;
    int stale = -1;
    if (std::unique_ptr<Mapping> mapping = open(stale)) return mapping;
    const Descriptor closed(stale);
    if (std::unique_ptr<Mapping> mapping = create(sizes, stale)) return mapping;
  }
  refuse("is created and removed by other processes again and again");
}

/// nullptr if there is no file, or not any more, or one from before the machine was started, whose descriptor
/// `stale` becomes.
std::unique_ptr<Mapping> SharedFile::open(int& stale) const {
  Descriptor fd(::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (fd.get() < 0) {
    if (errno == ENOENT) return nullptr;
    if (errno == ELOOP) refuse_foreign("is a symbolic link, which may lead anywhere");
    if (errno == EACCES)
      refuse("belongs to another user who does not let us in: give it another name, or run as that user");
    refuse("open", errno);
  }
  const struct stat status = status_of(fd.get());
  if (is_mapped_(id_of(status))) return nullptr;
  check_owner(status);
  const auto bytes = static_cast<std::size_t>(status.st_size);
  check_magic(fd.get());
  check_mode(status);
  if (bytes < sizeof(FileHead)) refuse_unusable("is damaged, too short by far");
  auto mapping = std::make_unique<Mapping>(fd.get(), id_of(status), bytes);
  const Header header = mapping->head().header;
  check_header(header, bytes);
  if (header.boot_id != this_boot()) {
    stale = fd.take();
    return nullptr;
  }
  if (!mapping->open_descriptor(path_)) mapping.reset();
  return mapping;
}

struct stat SharedFile::status_of(int fd) const {
  struct stat status {};
  if (::fstat(fd, &status) != 0) refuse("look at", errno);
  return status;
}

void SharedFile::check_magic(int fd) const {
  std::array<char, 8> magic{};
  const bool is_read = ::pread(fd, magic.data(), magic.size(), 0) == ssize_t(magic.size());
  if (!is_read || magic != kind_.magic) refuse_foreign("is not one of overlimit's for this use");
}

void SharedFile::check_owner(const struct stat& status) const {
  if (!S_ISREG(status.st_mode)) refuse_foreign("is not a regular file");
  if (status.st_uid != ::geteuid() && status.st_uid != 0) {
    refuse("belongs to the user with the id " + std::to_string(status.st_uid) +
           ", who could change it: " + kind_.elsewhere);
  }
}

void SharedFile::check_mode(const struct stat& status) const {
  const mode_t wider = status.st_mode & 077 & ~mode_;
  if (wider != 0) {
    refuse("has the mode " + octal(status.st_mode & kAllModes) +
           ", which lets in more than mode=" + octal(mode_) + " does: change its mode, or give a wider one");
  }
}

void SharedFile::check_header(const Header& header, std::size_t bytes) const {
  if (header.version != kind_.version) {
    refuse_unusable("has version " + std::to_string(header.version) +
                    ", and this release of overlimit uses version " + std::to_string(kind_.version));
  }
  const bool is_sound = header.check == check_of(header) && header.bytes == bytes;
  if (!is_sound) refuse_unusable("is damaged");
  if (header.layout != kind_.layout())
    refuse_unusable("was made by a build of overlimit that lays it out in another way");
  if (kind_.bytes({header.max_keys, header.max_bytes}) != bytes) refuse_unusable("is damaged");
}

/// nullptr if others were faster.
std::unique_ptr<Mapping> SharedFile::create(const Sizes& sizes, int stale) const {
  remove_leftovers();
  std::string temporary = path_ + ".XXXXXX.new";
  constexpr int kSuffix = 4;
  Descriptor fd(::mkostemps(temporary.data(), kSuffix, O_CLOEXEC));
  if (fd.get() < 0) refuse("create", errno);
  try {
    if (!claim(fd.get())) return ::unlink(temporary.c_str()), nullptr;
    if (::fchmod(fd.get(), mode_) != 0) refuse("set the mode of", errno);
    const std::size_t bytes = kind_.bytes(sizes);
    reserve(fd.get(), bytes);
    auto mapping = std::make_unique<Mapping>(fd.get(), id_of(status_of(fd.get())), bytes);
    Header& header = (new (mapping->base()) FileHead{})->header;
    header = {kind_.magic,     kind_.version, 0, kind_.layout(), bytes, sizes.max_keys,
              sizes.max_bytes, this_boot(),   0};
    header.check = check_of(header);
    kind_.format(*mapping, sizes);
    if (!mapping->open_descriptor(temporary) || !publish(temporary, stale)) mapping.reset();
    ::unlink(temporary.c_str());
    ::flock(fd.get(), LOCK_UN);
    return mapping;
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

/// Locks a temporary file until the end of this process or of the creation, which tells it from leftovers.
/// False if another creator has taken it for one before it was locked.
bool SharedFile::claim(int fd) const {
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    refuse("lock", errno);
  }
  return status_of(fd).st_nlink > 0;
}

void SharedFile::reserve(int fd, std::size_t bytes) const {
  int error = EINTR;
  while (error == EINTR) {
    error = ::posix_fallocate(fd, 0, static_cast<off_t>(bytes));
    if (error < 0) error = errno;  // as Zig's C library has it
  }
  if (error == 0) return;
  if (error == ENOSPC) {
    throw StoreConfigError(
        "there is no room for " + std::to_string(bytes) + " bytes of shared memory in " +
        std::filesystem::path(path_).parent_path().string() +
        ": make it larger (Docker has --shm-size for /dev/shm, which is 64 MB otherwise), or " +
        kind_.economy);
  }
  refuse("reserve memory for", error);
}

/// Gives what was made its name. False if others were faster.
bool SharedFile::publish(const std::string& temporary, int stale) const {
  if (stale < 0) {
    if (::link(temporary.c_str(), path_.c_str()) == 0) return true;
    if (errno != EEXIST) refuse("create", errno);
    return false;
  }
  // Of those who replace the same file, only the first may.
  if (::flock(stale, LOCK_EX | LOCK_NB) != 0) return false;
  struct stat status {};
  if (::fstat(stale, &status) != 0 || id() != id_of(status)) return false;
  if (::rename(temporary.c_str(), path_.c_str()) != 0) refuse("replace", errno);
  return true;
}

/// Removes what processes have left behind that died while they created a file.
void SharedFile::remove_leftovers() const {
  const std::filesystem::path path(path_);
  const std::string start = path.filename().string() + ".";
  std::error_code ignored;
  for (const auto& each : std::filesystem::directory_iterator(path.parent_path(), ignored)) {
    const std::string name = each.path().filename().string();
    if (!name.starts_with(start) || !name.ends_with(".new") || name.size() != start.size() + 10) continue;
    struct stat status {};
    if (::lstat(each.path().c_str(), &status) != 0) continue;
    const Descriptor fd(::open(each.path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (fd.get() >= 0 && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(each.path().c_str());
  }
}

void SharedFile::unlink() const {
  remove_leftovers();
  struct stat status {};
  if (::lstat(path_.c_str(), &status) != 0) {
    if (errno == ENOENT) return;
    refuse("look at", errno);
  }
  if (!S_ISREG(status.st_mode)) refuse_foreign("is not a regular file");
  if (status.st_uid != ::geteuid()) {
    refuse("belongs to the user with the id " + std::to_string(status.st_uid) + ", who alone may remove it");
  }
  const Descriptor fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (fd.get() < 0) {
    if (errno == ENOENT) return;
    refuse("open", errno);
  }
  check_magic(fd.get());
  if (::unlink(path_.c_str()) != 0 && errno != ENOENT) refuse("remove", errno);
}

}  // namespace overlimit::shared_memory
