// Files that processes share, on a system that lacks what they need: who wants one is told what to use
// instead.
#include "shared_memory/process_slots.hpp"
#include "shared_memory/shared_file.hpp"

namespace overlimit::shared_memory {
namespace {

[[noreturn]] void throw_missing() {
  throw StoreConfigError(
      "shared memory needs locks of open file descriptions, by which processes notice that another one has "
      "died, and is there on Linux only: use Redis on a unix socket, such as "
      "'unix:///run/redis.sock', or memory:// if there is one process");
}

}  // namespace

void require_system() { throw_missing(); }
std::string path_of(const std::string& /*name_or_path*/, const FileKind& /*kind*/) { throw_missing(); }
std::unique_ptr<Mapping> SharedFile::open_or_create(const Sizes& /*sizes*/) const { throw_missing(); }
std::unique_ptr<Mapping> SharedFile::open() const { throw_missing(); }
void SharedFile::unlink() const { throw_missing(); }
ProcessSlots::ProcessSlots(int /*fd*/, std::span<ProcessSlot> /*slots*/) { throw_missing(); }

// Of a file that cannot be opened, nobody asks anything.
FileId SharedFile::id() const { return {}; }
Mapping::~Mapping() = default;
bool Mapping::has_descriptor() const noexcept { return false; }
void Mapping::restore_descriptor(const std::string& /*path*/) {}
void Mapping::leave_descriptor_to_parent() noexcept {}
ProcessSlots::~ProcessSlots() = default;
bool ProcessSlots::has_ended(std::uint32_t /*holder*/) const { return false; }
bool ProcessSlots::is_attached(std::size_t /*slot*/) const { return false; }
std::size_t ProcessSlots::attached() const { return 0; }
std::size_t ProcessSlots::alive() const { return 0; }

}  // namespace overlimit::shared_memory
